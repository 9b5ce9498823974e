package pages

import (
	"net/http"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// The page of a host compares any two kept versions of its configuration, for people who may read
// them.
func TestHostComparesConfigurations(t *testing.T) {
	at := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	index := 0 // of a job in a run of another tenant
	const newer, older = "aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb"
	o := &operations{tenant: "acme", roles: []string{"operator"}, answers: map[string]any{
		"GET /v1/hosts/fw1":              api.Host{Name: "fw1"},
		"GET /v1/hosts/fw1/history":      items([]api.Job{}),
		"GET /v1/hosts/fw1/locks":        items([]api.Lock{}),
		"GET /v1/hosts/fw1/jobs":         items([]api.Job{}),
		"GET /v1/hosts/fw1/configs":      items([]api.ConfigVersion{{Version: newer, At: at, Author: hostile, Playbook: hostile, Run: "r1", Index: &index, Changed: []string{hostile}}, {Version: older, At: at, Run: "r0", Gone: []string{"old.conf"}}}),
		"GET /v1/hosts/fw1/configs/diff": api.ConfigDiff{Host: "fw1", From: older, To: newer, Files: []api.ConfigFileDiff{{Name: "running.conf", Change: "changed", Added: 2, Removed: 1, Diff: "-mtu 1500\n" + hostile, Cut: true}}},
	}}
	v := visits(t, o)
	_, text := v.get("/hosts/fw1?from=" + older + "&to=" + newer)
	has(t, "a host", text, "Kept configurations", `value="`+newer+`" checked aria-label="Compare to aaaaaaaaaaaa"`, `value="`+older+`" checked aria-label="Compare from`, `<a href="/runs/r1/hosts/0">`, `<a href="/runs/r0">`, "old.conf (gone)", "From bbbbbbbbbbbb to aaaaaaaaaaaa", "changed, 2 lines added, 1 removed. The diff is longer", "-mtu 1500", "2026-11-26 03:00:00 UTC")
	harmless(t, "a host", text)
	o.set("GET /v1/hosts/fw1/configs/diff", api.Problem{Status: http.StatusNotFound, Detail: "no such version"})
	_, text = v.get("/hosts/fw1?to=x")
	has(t, "a version that is none", text, `role="alert">They cannot be compared: no such version`)
	o.set("GET /v1/hosts/fw1/configs", api.Problem{Status: http.StatusNotFound, Detail: "this server has no repository"})
	_, text = v.get("/hosts/fw1")
	has(t, "a server without a repository", text, "Versions cannot be shown: this server has no repository", "No job holds this host")
	o.roles = []string{"viewer"}
	_, text = visits(t, o).get("/hosts/fw1")
	lacks(t, "a viewer's host", text, "Kept configurations")
}

// The page of a host shows what runs or waits there and why, and when its window opens. A panel
// that fails leaves the rest.
func TestHostShowsWhatGoesOn(t *testing.T) {
	opens := time.Date(2026, 12, 5, 21, 0, 0, 0, time.UTC)
	o := &operations{tenant: "acme", roles: []string{"viewer"}, answers: map[string]any{
		"GET /v1/hosts/web1":             api.Host{Name: "web1", WindowSet: "night"},
		"GET /v1/hosts/web1/history":     items([]api.Job{}),
		"GET /v1/hosts/web1/jobs":        items([]api.Job{{Run: "r1", Index: 7, Host: "web1", Playbook: "patch", State: core.Blocked}}),
		"GET /v1/runs/r1/jobs/7/explain": api.Explanation{State: core.Blocked, Reason: "run r0 holds web1", Until: opens},
		"GET /v1/hosts/web1/locks": items([]api.Lock{
			{Lock: api.HostLock, Name: "web1", Run: "r0", Index: 3, Playbook: "patch", Host: "web1", Since: opens},
			{Lock: api.HAGroupLock, Name: "pair", Run: "r2", Index: 4, Playbook: "fw", Host: "web2"}, {Lock: api.HAGroupLock, Name: "pair", Kept: true},
		}),
		"GET /v1/windows/night": api.WindowSet{Name: "night", Reason: "before its window", Next: []api.Occurrence{{Open: opens, Close: opens.Add(time.Hour), OpenLocal: "Sat 22:00 CET", CloseLocal: "Sat 23:00 CET"}}},
	}}
	v := visits(t, o)
	_, text := v.get("/hosts/web1")
	has(t, "a host", text, "run r0 holds web1", `href="/runs/r1/hosts/7">patch</a>`, "<td>blocked</td>", `href="/windows/night"`, "closed: before its window", `datetime="2026-12-05T21:00:00Z">Sat 22:00 CET<`)

	has(t, "a host", text, `This host: held by <a href="/runs/r0/hosts/3">patch</a> since <time datetime="2026-12-05T21:00:00Z">`, `HA group pair: held by <a href="/runs/r2/hosts/4">fw on web2</a>, which is suspended and keeps it`, "HA group pair: kept for a run of another tenant, which comes next")

	o.set("GET /v1/hosts/web1/locks", items([]api.Lock{}))
	o.set("GET /v1/hosts/web1/jobs", items([]api.Job{}))
	_, text = v.get("/hosts/web1")
	lacks(t, "an idle host", text, "left out")
	has(t, "an idle host", text, "No open run works on this host", "No job holds this host")
	for _, path := range []string{"GET /v1/hosts/web1/jobs", "GET /v1/windows/night", "GET /v1/hosts/web1/locks"} {
		o.set(path, api.Problem{Status: http.StatusServiceUnavailable, Detail: "the ledger is away"})
	}
	status, text := v.get("/hosts/web1")
	if has(t, "panels that fail", text, "Open runs cannot be shown: the ledger is away", "cannot be shown: the ledger is away", "Locks cannot be shown: the ledger is away", "No run has touched this host yet"); status != http.StatusOK {
		t.Errorf("%d", status)
	}
}

// A page that searched a part of the open runs shows that, and leads to the rest.
func TestHostLeadsToTheOpenJobsThatItLeavesOut(t *testing.T) {
	o := &operations{tenant: "acme", roles: []string{"viewer"}, answers: map[string]any{
		"GET /v1/hosts/web1": api.Host{Name: "web1"}, "GET /v1/hosts/web1/history": items([]api.Job{}), "GET /v1/hosts/web1/locks": items([]api.Lock{}),
		"GET /v1/hosts/web1/jobs": map[string]any{"items": []api.Job{}, "next": "further"},
	}}
	web, browser := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cursor := r.URL.Query().Get("cursor"); cursor != "" {
			r.URL.Path += "/" + cursor
		}
		o.ServeHTTP(w, r)
	}))
	logIn(t, web, browser, "good", "/settings")
	v := visitor{t, web, browser, o.tenant}
	_, text := v.get("/hosts/web1")
	has(t, "a part", text, "No searched open run works on this host", `Other open runs are left out: <a href="?open=further">search them</a>`, "<code>turnus hosts jobs web1</code>")
	lacks(t, "a part", text, "Open runs before these")
	o.set("GET /v1/hosts/web1/jobs/further", items([]api.Job{{Run: "r9", Host: "web1", Playbook: "patch", State: core.Pending}}))
	o.set("GET /v1/runs/r9/jobs/0/explain", api.Explanation{State: core.Pending, Reason: "waits for a worker"})
	_, text = v.get("/hosts/web1?open=further")
	has(t, "the rest", text, `href="/runs/r9/hosts/0">patch</a>`, "waits for a worker", "Open runs before these are left out")
	lacks(t, "the rest", text, "Other open runs")
}

// The history of a host leads to its log in each run: the log is there also for a run of another
// tenant, whose own page is not.
func TestHistoryLeadsToTheLog(t *testing.T) {
	job := api.Job{Run: "theirs", Index: 4, Host: "web1", Playbook: "patch", Outcome: core.Changed}
	o := &operations{tenant: "acme", roles: []string{"viewer"}, answers: map[string]any{
		"GET /v1/hosts/web1": api.Host{Name: "web1"}, "GET /v1/hosts/web1/history": items([]api.Job{job}),
		"GET /v1/runs/theirs/jobs/4": job, "GET /v1/runs/theirs/jobs/4/attempts": items([]api.Attempt{}), "GET /v1/runs/theirs/jobs/4/outputs": items([]api.Output{}),
	}}
	v := visits(t, o)
	_, text := v.get("/hosts/web1")
	has(t, "a host", text, `<td><a href="/runs/theirs/hosts/4">patch</a>`)
	status, text := v.get("/runs/theirs/hosts/4")
	if has(t, "another tenant's run", text, "<dt>Run</dt><dd>patch, a run of another tenant</dd>"); status != http.StatusOK {
		t.Errorf("the log: %d", status)
	}
	lacks(t, "another tenant's run", text, `href="/runs/theirs"`)
	o.set("GET /v1/runs/theirs", api.Run{ID: "theirs", Playbook: "patch", Phase: api.Finished})
	_, text = v.get("/runs/theirs/hosts/4")
	has(t, "an own run", text, `<a href="/runs/theirs">patch</a>`)
}
