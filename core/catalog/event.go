package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events. Those about a schedule have Schedule set.
const (
	ProjectChanged   EventKind = "project_changed"   // this server runs by Version from now on
	ProjectRejected  EventKind = "project_rejected"  // Err is why; the last good ones hold
	WindowsPosted    EventKind = "windows_posted"    // workers ask the windows of Version from now on
	SchedulesChanged EventKind = "schedules_changed" // Count of them were added, changed or removed
	TriggerLaunched  EventKind = "trigger_launched"  // as run Run
	TriggerSkipped   EventKind = "trigger_skipped"   // Reason is why
	TriggerFailed    EventKind = "trigger_failed"    // Err is why; it is tried again
	SourceChanged    EventKind = "source_changed"    // Source has another generation, of Count hosts
	SourceWaiting    EventKind = "source_waiting"    // a generation of Source waits for approval; Reason is why
	SourceFailed     EventKind = "source_failed"     // Source cannot be fetched; Err is why
	Trouble          EventKind = "trouble"           // a failure that is tried again
)

// Event is something that an operator, or a metric, should know.
type Event struct {
	Kind     EventKind
	Version  int64
	By       string
	Count    int
	Schedule schedule.ID
	Source   string
	Run      string
	Reason   string
	Why      string // of TriggerSkipped: the reason in one word, see schedule.Skip
	Foreign  bool   // of TriggerSkipped: Reason may name hosts of tenants other than the schedule's
	Err      error
}

func (c *Catalog) report(e Event) {
	if c.cfg.Events != nil {
		c.cfg.Events(e)
	}
}

// trouble reports what is tried again. A server that stops has none.
func (c *Catalog) trouble(ctx context.Context, what string, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, core.ErrConflict) {
		return
	}
	c.cfg.Log.Warn(what, "error", err)
	c.report(Event{Kind: Trouble, Reason: what, Err: err})
}

// triggered passes on the engine's events.
func (c *Catalog) triggered(e schedule.Event) {
	out := Event{Schedule: e.Schedule, Run: e.Trigger.RunID, Err: e.Err}
	switch e.Kind {
	case schedule.EventTriggered:
		out.Kind = TriggerLaunched
	case schedule.EventSkipped:
		out.Kind, out.Run, out.Reason, out.Count, out.Why = TriggerSkipped, e.Skip.RunID, e.Skip.Reason.Text(), e.Skip.Count, cmp.Or(string(e.Skip.Reason.Code()), "other")
		out.Foreign = e.Schedule.Tenant != "" && NamesHosts(e.Skip.Reason) && reachesAll(e.Payload)
	case schedule.EventFailed:
		out.Kind = TriggerFailed
	case schedule.EventTrouble:
		out.Kind, out.Reason = Trouble, "a schedule could not be worked on"
	}
	c.report(out)
}

// ForeignSkip stands for such a reason where people of one tenant read it.
const ForeignSkip = "it could not be launched; people of all tenants see why"

// NamesHosts reports whether the reason of a skipped fire time may name hosts.
func NamesHosts(r core.Reason) bool { return r.Code() == core.Refused || r.Code() == core.NotLaunched }

// reachesAll reports whether a schedule launches on hosts of all tenants. One that cannot be read
// counts as such.
func reachesAll(data []byte) bool {
	var p payload
	return json.Unmarshal(data, &p) != nil || p.All
}
