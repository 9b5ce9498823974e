package runview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// JobsOf lists the jobs of a run; marked takes only those that a recap names: with an outcome that
// is not good, or rescued. Of a dry run it lists all: one that succeeded may have steps that were
// not checked.
func JobsOf(ctx context.Context, c *client.Client, run api.Run, marked bool) ([]api.Job, error) {
	if !marked || run.Check {
		return jobsBy(ctx, c, run.ID, client.JobFilter{})
	}
	list, err := failedJobs(ctx, c, run)
	if err != nil || !slices.ContainsFunc(core.Outcomes(), func(o core.Outcome) bool { return o.Good() && run.Outcomes[o] > 0 }) {
		return list, err
	}
	rescued, err := jobsBy(ctx, c, run.ID, client.JobFilter{ReasonCode: core.Rescued})
	return append(list, rescued...), err
}

// failedJobs lists the jobs of a run with an outcome that is not good.
func failedJobs(ctx context.Context, c *client.Client, run api.Run) (list []api.Job, err error) {
	for _, o := range core.Outcomes() {
		if o.Good() || run.Outcomes[o] == 0 {
			continue
		}
		some, err := jobsBy(ctx, c, run.ID, client.JobFilter{Outcome: o})
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func jobsBy(ctx context.Context, c *client.Client, run string, f client.JobFilter) ([]api.Job, error) {
	return client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.Job], error) { return c.Jobs(ctx, run, f, p) })
}

// HostJob finds the job of a host in a run.
func HostJob(ctx context.Context, c *client.Client, run, host string) (api.Job, error) {
	for page := (client.Page{}); ; {
		jobs, err := c.Jobs(ctx, run, client.JobFilter{Host: host}, page)
		switch {
		case err != nil:
			return api.Job{}, err
		case len(jobs.Items) > 0:
			return jobs.Items[0], nil
		case jobs.Next == "":
			return api.Job{}, console.Invalid("run %s has no host %q\nhint: turnus runs show %s --jobs lists them", run, host, run)
		}
		page.Cursor = jobs.Next
	}
}

// JobCells returns a job as cells of a table.
func JobCells(j *api.Job) []string {
	state, took := string(j.Outcome), ""
	if state == "" {
		state = string(j.State)
	}
	if j.MayHaveBegun {
		state += ", may have begun"
	}
	if !j.Started.IsZero() && !j.Ended.IsZero() {
		took = console.Short(j.Ended.Sub(j.Started))
	}
	return []string{strconv.Itoa(j.Index), j.Host, state, j.Step, j.Worker, took}
}

// WriteRun shows a run, a line each thing that is known.
func WriteRun(con *console.Console, r api.Run, local bool) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(con.Out, "%-12s %s\n", name, console.Printable(value))
		}
	}
	row("run", r.ID)
	row("playbook", r.Playbook)
	row("command", r.Command)
	if r.Become {
		row("as", cmp.Or(r.BecomeUser, "root, or the inventory's user"))
	}
	row("why", r.LaunchReason)
	row("tenant", r.Tenant)
	row("revision", r.Revision)
	row("phase", string(r.Phase))
	row("reason", r.Reason)
	row("launched", console.LocalTime(r.Created)+" by "+r.LaunchedBy)
	if r.Options != nil {
		row("retry of", r.Options.Retry)
	}
	for _, o := range r.Options.Rows() {
		row(strings.ToLower(o.Name), strings.Join(o.Values, ", "))
	}
	row("ended", console.LocalTime(r.Ended))
	if x := r.Expected; x != nil {
		text := console.LocalTime(x.FinishP50) + " (P50), " + console.LocalTime(x.FinishP90) + " (P90), at the launch"
		if beside := x.Beside(r.Ended, time.Now()); beside != "" {
			text += ": " + beside
		}
		row("expected", text)
	}
	row("hosts", strconv.Itoa(r.Total))
	for _, s := range r.Sources {
		row("source", SourceText(s))
	}
	if outcomes := OutcomeText(r.Outcomes); outcomes != "" {
		row("outcomes", Marked(outcomes, r.Check))
	}
	if r.Handlers > 0 {
		list := fmt.Sprintf("%d pending: turnus hosts handlers ls --run %s", r.Handlers, r.ID)
		if local {
			list += " --local"
		}
		row("handlers", list)
	}
	row("shares", SharesText(r))
	if l := r.Live; l != nil {
		row("now", liveText(l))
	}
	row("waits", WaitsText(r))
}

// SourceText describes the generation of a source that a run was launched with, and its age then.
func SourceText(s api.RunSource) string {
	hosts := core.Plural(s.Hosts, "host")
	if s.Hosts == 0 {
		hosts = "hosts of on or hosts('…')"
	}
	return fmt.Sprintf("%s: %s, generation %s, %s old at the launch", s.Source, hosts, s.Generation, console.Short(s.Age.Duration()))
}

// WriteForecast shows when a run is expected to end, and what holds it up.
func WriteForecast(con *console.Console, f api.Forecast) {
	row := func(name, value string) { fmt.Fprintf(con.Out, "%-12s %s\n", name, console.Printable(value)) }
	switch {
	case f.FinishP50.IsZero() && f.Hosts == 0: // nothing is left
	case f.FinishP50.IsZero():
		row("forecast", fmt.Sprintf("none of %s is expected to end", core.Plural(f.Hosts, "host")))
	default:
		row("forecast", fmt.Sprintf("%s left, done %s, with P90 %s", core.Plural(f.Hosts, "host"), console.LocalTime(f.FinishP50), console.LocalTime(f.FinishP90)))
	}
	if b := f.Binds; b != nil {
		text := b.Text
		if b.Gain > 0 {
			text += "; without that limit " + console.Short(b.Gain.Duration()) + " earlier"
		}
		if b.Hosts > 0 {
			text += fmt.Sprintf("; without that limit %s more would end", core.Plural(b.Hosts, "host"))
		}
		row("binds", text)
	}
	for _, note := range f.Notes {
		row("note", note)
	}
}

// WriteTouched names the hosts of which nobody knows what they saw.
func WriteTouched(con *console.Console, jobs []api.Job) {
	if len(jobs) == 0 {
		return
	}
	names := make([]string, len(jobs))
	for i, j := range jobs {
		names[i] = j.Host
	}
	fmt.Fprintf(con.Out, "%s may have been touched when the queue was lost: %s\n", con.Paint(console.Yellow, core.Plural(len(jobs), "host")), foldHosts(names))
}

func liveText(l *api.Live) string {
	parts := []string{fmt.Sprintf("wave %d of %d", l.Wave, l.Waves)}
	for _, p := range []struct {
		n    int
		what string
	}{
		{l.InFlight, "in flight"},
		{l.Pending, "pending"},
		{l.Blocked, "behind another job of their host or HA group"},
		{l.Waiting, "before another attempt"},
		{l.Suspended, "suspended"},
		{l.Deferred, "waiting for their window"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// SharesText describes the shares of a run, its weight and its limit; "" if they are not known.
func SharesText(r api.Run) string {
	switch {
	case r.Weight == 0:
		return ""
	case r.MaxInFlight == 0:
		return fmt.Sprintf("weight %d, no limit of concurrent hosts", r.Weight)
	}
	return fmt.Sprintf("weight %d, at most %s at a time", r.Weight, core.Plural(r.MaxInFlight, "host"))
}

// WaitsText returns for whom a run waits, and what that person types.
func WaitsText(r api.Run) string {
	switch {
	case r.Phase == api.Approval:
		return "for an approval before it starts: turnus runs approve " + r.ID
	case r.Waits != nil:
		return fmt.Sprintf("for an approval of wave %d (%s): turnus runs approve %s --wave %d", r.Waits.Wave, core.Plural(r.Waits.Hosts, "host"), r.ID, r.Waits.Wave)
	case r.Phase == api.Paused:
		return "until somebody resumes it: turnus runs resume " + r.ID
	}
	return ""
}

// Marked returns the text of outcomes with a mark if they are those of a dry run.
func Marked(outcomes string, check bool) string {
	if check {
		return strings.TrimSpace(outcomes + " (dry run)")
	}
	return outcomes
}

// OutcomeText counts outcomes in the order of recaps.
func OutcomeText(outcomes map[core.Outcome]int) string {
	var parts []string
	for _, o := range core.Outcomes() {
		if n := outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

// resultOf is a job as recaps know it.
func resultOf(j api.Job) api.Result {
	r := api.Result{
		Job: core.JobID{Run: j.Run, Index: j.Index}, Host: j.Host, Customer: j.Customer, Outcome: j.Outcome, Reason: j.Reason, ReasonCode: j.ReasonCode, Step: j.Step,
		Attempt: j.Attempt, Worker: j.Worker, Started: j.Started, Steps: j.Steps,
	}
	if !j.Ended.IsZero() && !j.Started.IsZero() {
		r.Took = core.InSeconds(j.Ended.Sub(j.Started))
	}
	return r
}

// ResultsOf returns the jobs that have an outcome as recaps know them.
func ResultsOf(jobs []api.Job) []api.Result {
	list := make([]api.Result, 0, len(jobs))
	for _, j := range jobs {
		if j.Outcome != "" {
			list = append(list, resultOf(j))
		}
	}
	return list
}

// ReasonText is why a result is not good, with the step that decided it.
func ReasonText(r api.Result) string {
	why := cmp.Or(r.Reason, "no reason was recorded")
	if r.Step != "" {
		return r.Step + ": " + why
	}
	return why
}
