package pages

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
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

// On a phone, each cell of a list of runs shows the name of its column, and the style sheet makes
// blocks of rows there. They stay a table for screen readers, which blocks are not.
func TestRunsAreBlocksOnAPhone(t *testing.T) {
	text := readAsset(t, "templates/parts.html")
	runs, _, _ := strings.Cut(text, `{{define "typed"}}`)
	columns := regexp.MustCompile(`role="columnheader">([^<]+)<`).FindAllStringSubmatch(runs, -1)
	cells := regexp.MustCompile(`<td role="cell" data-label="([^"]+)"`).FindAllStringSubmatch(runs, -1)
	if len(columns) == 0 || len(columns) != strings.Count(runs, "<th ") || len(cells) != strings.Count(runs, "<td") || len(cells) != len(columns) {
		t.Fatalf("%d columns and %d cells: %s", len(columns), len(cells), runs)
	}
	for i := range columns {
		if columns[i][1] != cells[i][1] {
			t.Errorf("a cell of %q is labelled %q", columns[i][1], cells[i][1])
		}
	}
	has(t, "a list of runs", runs, `<table class="runs" role="table">`, `<tr id="run-{{.ID}}" role="row"`)
	_, narrow, _ := strings.Cut(readAsset(t, "assets/app.css"), "@media (max-width: 40rem) {")
	narrow, _, _ = strings.Cut(narrow, "\n}")
	has(t, "narrow windows", narrow, ".runs td { display: block;", ".runs td::before { content: attr(data-label);")
}

func readAsset(t *testing.T, name string) string {
	t.Helper()
	text, err := files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
