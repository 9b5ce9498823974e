package pictures

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// berlin is a calendar of a lane that has one of everything, each with texts of others.
func berlin(t testing.TB) (api.Calendar, *time.Location) {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := func(day, hour int) time.Time { return time.Date(2026, 10, day, hour, 0, 0, 0, time.UTC) }
	return api.Calendar{
		At: at(24, 12), From: at(23, 22), To: at(30, 23),
		Zones: []api.CalendarZone{{Name: "Europe/Berlin", Changes: []api.ClockChange{{At: at(25, 1), By: core.Seconds(-3600), Before: "03:00", After: "02:00"}}}, {Name: "UTC"}},
		Lanes: []api.CalendarLane{{
			Tenant: hostile, Set: hostile, Timezone: "Europe/Berlin", Hosts: 3, LeftOut: 2, Reason: hostile,
			Windows: []api.CalendarWindow{
				{Occurrence: api.Occurrence{Open: at(24, 20), Close: at(25, 4), OpenLocal: "open local", CloseLocal: "close local", Notes: []string{hostile}}},
				{Occurrence: api.Occurrence{Open: at(26, 20), Close: at(27, 4)}, Unapproved: hostile},
				{Occurrence: api.Occurrence{Open: at(1, 20), Close: at(2, 4)}},
			},
			Denied:    []api.CalendarDenied{{Kind: "freeze", Name: hostile, From: at(27, 0), To: at(29, 0), Owner: hostile, Reason: hostile, Cancels: true}},
			FireTimes: []api.CalendarFire{{Schedule: hostile, Playbook: hostile, At: at(28, 9), Local: "fire local", Opens: at(30, 20)}},
			Runs:      []api.CalendarRun{{Run: hostile, Playbook: hostile, Phase: api.Active, Hosts: 3, Begin: at(24, 20), FinishP50: at(24, 22), FinishP90: at(25, 2)}, {Run: "r2", Begin: at(24, 11)}, {Schedule: "s", Begin: at(28, 20), FinishP50: at(28, 21), FinishP90: at(28, 22)}},
			Conflicts: []api.CalendarConflict{{Kind: "frozen", At: at(28, 9), Local: "conflict local", Text: hostile}},
		}},
	}, zone
}

// Each kind of thing has a shape of its own and a letter, and what others wrote is text.
func TestCalendarPicture(t *testing.T) {
	t.Parallel()
	c, zone := berlin(t)
	links := func(kind, name string) string { return "/" + kind + "/" + name }
	picture := Calendar(&c, CalendarLook{Zone: zone, Links: links})
	n := elements(t, picture.Markup)
	// Without an edge for the window that is not in the range.
	if n["script"] != 0 || n["a"] != 1+1+3 || n["circle"] != 1 || n["path"] != 1 || n["pattern"] != 1 || n["rect"] != 1+2+1+2+1+2 || picture.Height != calHead+calLane {
		t.Errorf("%v, height %d", n, picture.Height)
	}
	for _, part := range []string{
		">W</text>", ">?</text>", ">F</text>", ">!</text>", "03:00→02:00", ">now</text>", `fill="url(#c-hatch)"`, "open local to close local", "Europe/Berlin", ">UTC</text>", "Sun 25 Oct",
		"P50", "P90", "no forecast", "planned by schedule s", `href="/schedule/s"`, "c-plan", "at least 2 entries are left out",
	} {
		if !strings.Contains(picture.Markup, part) {
			t.Errorf("it lacks %s", part)
		}
	}
	document := CalendarDocument(&c, CalendarLook{})
	if n := elements(t, document); n["svg"] != 2 || n["script"] != 0 || n["a"] != 0 || strings.Contains(document, "03:00→02:00") {
		t.Errorf("%v", n)
	}
	for _, class := range []string{"c-open", "c-held", "c-hatch", "c-deny", "c-run", "c-tail", "c-fire", "c-bad", "c-clock", "c-now"} {
		if strings.Count(calendarStyle, "."+class+"{") < 2 {
			t.Errorf("%s has no colour in one of the schemes", class)
		}
	}
}

// The axis of a zone has the days of that zone, also where one has 23 or 25 hours.
func TestTicks(t *testing.T) {
	t.Parallel()
	_, zone := berlin(t)
	from := time.Date(2026, 10, 23, 22, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		length time.Duration
		want   string
	}{
		{48*time.Hour + time.Hour, "Sat 24 Oct 06:00 12:00 18:00 Sun 25 Oct 06:00 12:00 18:00"},
		{3*day + time.Hour, "Sat 24 Oct Sun 25 Oct Mon 26 Oct"},
		{10 * day, "24 Oct 25 Oct 26 Oct 27 Oct 28 Oct 29 Oct 30 Oct 31 Oct 1 Nov 2 Nov"},
		{20 * day, "24 Oct 26 Oct 28 Oct 30 Oct 1 Nov 3 Nov 5 Nov 7 Nov 9 Nov 11 Nov"},
		{40 * day, "24 Oct 31 Oct 7 Nov 14 Nov 21 Nov 28 Nov"},
	} {
		var got []string
		for _, at := range ticks(from, from.Add(c.length), zone) {
			got = append(got, tickText(at.In(zone), c.length))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%v: %s, expected %s", c.length, text, c.want)
		}
	}
}

func TestAgenda(t *testing.T) {
	t.Parallel()
	c, _ := berlin(t)
	c.Lanes[0].Tenant, c.Lanes[0].Set = "acme", "night"
	got := ""
	for _, r := range Agenda(&c) {
		got += fmt.Sprintln(r.From.Format("02 15"), r.What(), r.Tenant, r.Set, r.Schedule != "", r.Run != "", r.To.IsZero())
	}
	if want := `01 20 window acme night false false false
24 11 run acme night false true true
24 20 window acme night false false false
24 20 run acme night false true false
25 01 clocks change   false false true
26 20 not approved acme night false false false
27 00 closed acme night false false false
28 09 launch acme night true false true
28 09 conflict acme night false false true
28 20 run acme night true false false
`; got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
}

// Of many lanes the picture counts them; its size does not depend on how many there are.
func TestCalendarDensity(t *testing.T) {
	t.Parallel()
	c, zone := berlin(t)
	c.Lanes = make([]api.CalendarLane, 5000)
	for i := range 168 {
		begin := c.From.Add(time.Duration(i) * time.Hour)
		c.Density = append(c.Density, api.CalendarCount{From: begin, To: begin.Add(time.Hour), Open: i, Unapproved: 1})
	}
	picture := Calendar(&c, CalendarLook{Zone: zone})
	if n := elements(t, picture.Markup); n["rect"] != 1+167+168 || picture.Height != calHead+6*calLane || !strings.Contains(picture.Markup, "open window: 167 of 5000 lanes") {
		t.Errorf("%v, height %d", n, picture.Height)
	}
}
