package pages

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// The page of runs asks the API for what its address filters, keeps the filter in its form and in
// the link to earlier runs, and names the next step where it is empty.
func TestThePageOfRuns(t *testing.T) {
	at := time.Date(2026, 12, 5, 2, 0, 0, 0, time.UTC)
	l := &runLists{operations: &operations{tenant: "acme", roles: []string{"operator"}, answers: map[string]any{"GET /v1/schedules": map[string]any{"items": []api.Schedule{}}}}}
	var asked url.Values
	web, browser := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/runs" {
			asked = r.URL.Query()
		}
		l.ServeHTTP(w, r)
	}))
	logIn(t, web, browser, "good", "/schedules")
	v := visitor{t, web, browser, "acme"}
	_, text := v.get("/runs")
	has(t, "an empty list", text, `<a href="/runs">Runs</a>`, "There is no run.", "Launch a playbook")
	for i := range listed + 1 {
		l.runs = append(l.runs, api.Run{ID: "r" + strconv.Itoa(i), Playbook: "patch", Phase: api.Stopped, Reason: hostile, Created: at.Add(-time.Duration(i) * time.Minute), Ended: at})
	}
	_, text = v.get("/runs?playbook=patch&phase=stopped&host=web1&outcome=rolled_back&by=schedule:night&since=2026-12-01T00:00&until=2026-12-06T00:00")
	want := url.Values{
		"playbook": {"patch"}, "phase": {"stopped"}, "host": {"web1"}, "outcome": {"rolled_back"}, "launched_by": {"schedule:night"},
		"since": {"2026-12-01T00:00:00Z"}, "until": {"2026-12-06T00:00:00Z"}, "live": {"true"}, "limit": {strconv.Itoa(listed)},
	}
	if !maps.EqualFunc(asked, want, func(a, b []string) bool { return a[0] == b[0] }) {
		t.Errorf("the API is asked for %v, expected %v", asked, want)
	}
	has(t, "the list", text, `href="/runs/r0"`, `href="/runs/r`+strconv.Itoa(listed-1)+`"`, `value="patch"`, `<option selected>stopped</option>`, `value="rolled_back" selected>rolled back<`, `value="schedule:night"`, `value="2026-12-01T00:00"`,
		`cursor=`+strconv.Itoa(listed), `&amp;phase=stopped`, `data-view="/runs?playbook=patch&amp;phase=stopped`)
	lacks(t, "the list", text, `href="/runs/r`+strconv.Itoa(listed)+`"`)
	harmless(t, "the list", text)
	_, text = v.get("/runs?playbook=patch&cursor=" + strconv.Itoa(listed))
	has(t, "earlier runs", text, `href="/runs/r`+strconv.Itoa(listed)+`"`)
	_, text = v.get("/runs?playbook=none")
	has(t, "a filter without runs", text, "No run matches. Leave out a filter")
	_, text = v.get("/runs?since=yesterday")
	has(t, "a time that is none", text, "is not a time: expected one as 2026-12-31T18:00, in UTC")
}
