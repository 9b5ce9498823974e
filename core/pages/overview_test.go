package pages

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Runs with bad hosts come first: among active ones, and within the 24 hours in which runs ended,
// also over midnight. Others stay in the order of the API, the newest first.
func TestBadRunsFirst(t *testing.T) {
	day := time.Date(2026, 12, 6, 2, 0, 0, 0, time.UTC)
	ended := func(id string, at time.Time, phase api.Phase, outcomes map[core.Outcome]int) api.Run {
		return api.Run{ID: id, Phase: phase, Ended: at, Outcomes: outcomes}
	}
	good, cancelled := map[core.Outcome]int{core.Changed: 9}, map[core.Outcome]int{core.Cancelled: 9}
	view := overviewOf([]api.Run{
		{ID: "goes", Phase: api.Active, Outcomes: good},
		{ID: "halts", Phase: api.Stopped, Outcomes: good}, // some of its hosts run
		{ID: "fails", Phase: api.Active, Outcomes: map[core.Outcome]int{core.Failed: 1, core.Changed: 8}},
		ended("good", day, api.Finished, good),
		ended("stopped", day, api.Stopped, cancelled),
		ended("cancelled", day, api.Cancelled, cancelled),
		ended("unreachable", day.Add(-time.Hour), api.Finished, map[core.Outcome]int{core.Unreachable: 9}),
		ended("lost", day.Add(-22*time.Hour), api.Stopped, map[core.Outcome]int{core.Lost: 1}),
		ended("yesterday", day.Add(-24*time.Hour), api.Stopped, map[core.Outcome]int{core.Lost: 9}),
	}, day.Add(5*time.Minute))
	if got := names(view.Active); got != "fails halts goes" {
		t.Errorf("active: %s", got)
	}
	if got := names(view.Ended); got != "lost unreachable stopped good cancelled yesterday" {
		t.Errorf("ended: %s", got)
	}
}

func names(runs []api.Run) string {
	all := make([]string, len(runs))
	for i, run := range runs {
		all[i] = run.ID
	}
	return strings.Join(all, " ")
}

// A run that was stopped and is complete waits for a person, also after midnight and behind many
// good ones, for a week or until its playbook is launched again for real.
func TestAStoppedRunWaitsForAPerson(t *testing.T) {
	now := time.Date(2026, 12, 5, 2, 5, 0, 0, time.UTC)
	run := func(id, playbook string, ago time.Duration, phase api.Phase) api.Run {
		return api.Run{ID: id, Tenant: "acme", Playbook: playbook, Phase: phase, Created: now.Add(-ago - time.Minute), Ended: now.Add(-ago)}
	}
	var runs []api.Run
	for i := range endedRuns {
		runs = append(runs, run(fmt.Sprint("good", i), "often", time.Duration(i)*5*time.Minute, api.Finished))
	}
	dry := run("dry", "patch", time.Hour, api.Finished)
	dry.Check = true
	stopped := run("stopped", "patch", 135*time.Minute, api.Stopped)
	other := run("other", "patch", 3*time.Hour, api.Finished)
	other.Tenant = "globex"
	triedDry := run("tried-dry", "dry", 4*time.Hour, api.Stopped)
	triedDry.Check = true
	runs = append(runs, dry, stopped, other, triedDry, run("older", "patch", 5*time.Hour, api.Stopped), run("often", "often", 6*time.Hour, api.Stopped),
		run("week", "cert", 7*24*time.Hour-time.Minute, api.Stopped), run("old", "users", 7*24*time.Hour, api.Stopped))
	view := overviewOf(runs, now)
	if got := names(view.Waiting); got != "stopped week" || !view.Stopped {
		t.Errorf("%q wait for a person", got)
	}
	view = overviewOf(append([]api.Run{run("again", "patch", 0, api.Finished)}, runs...), now)
	if got := names(view.Waiting); got != "week" {
		t.Errorf("%q wait for a person after a later launch", got)
	}
}

// A row names outcomes in one order, the worst first, and none of no host.
func TestOutcomesOfARow(t *testing.T) {
	got := fmt.Sprint(outcomeCounts(map[core.Outcome]int{core.Changed: 5, core.Cancelled: 1, core.Lost: 1, core.Failed: 2, core.Skipped: 0}))
	if got != "[{lost 1} {failed 2} {cancelled 1} {changed 5}]" {
		t.Error(got)
	}
}

// The overview names a source of hosts that waits for an approval, with what differs and the
// commands for it, and never that nothing waits. Control: a source that is good.
func TestOverviewHasWaitingSources(t *testing.T) {
	source := api.Source{Name: "nb", State: "failed", Hosts: 100, Waiting: &api.WaitingSource{Generation: "sha256:0f3a", Hosts: 69, Reason: "it lacks 31 of 100 hosts " + hostile}}
	o := &operations{roles: []string{"viewer"}, tenant: "acme", answers: map[string]any{
		"GET /v1/runs": items([]api.Run{}), "GET /v1/schedules": items([]api.Schedule{}), "GET /v1/approvals": items([]api.WindowApproval{}),
		"GET /v1/sources": items([]api.Source{{Name: "cmdb", State: "good", Hosts: 7}, source}),
	}}
	v := visits(t, o)
	_, text := v.get("/")
	has(t, "an overview", text, "The source of hosts nb has waited for an approval", "69 hosts in place of 100, because it lacks 31 of 100 hosts", "turnus inventory diff nb --context NAME", "turnus inventory approve nb --context NAME --generation sha256:0f3a")
	lacks(t, "an overview", text, "Nothing waits for a person", "cmdb")
	harmless(t, "an overview", text)
	source.Waiting = nil
	o.set("GET /v1/sources", items([]api.Source{source}))
	_, text = v.get("/")
	has(t, "an overview", text, "Nothing waits for a person")
	o.set("GET /v1/sources", api.Problem{Status: http.StatusServiceUnavailable, Detail: "the ledger is away"})
	_, text = v.get("/")
	has(t, "an overview", text, "Sources of hosts cannot be shown: the ledger is away")
	lacks(t, "an overview", text, "Nothing waits for a person")
}

// The overview counts the window sets that wait for an approval, and leads to them. Where it cannot
// read them, it shows why.
func TestOverviewHasApprovals(t *testing.T) {
	o := &operations{roles: []string{"operator"}, tenant: "acme", answers: map[string]any{
		"GET /v1/runs":      map[string]any{"items": []api.Run{}},
		"GET /v1/schedules": map[string]any{"items": []api.Schedule{}},
		"GET /v1/approvals": map[string]any{"items": []api.WindowApproval{{Set: "night"}, {Set: "day"}}},
		"GET /v1/sources":   items([]api.Source{}),
	}}
	v := visits(t, o)
	_, text := v.get("/")
	has(t, "an overview", text, `<a href="/windows#waiting">2 window sets</a> wait for an approval`, "No run waits for a person", `<a href="/playbooks">Launch a playbook</a>`)
	o.set("GET /v1/approvals", map[string]any{"items": []api.WindowApproval{}})
	_, text = v.get("/")
	has(t, "an overview", text, "Nothing waits for a person")
	lacks(t, "an overview", text, "for an approval")
	o.set("GET /v1/approvals", api.Problem{Status: http.StatusServiceUnavailable, Detail: "the ledger is away"})
	_, text = v.get("/")
	has(t, "an overview", text, "Approvals of windows cannot be shown: the ledger is away")
	lacks(t, "an overview", text, "Nothing waits for a person")
}
