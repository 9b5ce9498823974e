package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/pictures"
)

// calendarAPI has a lane with a window, a fire time and a conflict, with texts of others.
func calendarAPI(t *testing.T) *operations {
	t.Helper()
	from := utc(t, "2026-12-01 00:00")
	lane := api.CalendarLane{
		Tenant: "acme", Set: "night" + hostile, Timezone: berlin, Hosts: 12,
		Windows:   []api.CalendarWindow{{Occurrence: api.Occurrence{Open: from.Add(21 * time.Hour), Close: from.Add(28 * time.Hour), OpenLocal: "Tue 2026-12-01 22:00 CET", Notes: []string{hostile}}}},
		FireTimes: []api.CalendarFire{{Schedule: "acme:patch", Playbook: hostile, At: from.Add(9 * time.Hour), Local: "Tue 2026-12-01 10:00 CET"}},
		Conflicts: []api.CalendarConflict{{Kind: "frozen", At: from, Text: hostile}},
	}
	return &operations{roles: []string{"viewer"}, tenant: "acme", answers: map[string]any{
		"GET /v1/calendar-feeds":        map[string]any{"items": []api.CalendarFeed{{ID: "f/1", Name: hostile, Tenant: "acme", CreatedBy: hostile, Created: from}}},
		"POST /v1/calendar-feeds":       api.CalendarFeed{ID: "f2", Name: hostile, Tenant: "acme", Path: "/feeds/turnus_secret.ics"},
		"DELETE /v1/calendar-feeds/f/1": api.CalendarFeed{},
		"GET /v1/calendar":              api.Calendar{At: from, From: from, To: from.AddDate(0, 0, 14), Lanes: []api.CalendarLane{lane}, Zones: []api.CalendarZone{{Name: berlin}}},
	}}
}

// The picture and the table show the same, links lead to what they name, and texts are no markup.
func TestCalendarPage(t *testing.T) {
	f := calendarAPI(t)
	web, browser := site(t, f)
	_, text := logIn(t, web, browser, "good", "/calendar")
	for _, part := range []string{
		`<a href="/calendar">Calendar</a>`, `class="map cal"`, `href="/schedules/acme:patch"`, "Check first", "Next windows", "acme / <a", "Tue 2026-12-01 22:00 CET", "2026-12-01 21:00:00 UTC", "&lt;script&gt;", `value="14"`, "Europe/Berlin",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %s: %s", part, text)
		}
	}
	if strings.Contains(text, "<script>") || strings.Contains(text, "<img") || strings.Contains(text, `" onmouseover`) || strings.Contains(text, " style=") || strings.Contains(text, `name="tenant"`) {
		t.Errorf("it has markup of others, or what a tenant does not need: %s", text)
	}
	if _, text := get(t, browser, web.URL+"/calendar?only=window"); strings.Contains(text, `<a href="/schedules/acme:patch">`) || !strings.Contains(text, "2026-12-01 21:00:00 UTC") {
		t.Errorf("windows only: %s", text)
	}
	for _, query := range []string{"from=tomorrow", "days=93", "days=x", "zone=Mars/Base", "zone=Local"} {
		if resp, text := get(t, browser, web.URL+"/calendar?"+query); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, "expected") {
			t.Errorf("%s: %d: %s", query, resp.StatusCode, text)
		}
	}
	f.set("GET /v1/calendar", api.Calendar{})
	if _, text := get(t, browser, web.URL+"/calendar"); !strings.Contains(text, "There is no lane") {
		t.Errorf("without lanes: %s", text)
	}
	f.set("GET /v1/calendar", api.Problem{Status: http.StatusServiceUnavailable, Detail: "no definitions yet"})
	if resp, text := get(t, browser, web.URL+"/calendar"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "no definitions yet") {
		t.Errorf("%d: %s", resp.StatusCode, text)
	}
}

// The address is the view: a range begins with a day of its zone, and lasts whole days of it.
func TestCalendarFilter(t *testing.T) {
	now := utc(t, "2026-10-24 23:30")
	for _, c := range []struct{ query, begin, end, address, later string }{
		{"", "2026-10-24 00:00", "2026-11-07 00:00", "/calendar?", "/calendar?from=2026-11-07"},
		{"days=1", "2026-10-24 23:00", "2026-10-25 23:00", "/calendar?days=1", "/calendar?days=1&from=2026-10-25"},
		{"zone=Europe/Berlin&days=7", "2026-10-24 22:00", "2026-10-31 23:00", "/calendar?days=7&zone=Europe%2FBerlin", "/calendar?days=7&from=2026-11-01&zone=Europe%2FBerlin"},
		{"from=2026-12-01&tenant=a%26b&only=run&row=300", "2026-12-01 00:00", "2026-12-15 00:00", "/calendar?from=2026-12-01&only=run&row=300&tenant=a%26b", "/calendar?from=2026-12-15&only=run&tenant=a%26b"},
	} {
		q, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		f, err := calendarFilterOf(q, now)
		if err != nil || !f.begin.Equal(utc(t, c.begin)) || !f.end().Equal(utc(t, c.end)) || f.query() != c.address || f.Move(1) != c.later {
			t.Errorf("%s: %s to %s, %s, %s, %v", c.query, f.begin.UTC(), f.end().UTC(), f.query(), f.Move(1), err)
		}
	}
}

// Of many lanes the table has one row a lane, those with conflicts first; long tables have parts.
func TestCalendarView(t *testing.T) {
	lanes := make([]api.CalendarLane, calendarRows+1)
	for i := range lanes {
		lanes[i] = api.CalendarLane{Tenant: fmt.Sprint("t", i), Set: "s", Timezone: berlin}
	}
	lanes[7].Counts.Conflicts = 1
	at := utc(t, "2026-12-01 00:00")
	c := api.Calendar{From: at, To: at.Add(time.Hour), Lanes: lanes, Density: []api.CalendarCount{{From: at, To: at.Add(time.Hour), Open: 1}}}
	many := calendarOf(c, calendarFilter{Days: 14})
	if len(many.Lanes) != calendarRows || many.Lanes[0].Tenant != "t7" || many.Next != "/calendar?row=300" || len(many.Rows) != 0 {
		t.Errorf("%d lanes, %s, next %s", len(many.Lanes), many.Lanes[0].Tenant, many.Next)
	}
	lane := api.CalendarLane{Timezone: "UTC"}
	for range calendarRows + 1 {
		lane.FireTimes = append(lane.FireTimes, api.CalendarFire{At: at})
	}
	c = api.Calendar{From: at, To: at.Add(time.Hour), Lanes: []api.CalendarLane{lane}}
	if rest := calendarOf(c, calendarFilter{Days: 14, Row: calendarRows}); len(rest.Rows) != 1 || rest.Next != "" || rest.Rows[0].Kind != pictures.FireTime {
		t.Errorf("%d rows, next %s", len(rest.Rows), rest.Next)
	}
	for range calendarConflicts + 3 {
		lane.Conflicts = append(lane.Conflicts, api.CalendarConflict{At: at})
	}
	c.Lanes[0] = lane
	if v := calendarOf(c, calendarFilter{Days: 14, Only: pictures.Conflict}); len(v.Conflicts) != calendarConflicts || v.More != 3 || len(v.Rows) != calendarConflicts+3 {
		t.Errorf("%d conflicts, %d more, %d rows", len(v.Conflicts), v.More, len(v.Rows))
	}
	if got := commonZone(lanes); got != berlin {
		t.Error(got)
	}
}
