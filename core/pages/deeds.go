package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// deed is an action of a person on a run or a schedule.
type deed struct {
	At     time.Time
	By     string
	Did    string
	Reason string
	Void   bool   // the run was changed afterwards
	Run    string // that a trigger launched
}

// deedsShown bounds how many entries of the audit log the page of a run reads, the newest ones.
const deedsShown = 100

// deedsOf lists who triggered a run, and who paused, resumed, cancelled, approved and refused it,
// the oldest first. The error leaves what could be read.
func deedsOf(ctx context.Context, c *client.Client, run api.Run) ([]deed, error) {
	decisions, err := c.Decisions(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	var all []deed
	for _, d := range decisions.Items {
		all = append(all, deed{At: d.Time, By: d.By, Did: decided(d), Reason: d.Reason, Void: d.Void})
	}
	triggers, err := triggersOf(ctx, c, run)
	if all = append(all, triggers...); err != nil {
		return all, err
	}
	entries, err := c.Audit(ctx, client.AuditFilter{Kind: "run", Object: run.ID}, client.Page{Limit: deedsShown})
	for _, e := range entries.Items {
		if did := changed(e.What); did != "" {
			var after struct{ Reason string }
			_ = json.Unmarshal(e.After, &after) // an entry without a reason is one
			all = append(all, deed{At: e.Time, By: e.Who, Did: did, Reason: after.Reason})
		}
	}
	slices.SortStableFunc(all, func(a, b deed) int { return a.At.Compare(b.At) })
	return all, err
}

// triggerWithin bounds the time between a trigger of a schedule and its run.
const triggerWithin = 10 * time.Minute

// triggersOf finds the person who triggered the schedule that launched a run; nobody if a fire time
// did.
func triggersOf(ctx context.Context, c *client.Client, run api.Run) (all []deed, err error) {
	if run.Schedule == "" {
		return nil, nil
	}
	name := run.Schedule[strings.LastIndexByte(run.Schedule, ':')+1:] // of TENANT:NAME, or of the provider's NAME
	entries, err := c.Audit(ctx, client.AuditFilter{
		Kind: "schedule", What: "schedule.trigger", Object: name, Since: run.Created.Add(-triggerWithin), Until: run.Created.Add(triggerWithin),
	}, client.Page{Limit: deedsShown})
	for _, d := range scheduleDeeds(entries.Items, run.Tenant) {
		if d.Run == run.ID {
			all = append(all, d)
		}
	}
	return all, err
}

// scheduleDeeds are the entries of the audit log about a schedule of a tenant.
func scheduleDeeds(entries []api.Entry, tenant string) (all []deed) {
	words := map[string]string{
		"schedule.pause": "paused the schedule", "schedule.resume": "resumed the schedule", "schedule.trigger": "triggered the schedule",
		"schedule.backfill": "launched its fire times of the past", "schedule.put": "changed the schedule",
	}
	for _, e := range entries {
		if words[e.What] == "" || e.Tenant != tenant { // names are unique within a tenant
			continue
		}
		var after struct{ What, Why string }
		_ = json.Unmarshal(e.After, &after) // an entry without a reason is one
		d := deed{At: e.Time, By: e.Who, Did: words[e.What], Reason: after.Why}
		if e.What == "schedule.trigger" {
			d.Run = after.What
		}
		all = append(all, d)
	}
	return all
}

// actsSince returns what others did on a run after the page showed its last deed, and a client
// whose actions are refused if somebody acts on the run after that was read.
func actsSince(ctx context.Context, v visit, run, seen string) (acts *client.Client, others string, err error) {
	read, etag, err := v.client.RunTag(ctx, run) // before the deeds: a deed after them gives the run another one
	if err != nil {
		return nil, "", err
	}
	deeds, err := deedsOf(ctx, v.client, read)
	if err != nil {
		return nil, "", err
	}
	return v.client.IfMatch(etag), deedsSince(deeds, seen, v.who.Name), nil
}

// deedsSince returns what others did after the page showed its last deed; "" for nothing.
func deedsSince(deeds []deed, seen, own string) string {
	last, err := strconv.ParseInt(seen, 10, 64)
	if err != nil {
		return ""
	}
	var all []string
	for _, d := range deeds {
		if d.At.UnixMicro() <= last || d.By == own {
			continue
		}
		text := d.By + " " + d.Did + " at " + d.At.UTC().Format("15:04:05 UTC")
		if d.Reason != "" {
			text += " (" + d.Reason + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func decided(d api.Decision) string {
	verb, what := "refused", "the run"
	if d.Approve {
		verb = "approved"
	}
	if d.Wave > 0 {
		what = fmt.Sprintf("wave %d", d.Wave)
	}
	return verb + " " + what
}

// changed is an action of the audit log in words; "" for one that decisions or facts of the page
// show already.
func changed(action string) string {
	switch action {
	case "run.paused":
		return "paused the run"
	case "run.active", "run.queued":
		return "resumed the run"
	case "run.cancel":
		return "cancelled the run"
	case "run.amend":
		return "replaced what the run does"
	case "run.reweight":
		return "changed the run's share of the workers"
	}
	return ""
}
