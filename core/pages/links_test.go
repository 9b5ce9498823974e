package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// The page of a run leads to its playbook, where the person launches, to its audit entries and
// notifications, and to each host that it names. A run of one command has no playbook.
func TestARunLeadsToWhatBelongsToIt(t *testing.T) {
	run := api.Run{ID: "r1", Playbook: "patch/all", Phase: api.Active, Total: 9, Live: &api.Live{Wave: 1, Waves: 2, StopUnreachable: 3}}
	o := &operations{tenant: "acme", roles: []string{"operator"}, answers: map[string]any{
		"GET /v1/runs/r1":        run,
		"GET /v1/runs/r1/groups": api.ResultGroups{Same: 2, Items: []api.ResultGroup{{ID: "g", Index: 4, Outcome: core.Changed, Total: 2, Hosts: []string{"web1", "web/2"}}}},
		"GET /v1/runs/r1/waits":  api.Waits{LeftOut: 2, LeftOutHosts: 3, Items: []api.Wait{{Reason: "window", Total: 1, Hosts: []string{"web/3"}}}, Longest: []api.RunningHost{{Index: 7, Host: "web/7", Worker: "w1", Since: time.Unix(0, 0)}}},
	}}
	v := visits(t, o)
	_, text := v.get("/runs/r1")
	has(t, "a run", text, `<a href="/playbooks/patch%2Fall">its playbook</a>`, `<a href="/runs?playbook=patch%2fall">its runs</a>`, `<a href="/audit?object=r1">`, `<a href="/notifications?run=r1">`,
		`<a href="/runs/r1/hosts/4">web1</a>`, `<a href="/hosts/web%2F2">web/2</a>`, `<a href="/hosts/web%2F3">web/3</a>`, "; stops after 3 unreachable hosts</dd>",
		"2 further reasons of 3 hosts are left out", "Running longest", `<a href="/runs/r1/hosts/7">web/7</a></td><td>`, `<td>w1</td>`)
	run.Command, run.Kind, run.Live.StopAfter = "uptime", api.KindExec, 1
	o.set("GET /v1/runs/r1", run)
	_, text = v.get("/runs/r1")
	lacks(t, "a command", text, "its playbook")
	has(t, "a command", text, "; stops after 1 failed host, or 3 unreachable hosts</dd>")
	run.Command, run.Kind = "", ""
	o.roles = []string{"viewer"}
	o.set("GET /v1/runs/r1", run)
	_, text = visits(t, o).get("/runs/r1")
	lacks(t, "a viewer's run", text, "its playbook")
}

// A scan of host keys has no playbook and no retry, and a run of a playbook of that name has both.
func TestTheKindOfARunDecidesItsLinks(t *testing.T) {
	for _, c := range []struct {
		kind            string
		playbook, retry bool
	}{{"", true, true}, {api.KindExec, false, true}, {api.KindHostKeys, false, false}} {
		o := retryAPI(t, "operator")
		o.set("GET /v1/runs/r0", api.Run{ID: "r0", Playbook: "hostkeys", Kind: c.kind, Phase: api.Finished, Ended: time.Unix(300, 0), Total: 1, Outcomes: map[core.Outcome]int{core.Failed: 1}})
		_, text := visits(t, o).get("/runs/r0")
		if got := [2]bool{strings.Contains(text, `href="/playbooks/hostkeys"`), strings.Contains(text, `href="/runs/r0/retry"`)}; got != [2]bool{c.playbook, c.retry} {
			t.Errorf("a run of the kind %q links to its playbook and retry: %v", c.kind, got)
		}
	}
}

// The page shows what the launcher asked for, and links to the run that a retry repeats. Without
// options it has no empty rows.
func TestARunShowsWhatWasAskedFor(t *testing.T) {
	o := retryAPI(t, "viewer")
	run := api.Run{ID: "r0", Playbook: "shop", Phase: api.Active, Total: 3, Become: true, BecomeUser: "app", Options: &api.RunOptions{
		LaunchOptions: api.LaunchOptions{Limit: []string{"web", hostile}, Params: map[string]any{"release": "1.10"}, Vars: map[string]any{hostile: hostile}, Tags: []string{"only"}, Check: true},
		Retry:         "r/1", LeftOut: []string{"vars.long"},
	}}
	o.set("GET /v1/runs/r0", run)
	v := visits(t, o)
	_, text := v.get("/runs/r0")
	has(t, "a run", text, `<dt>Retry of</dt><dd><a href="/runs/r%2F1">r/1</a></dd>`, "<dt>Limit</dt><dd><code>web</code> <code>", "<dt>Params</dt><dd><code>release=1.10</code>", "<dt>Vars</dt>", "<dt>Tags</dt><dd><code>only</code>",
		"<dt>Options</dt><dd><code>dry run</code>", "<dt>Not shown</dt><dd><code>vars.long</code>", "<dt>Become</dt><dd><code>app</code></dd>")
	lacks(t, "a run", text, hostile)
	for _, none := range []*api.RunOptions{nil, {}} {
		run.Options, run.Become = none, false
		o.set("GET /v1/runs/r0", run)
		_, text = v.get("/runs/r0")
		lacks(t, "a run without options", text, "Retry of", "<dt>Limit", "<dt>Params", "<dt>Vars", "<dt>Options", "<dt>Not shown", "<dt>Become")
	}
}

// The results count all groups, also those that the list leaves out, and a reason of one host does
// not pass for that of all.
func TestResultsCountWhatTheyLeaveOut(t *testing.T) {
	group := api.ResultGroup{ID: "g", Outcome: core.Failed, Reason: "web1: no answer", Varied: true, Total: 2, Hosts: []string{"web1", "web2"}}
	page := func(groups api.ResultGroups) string {
		groups.Items = []api.ResultGroup{group}
		_, text := visits(t, &operations{tenant: "acme", roles: []string{"viewer"}, answers: map[string]any{
			"GET /v1/runs/r1": api.Run{ID: "r1", Phase: api.Active, Total: 3000}, "GET /v1/runs/r1/groups": groups,
		}}).get("/runs/r1")
		return text
	}
	text := page(api.ResultGroups{Same: 2871, Differ: 9, LeftOut: 3, LeftOutHosts: 2878})
	has(t, "a cut list", text, "2871 the same, 9 differ: by outcome", "3 further groups of 2878 hosts are left out", "This is of web1; others differ in addresses")
	group.Varied = false
	text = page(api.ResultGroups{Same: 2, Differ: 1, LeftOut: 1, LeftOutHosts: 1})
	has(t, "one group more", text, "2 the same, 1 differs: by outcome", "1 further group of 1 host is left out")
	lacks(t, "equal reasons", text, "This is of")
	lacks(t, "a whole list", page(api.ResultGroups{Same: 2}), "left out", "differ")
}

// The launches of the next 24 hours lead to their schedules and playbooks.
func TestTheNextLaunchesAreLinks(t *testing.T) {
	next := api.Schedule{Name: "nightly", Tenant: "acme", Playbook: "patch", Next: time.Now().Add(time.Hour)}
	o := &operations{tenant: "acme", roles: []string{"operator"}, answers: map[string]any{
		"GET /v1/runs": map[string]any{"items": []api.Run{}}, "GET /v1/schedules": map[string]any{"items": []api.Schedule{next}},
	}}
	_, text := visits(t, o).get("/")
	has(t, "the overview", text, `<a href="/schedules/acme:nightly">nightly</a>`, `<a href="/playbooks/patch">patch</a>`)
}
