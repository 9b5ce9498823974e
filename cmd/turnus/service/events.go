package service

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/telemetry"
)

// count counts an event for metrics; before there is an API, as while definitions are read at the
// start, nobody asks for them.
func (s *service) count(kind string) {
	if s.api != nil {
		s.api.CountEvent(kind)
	}
}

// event logs an event of a controller for the operator.
func (s *service) event(e controller.Event) {
	s.count(string(e.Kind))
	switch e.Kind {
	case controller.WindowMissed, controller.RunRefused, controller.WaveAsks: // keepNews has them
	default:
		s.report(newsOf(e))
	}
	switch e.Kind {
	case controller.QueueAway:
		s.con.Message(s.con.Paint(console.Yellow, "the queue does not answer; runs are accepted and wait; check Redis, its Sentinels and the network: ") + core.ErrorText(e.Err))
	case controller.QueueBack:
		s.con.Message(fmt.Sprintf("the queue answers again after %v; polls that failed: %d", e.Lasted.Round(time.Second/10), e.Count))
	case controller.QueueLost:
		s.con.Message(s.con.Paint(console.Yellow, "the queue was emptied") + ", and is filled again from the ledger")
	case controller.RunPaused:
		s.con.Message(s.con.Paint(console.Yellow, "run "+e.Run+" is paused: ") + console.Printable(e.Reason.Text())) // people who launch runs give some reasons: they must not look like a line of ours
	case controller.RunRepeated:
		s.con.Message(s.con.Paint(console.Yellow, "run "+e.Run+" was repeated in part: ") + core.Plural(e.Count, "job") + " ended a second time; what was recorded first counts")
	case controller.RunEnqueued:
		select {
		case s.enqueued <- e.Run:
		default: // a forecast that is not kept costs less than a server that is busy with them
		}
	case controller.RunEnded:
		s.notify.Notify()
		s.catalog.Ended(e.Run)
		if e.Status != nil {
			s.metrics.Add(telemetry.RunsEnded, 1, e.Status.Tenant, string(e.Status.Phase))
			s.con.Message(fmt.Sprintf("run %s is %s: %s", e.Run, e.Status.Phase, runview.OutcomeText(e.Status.Outcomes)))
		}
	}
}

func (s *service) catalogEvent(e catalog.Event) {
	s.count(string(e.Kind))
	s.countTrigger(e)
	s.report(newsOfCatalog(e, s.catalogSet()))
	switch e.Kind {
	case catalog.ProjectChanged:
		set := s.catalog.Set()
		if set != nil {
			s.con.Message(fmt.Sprintf("project: %s, %s, from %s", core.Plural(len(set.Playbooks), "playbook"), core.Plural(len(set.Inventory.Hosts), "host"), cmp.Or(e.By, "the ledger")))
			WarnOf(s.con, set)
			s.reportUnapproved()
		}
	case catalog.ProjectRejected:
		s.con.Message(s.con.Paint(console.Red, "the project is invalid, the last valid one stays in use: ") + reasoned(e))
	case catalog.SourceChanged:
		s.con.Message(fmt.Sprintf("source %s: %s", e.Source, core.Plural(e.Count, "host")))
	case catalog.SourceWaiting:
		s.con.Message(s.con.Paint(console.Yellow, "source "+e.Source+": a generation is waiting: ") + console.Printable(e.Reason) + "; see " + sources.Source{Name: e.Source}.Review())
	case catalog.SourceFailed:
		s.con.Message(s.con.Paint(console.Yellow, "source "+e.Source+" cannot be fetched, the last good hosts stay in use: ") + console.Printable(core.ErrorText(e.Err)))
	case catalog.TriggerLaunched:
		s.con.Message(fmt.Sprintf("schedule %s launches run %s", e.Schedule, e.Run))
	case catalog.TriggerSkipped:
		s.con.Message(fmt.Sprintf("schedule %s skips a fire time: %s", e.Schedule, console.Printable(e.Reason)))
	case catalog.TriggerFailed, catalog.Trouble:
		if text := strings.TrimSpace(fmt.Sprintf("%s %s: %s", e.Schedule, e.Reason, core.ErrorText(e.Err))); s.messages.Allow(text) {
			s.con.Message(s.con.Paint(console.Yellow, "trouble: ") + text)
		}
	}
}

// reasoned is why definitions are not taken: which ones, and what is wrong with them.
func reasoned(e catalog.Event) string {
	if e.Reason == "" {
		return core.ErrorText(e.Err)
	}
	return e.Reason + ": " + core.ErrorText(e.Err)
}

// WarnOf reports what of definitions is valid, but probably not meant.
func WarnOf(con *console.Console, set *definitions.Set) {
	for _, w := range set.Warnings {
		con.Report(con.Paint(console.Yellow, "warning: ") + w.String())
	}
}
