package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// The page of a run names who did what to it, in the order of time. Text of people is text.
func TestWhoDidIt(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 12, 5, 22, minute, 0, 0, time.UTC) }
	o := retryAPI(t, "viewer")
	o.set("GET /v1/runs/r0/decisions", map[string]any{"items": []api.Decision{{Wave: 2, By: "anton", Approve: true, Reason: "the canary is fine", Time: at(4)}}})
	o.set("GET /v1/audit", map[string]any{"items": []api.Entry{
		{Time: at(5), Who: "ann", What: "run.cancel", After: json.RawMessage(`{"phase":"cancelled","reason":"the wrong branch"}`)},
		{Time: at(4), Who: "anton", What: "run.approve", After: json.RawMessage(`{"phase":"active","wave":1}`)},
		{Time: at(3), Who: "ann", What: "run.active", After: json.RawMessage(`{"phase":"active"}`)},
		{Time: at(2), Who: hostile, What: "run.paused", After: json.RawMessage(`{"phase":"paused","reason":"storm"}`)},
		{Time: at(1), Who: "ann", What: "run.accept"},
	}})
	v := visits(t, o)
	_, text := v.get("/runs/r0")
	has(t, "a run", text, "&lt;script&gt;")
	lacks(t, "a run", text, "<script>", "<img src=x", `" onmouseover`)
	_, text, _ = strings.Cut(text, `id="decisions"`)
	for _, part := range []string{
		"2026-12-05 22:02:00 UTC</time>: ", " paused the run: storm<", "2026-12-05 22:03:00 UTC</time>: ann resumed the run<", "22:04:00 UTC</time>: anton approved wave 2: the canary is fine<",
		"2026-12-05 22:05:00 UTC</time>: ann cancelled the run: the wrong branch<",
	} {
		_, after, ok := strings.Cut(text, part)
		if !ok {
			t.Fatalf("no %q in its place: %s", part, text)
		}
		text = after
	}
	lacks(t, "what follows", text, "<li>")

	o.set("GET /v1/audit", api.Problem{Status: http.StatusServiceUnavailable, Detail: "the ledger is away"})
	_, text = v.get("/runs/r0")
	has(t, "without the audit log", text, "cannot be shown: the ledger is away", "anton approved wave 2")
}

// A run that a person triggered names that person, who is not its launcher, and so does the page of
// its schedule. Control: entries of other runs and of other tenants' schedules do not count.
func TestWhoTriggeredIt(t *testing.T) {
	at := time.Date(2026, 12, 7, 2, 0, 0, 0, time.UTC)
	const id = "acme:night-t1"
	o := scheduleAPI("viewer")
	o.set("GET /v1/runs/"+id, api.Run{ID: id, Tenant: "acme", Playbook: "patch", Phase: api.Finished, Created: at, Ended: at, Schedule: "acme:night", LaunchedBy: "schedule:acme:night"})
	o.set("GET /v1/runs/"+id+"/decisions", items([]api.Decision{}))
	o.set("GET /v1/audit", items([]api.Entry{
		{Time: at.Add(3), Tenant: "acme", Who: "bob", What: "schedule.pause", After: json.RawMessage(`{"paused":true,"reason":"storm","why":"storm"}`)},
		{Time: at.Add(2), Tenant: "globex", Who: "eve", What: "schedule.trigger", After: json.RawMessage(`{"what":"` + id + `"}`)},
		{Time: at.Add(1), Tenant: "acme", Who: "bob", What: "schedule.trigger", After: json.RawMessage(`{"what":"acme:night-t2"}`)},
		{Time: at, Tenant: "acme", Who: hostile, What: "schedule.trigger", After: json.RawMessage(`{"what":"` + id + `","why":"the first try failed"}`)},
	}))
	v := visits(t, o)
	_, text := v.get("/runs/" + id)
	_, deeds, _ := strings.Cut(text, `id="decisions"`)
	has(t, "the run", deeds, "2026-12-07 02:00:00 UTC</time>: &lt;/td&gt;&lt;script&gt;", " triggered the schedule: the first try failed<")
	lacks(t, "the run", deeds, "bob", "eve", "<script>")
	_, text = v.get("/schedules/acme:night")
	has(t, "the schedule", text, ": bob paused the schedule: storm<", `bob triggered the schedule (<a href="/runs/acme:night-t2">`, `the first try failed (<a href="/runs/`+id+`">`, `href="/audit?object=night"`)
	lacks(t, "the schedule", text, "eve")
	harmless(t, "the schedule", text)
	o.set("GET /v1/audit", api.Problem{Status: http.StatusServiceUnavailable, Detail: "the ledger is away"})
	for _, path := range []string{"/runs/" + id, "/schedules/acme:night"} {
		_, text = v.get(path)
		has(t, path, text, "Who did what cannot be shown: the ledger is away")
	}
}

// Of two people who act on one run, the second is shown what the first did, and nothing is done.
// Control: a page that shows the first deed acts, and so does a person after a deed of its own.
func TestTheSecondOfTwoIsShownWhatChanged(t *testing.T) {
	paused := time.Date(2026, 12, 5, 14, 2, 10, 0, time.UTC)
	for _, c := range []struct {
		who, form string
		status    int
	}{
		{"bob", "seen=0&reason=x", http.StatusPreconditionFailed},
		{"bob", "seen=" + strconv.FormatInt(paused.UnixMicro(), 10), http.StatusOK},
		{"bob", "reason=x", http.StatusOK},
		{"ann", "seen=0&reason=x", http.StatusOK},
	} {
		o := waitingAPI(t, 25, "operator")
		o.set("GET /v1/runs/r0/decisions", map[string]any{"items": []api.Decision{}})
		o.set("GET /v1/audit", map[string]any{"items": []api.Entry{{Who: c.who, What: "run.paused", Time: paused, After: json.RawMessage(`{"reason":"smoke"}`)}}})
		o.set("POST /v1/runs/r0/resume", api.Run{ID: "r0"})
		v := visits(t, o)
		sent, _ := url.ParseQuery(c.form)
		status, _, text := v.post("/runs/r0/resume", sent)
		acted := slices.ContainsFunc(o.changes(), func(a operation) bool { return a.path == "/v1/runs/r0/resume" })
		if refused := c.status == http.StatusPreconditionFailed; acted == refused || refused && (status != c.status || !strings.Contains(text, "bob paused the run at 14:02:10 UTC (smoke)")) {
			t.Errorf("%s, %s: %d (acted: %t) %s", c.who, c.form, status, acted, text)
		}
	}
}

// The API refuses an action if the run changed after the page read it. The page then shows
// who acted, or sends the action again where only the service changed the run.
func TestTwoActInTheSameMoment(t *testing.T) {
	bob := map[string]any{"items": []api.Entry{{Who: "bob", What: "run.paused", Time: time.Date(2026, 12, 5, 14, 2, 10, 0, time.UTC)}}}
	for _, c := range []struct {
		name       string
		acts       bool // bob, in the moment in which the first request is sent
		refused    int  // how many requests are
		status     int
		sent       int
		said, form string
	}{
		{"bob acts", true, 1, http.StatusPreconditionFailed, 1, "bob paused the run at 14:02:10 UTC", "seen=0"},
		{"the service changes the run", false, 2, http.StatusOK, 3, "", "seen=0"},
		{"the service always changes it", false, 100, http.StatusPreconditionFailed, actTries, "it now has version 8", "seen=0"},
		{"control: a form without what was seen", true, 0, http.StatusOK, 1, "", ""},
	} {
		o := waitingAPI(t, 25, "operator")
		o.set("GET /v1/runs/r0/decisions", map[string]any{"items": []api.Decision{}})
		o.set("GET /v1/audit", map[string]any{"items": []api.Entry{}})
		n := 0
		o.set("POST /v1/runs/r0/resume", func() any {
			if n++; c.acts {
				o.answers["GET /v1/audit"] = bob
			}
			if n <= c.refused {
				return api.Problem{Status: http.StatusPreconditionFailed, Detail: "it now has version 8, not 7: read it again"}
			}
			return api.Run{ID: "r0"}
		})
		form, _ := url.ParseQuery(c.form + "&reason=x")
		status, _, text := visits(t, o).post("/runs/r0/resume", form)
		match := runTag
		if c.form == "" {
			match = ""
		}
		sent := o.changes()
		if status != c.status || len(sent) != c.sent || !strings.Contains(text, c.said) || slices.ContainsFunc(sent, func(a operation) bool { return a.match != match }) {
			t.Errorf("%s: %d, sent %+v: %s", c.name, status, sent, text)
		}
	}
}
