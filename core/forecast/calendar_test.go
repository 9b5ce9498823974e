package forecast

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

func defs(t testing.TB, text string) *windows.Definitions {
	t.Helper()
	d, err := windows.Parse(windows.Document{File: "w.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func utc(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// cron is a schedule by cron in a zone.
func cron(t testing.TB, name, expression, zone string, lanes ...LaneKey) CalendarSchedule {
	t.Helper()
	c, err := civil.ParseCron(expression)
	if err != nil {
		t.Fatal(err)
	}
	where, err := civil.LoadZone(zone)
	if err != nil {
		t.Fatal(err)
	}
	return CalendarSchedule{Name: name, Playbook: "patch", Lanes: lanes, Next: func(after time.Time, n int) ([]time.Time, error) {
		var out []time.Time
		for range n {
			next, ok := c.Next(after, where)
			if !ok {
				break
			}
			out, after = append(out, next), next
		}
		return out, nil
	}}
}

func made(t testing.TB, in CalendarInput) api.Calendar {
	t.Helper()
	c, err := MakeCalendar(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lines returns the content of a lane, an entry a line.
func lines(l *api.CalendarLane) string {
	var b strings.Builder
	for _, w := range l.Windows {
		kind := "open"
		if w.Unapproved != "" {
			kind = "unapproved"
		}
		fmt.Fprintln(&b, kind, w.OpenLocal, "-", w.CloseLocal, strings.Join(w.Notes, "; "))
	}
	for _, d := range l.Denied {
		fmt.Fprintln(&b, d.Kind, d.Name, d.FromLocal, "-", d.ToLocal)
	}
	for _, f := range l.FireTimes {
		fmt.Fprintln(&b, "fire", f.Schedule, f.Local, f.Open)
	}
	for _, c := range l.Conflicts {
		fmt.Fprintln(&b, "!", c.Kind, c.Text)
	}
	return b.String()
}

// Windows and fire times keep to the wall clock of their zone on days on which clocks change.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, zone, from, to, window, cron string
		changes, want                      string
	}{
		{
			"Berlin sets clocks back", "Europe/Berlin", "2026-10-24 00:00", "2026-10-26 00:00", `from: "22:00", to: "+1d 05:00"`, "30 2 * * *",
			"2026-10-25 01:00 03:00>02:00",
			`open Fri 2026-10-23 22:00 CEST - Sat 2026-10-24 05:00 CEST 
open Sat 2026-10-24 22:00 CEST - Sun 2026-10-25 05:00 CET lengthened by 1h by a clock change
open Sun 2026-10-25 22:00 CET - Mon 2026-10-26 05:00 CET 
fire s Sat 2026-10-24 02:30 CEST true
fire s Sun 2026-10-25 02:30 CEST true
`,
		},
		{
			"Berlin sets clocks forward", "Europe/Berlin", "2027-03-27 12:00", "2027-03-28 12:00", `from: "01:00", to: "04:00"`, "30 2 * * *",
			"2027-03-28 01:00 02:00>03:00",
			`open Sun 2027-03-28 01:00 CET - Sun 2027-03-28 04:00 CEST shortened by 1h by a clock change
fire s Sun 2027-03-28 03:00 CEST true
`,
		},
		{
			"New York sets clocks forward", "America/New_York", "2026-03-08 00:00", "2026-03-09 00:00", `from: "02:30", to: "04:00"`, "0 12 * * *",
			"2026-03-08 07:00 02:00>03:00",
			`open Sun 2026-03-08 03:00 EDT - Sun 2026-03-08 04:00 EDT shortened by 30m by a clock change; opens late: 02:30 does not exist on that day
fire s Sun 2026-03-08 12:00 EDT false
`,
		},
		{
			"New York sets clocks back", "America/New_York", "2026-11-01 00:00", "2026-11-02 00:00", `from: "00:30", to: "03:00"`, "30 1 * * *",
			"2026-11-01 06:00 02:00>01:00",
			`open Sun 2026-11-01 00:30 EDT - Sun 2026-11-01 03:00 EST lengthened by 1h by a clock change
fire s Sun 2026-11-01 01:30 EDT true
`,
		},
		{
			"Lord Howe sets clocks forward by half an hour", "Australia/Lord_Howe", "2026-10-03 12:00", "2026-10-04 00:00", `from: "01:00", to: "04:00"`, "15 2 * * *",
			"2026-10-03 15:30 02:00>02:30",
			`open Sun 2026-10-04 01:00 +1030 - Sun 2026-10-04 04:00 +11 shortened by 30m by a clock change
fire s Sun 2026-10-04 02:30 +11 true
`,
		},
		{
			"Lord Howe sets clocks back by half an hour", "Australia/Lord_Howe", "2026-04-04 12:00", "2026-04-05 00:00", `from: "01:00", to: "04:00"`, "45 1 * * *",
			"2026-04-04 15:00 02:00>01:30",
			`open Sun 2026-04-05 01:00 +11 - Sun 2026-04-05 04:00 +1030 lengthened by 30m by a clock change
fire s Sun 2026-04-05 01:45 +11 true
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			key := LaneKey{"acme", "s"}
			got := made(t, CalendarInput{
				From: utc(t, c.from), To: utc(t, c.to), Hosts: map[LaneKey]int{key: 2},
				Windows:   defs(t, fmt.Sprintf("window_sets: {s: {timezone: %s, allow: [{id: n, rrule: FREQ=DAILY, %s}]}}", c.zone, c.window)),
				Schedules: []CalendarSchedule{cron(t, "s", c.cron, c.zone, key)},
			})
			if text := lines(&got.Lanes[0]); text != c.want {
				t.Errorf("%s\nexpected\n%s", text, c.want)
			}
			changes := ""
			for _, z := range got.Zones {
				for _, change := range z.Changes {
					changes += change.At.Format("2006-01-02 15:04 ") + change.Before + ">" + change.After
				}
			}
			if changes != c.changes || got.Zones[0].Name != c.zone {
				t.Errorf("%q of %s, expected %q", changes, got.Zones[0].Name, c.changes)
			}
		})
	}
}

const frozen = `
window_sets:
  night:
    timezone: UTC
    allow: [{id: night, rrule: FREQ=DAILY, from: "22:00", to: "+1d 02:00"}]
    deny: [{use: freeze/fair}, {id: lunch, rrule: "FREQ=DAILY", from: "12:00", to: "13:00"}]
  asked:
    timezone: UTC
    approval: {by: cab, state: proposed}
    allow: [{id: night, rrule: FREQ=DAILY, from: "22:00", to: "+1d 02:00"}]
  broken: {timezone: UTC, requires: [asked], allow: []}
freezes:
  fair: {timezone: UTC, from: 2026-12-02T00:00:00, to: 2026-12-04T00:00:00, owner: ops, reason: the fair}
`

// Each conflict has its negative control: the same on a day without it.
func TestConflicts(t *testing.T) {
	t.Parallel()
	night, asked := LaneKey{"acme", "night"}, LaneKey{"acme", "asked"}
	run := func(id string, key LaneKey, begin, finish, late string) CalendarRun {
		return CalendarRun{api.Run{ID: id, Playbook: "patch", Created: utc(t, "2026-12-01 00:00")}, map[LaneKey]LanePart{key: {Hosts: 3, Begin: utc(t, begin), Finish: utc(t, finish), Late: utc(t, late)}}}
	}
	for _, c := range []struct {
		name      string
		schedules []CalendarSchedule
		runs      []CalendarRun
		hosts     map[LaneKey]int
		want      string
	}{
		{"a fire time within a window", []CalendarSchedule{cron(t, "s", "0 23 4 12 *", "UTC", night)}, nil, nil, ""},
		{"a fire time before a window", []CalendarSchedule{cron(t, "s", "0 9 4 12 *", "UTC", night)}, nil, nil, ""},
		{"no window is needed", []CalendarSchedule{cron(t, "s", "0 23 2 12 *", "UTC", LaneKey{"acme", ""})}, nil, nil, ""},
		{
			"a fire time within a freeze", []CalendarSchedule{cron(t, "s", "0 23 2 12 *", "UTC", night)}, nil, nil,
			"frozen 12-02 23:00 schedule s launches patch within freeze/fair: its hosts wait until Fri 2026-12-04 00:00 UTC\n",
		},
		{
			"a fire time in a window that nobody approved", []CalendarSchedule{cron(t, "s", "0 23 4 12 *", "UTC", asked)}, nil, nil,
			"unapproved 12-04 23:00 schedule s launches patch in a window that is not open (unapproved: the approval by cab is only proposed): its hosts find no window before Mon 2026-12-07 00:00 UTC\n",
		},
		{"a run that ends in its window", nil, []CalendarRun{run("r", night, "2026-12-04 22:00", "2026-12-04 23:00", "2026-12-05 02:00")}, nil, ""},
		{"a run that continues in the next one", nil, []CalendarRun{run("r", night, "2026-12-04 22:00", "2026-12-05 01:00", "2026-12-05 23:00")}, nil, ""},
		{
			"a run that may end late", nil, []CalendarRun{run("r", night, "2026-12-04 22:00", "2026-12-05 01:00", "2026-12-05 02:30")}, nil,
			"overrun 12-05 02:00 run r may still run when the window closes: its P90 end is Sat 2026-12-05 02:30 UTC\n",
		},
		{
			"runs that follow each other", nil,
			[]CalendarRun{run("b", night, "2026-12-04 23:00", "2026-12-04 23:30", "2026-12-05 01:00"), run("a", night, "2026-12-04 22:00", "2026-12-04 22:30", "2026-12-04 23:00")}, nil, "",
		},
		{
			"runs that overlap", nil,
			[]CalendarRun{run("b", night, "2026-12-04 23:00", "2026-12-04 23:30", "2026-12-05 01:00"), run("a", night, "2026-12-04 22:00", "2026-12-04 22:30", "2026-12-04 23:01")}, nil,
			"overlap 12-04 23:00 run b begins before the P90 end of run a: hosts of both wait for each other\n",
		},
		{
			"a launch while a run continues", nil,
			[]CalendarRun{run("a", night, "2026-12-04 22:00", "2026-12-04 22:30", "2026-12-05 01:00"), {api.Run{Schedule: "s"}, map[LaneKey]LanePart{night: {Begin: utc(t, "2026-12-05 00:00"), Finish: utc(t, "2026-12-05 01:00"), Late: utc(t, "2026-12-05 01:30")}}}}, nil,
			"overlap 12-05 00:00 the next launch of schedule s begins before the P90 end of run a: hosts of both wait for each other\n",
		},
		{"runs without a forecast", nil, []CalendarRun{{api.Run{ID: "a"}, map[LaneKey]LanePart{night: {}}}, {api.Run{ID: "b"}, map[LaneKey]LanePart{night: {}}}}, nil, ""},
		{"hosts of a set that nobody defines", nil, nil, map[LaneKey]int{{"acme", "gone"}: 3}, "closed 12-01 00:00 window set gone is closed: no window set has the name \"gone\"\n"},
		{"nobody uses the set", nil, nil, map[LaneKey]int{{"acme", "gone"}: 0}, ""},
	} {
		got := made(t, CalendarInput{From: utc(t, "2026-12-01 00:00"), To: utc(t, "2026-12-07 00:00"), Windows: defs(t, frozen), Hosts: c.hosts, Schedules: c.schedules, Runs: c.runs})
		text := ""
		for _, l := range got.Lanes {
			for _, conflict := range l.Conflicts {
				text += conflict.Kind + " " + conflict.At.Format("01-02 15:04") + " " + conflict.Text + "\n"
			}
			if l.Counts.Conflicts != len(l.Conflicts) {
				t.Errorf("%s: %+v", c.name, l.Counts)
			}
		}
		if text != c.want {
			t.Errorf("%s: %q, expected %q", c.name, text, c.want)
		}
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	got := made(t, CalendarInput{
		At: utc(t, "2026-12-01 12:30"), From: utc(t, "2026-12-01 12:00"), To: utc(t, "2026-12-03 00:00"), Windows: defs(t, frozen),
		Hosts:     map[LaneKey]int{{"globex", "night"}: 1, {"acme", "night"}: 2, {"acme", "asked"}: 3},
		Schedules: []CalendarSchedule{cron(t, "s", "0 */12 * * *", "UTC", LaneKey{"acme", ""}, LaneKey{"acme", "night"})},
		Runs:      []CalendarRun{{api.Run{ID: "r", Phase: api.Active, Created: utc(t, "2026-12-01 11:00")}, map[LaneKey]LanePart{{"acme", "night"}: {Hosts: 7}}}},
	})
	var names []string
	for _, l := range got.Lanes {
		names = append(names, fmt.Sprintf("%s/%s %d %d", l.Tenant, l.Set, l.Hosts, l.Counts.FireTimes))
	}
	if want := []string{"acme/ 0 2", "acme/asked 3 0", "acme/night 2 2", "globex/night 1 0"}; !slices.Equal(names, want) {
		t.Errorf("%q, expected %q", names, want)
	}
	if text, want := lines(&got.Lanes[2]), `open Tue 2026-12-01 22:00 UTC - Wed 2026-12-02 00:00 UTC clipped by freeze/fair
rule lunch Tue 2026-12-01 12:00 UTC - Tue 2026-12-01 13:00 UTC
freeze fair Wed 2026-12-02 00:00 UTC - Fri 2026-12-04 00:00 UTC
rule lunch Wed 2026-12-02 12:00 UTC - Wed 2026-12-02 13:00 UTC
fire s Wed 2026-12-02 00:00 UTC false
fire s Wed 2026-12-02 12:00 UTC false
! frozen schedule s launches patch within freeze/fair: its hosts find no window before Thu 2026-12-03 00:00 UTC
! frozen schedule s launches patch within freeze/fair: its hosts find no window before Thu 2026-12-03 00:00 UTC
`; text != want {
		t.Errorf("%s\nexpected\n%s", text, want)
	}
	if d := got.Lanes[2].Denied[1]; d.Owner != "ops" || d.Reason != "the fair" {
		t.Errorf("%+v", d)
	}
	if r := got.Lanes[2].Runs; len(r) != 1 || r[0].Hosts != 7 || !r[0].Begin.Equal(utc(t, "2026-12-01 11:00")) || !r[0].FinishP90.IsZero() {
		t.Errorf("%+v", r)
	}
	if w := got.Lanes[1].Windows; len(w) != 2 || w[0].Unapproved == "" {
		t.Errorf("%+v", w)
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	from := utc(t, "2026-08-01 00:00")
	for _, c := range []struct {
		from, to time.Time
		good     bool
	}{
		{from, from.Add(MaxCalendarRange), true},
		{from, from.Add(MaxCalendarRange + 1), false},
		{from, from, false},
		{from, from.Add(-time.Hour), false},
		{time.Time{}, time.Time{}.Add(time.Hour), false},
		{utc(t, "2151-01-01 00:00"), utc(t, "2151-01-02 00:00"), false},
	} {
		_, err := MakeCalendar(CalendarInput{From: c.from, To: c.to, Windows: defs(t, frozen)})
		if c.good != (err == nil) || err != nil && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

// Of many lanes each has counts, and the density has the times.
func TestDensity(t *testing.T) {
	t.Parallel()
	hosts := map[LaneKey]int{}
	for i := range MaxLanes {
		hosts[LaneKey{fmt.Sprint("t", i), "night"}] = 1
	}
	in := CalendarInput{
		From: utc(t, "2026-12-01 00:00"), To: utc(t, "2026-12-05 12:30"), Windows: defs(t, frozen), Hosts: hosts,
		Schedules: []CalendarSchedule{cron(t, "s", "0 23 * * *", "UTC", LaneKey{"t1", "night"})},
		Runs:      []CalendarRun{{api.Run{ID: "r", Created: utc(t, "2026-12-01 04:00")}, map[LaneKey]LanePart{{"t1", "night"}: {Begin: utc(t, "2026-12-01 23:30"), Finish: utc(t, "2026-12-02 00:30"), Late: utc(t, "2026-12-02 01:00")}}}},
	}
	if few := made(t, in); few.Density != nil || len(few.Lanes[0].Windows) == 0 {
		t.Errorf("%d lanes: %v", len(few.Lanes), few.Density)
	}
	hosts[LaneKey{"zeta", "asked"}] = 1
	many := made(t, in)
	if len(many.Lanes) != MaxLanes+1 || many.Lanes[0].Windows == nil || len(many.Lanes[0].Windows) != 0 || many.Lanes[0].Counts.Open != 4 || len(many.Density) != 109 {
		t.Fatalf("%d lanes, %+v, %d parts", len(many.Lanes), many.Lanes[0], len(many.Density))
	}
	for at, want := range map[int]api.CalendarCount{
		0:   {Open: 200, Unapproved: 1},
		1:   {Open: 200, Unapproved: 1},
		2:   {},
		12:  {Denied: 200},
		23:  {Open: 200, Unapproved: 1, FireTimes: 1, Runs: 1},
		24:  {Unapproved: 1, Denied: 200, Runs: 1},
		25:  {Unapproved: 1, Denied: 200},
		47:  {Unapproved: 1, Denied: 200, FireTimes: 1, Conflicts: 1},
		108: {Denied: 200},
	} {
		got := many.Density[at]
		got.From, got.To = time.Time{}, time.Time{}
		if got != want {
			t.Errorf("hour %d: %+v, expected %+v", at, got, want)
		}
	}
}

// The work of a calendar is bounded, whatever schedules and sets contain.
func TestBounds(t *testing.T) {
	t.Parallel()
	key := LaneKey{"acme", "often"}
	in := CalendarInput{
		From: utc(t, "2026-09-01 00:00"), To: utc(t, "2026-12-01 00:00"), Hosts: map[LaneKey]int{key: 1},
		Windows:   defs(t, `window_sets: {often: {timezone: UTC, allow: [{id: h, cron: "0 * * * *", duration: 10m}]}}`),
		Schedules: []CalendarSchedule{cron(t, "s", "* * * * *", "UTC", key)},
	}
	l := made(t, in).Lanes[0]
	if len(l.Windows) != mostOfLane || l.Counts.Open != 91*24 || len(l.FireTimes) != mostOfLane || l.LeftOut < 91*24-mostOfLane+1 {
		t.Errorf("%d windows of %d, %d fire times, %d left out", len(l.Windows), l.Counts.Open, len(l.FireTimes), l.LeftOut)
	}
	for i := range mostLanes {
		in.Hosts[LaneKey{fmt.Sprint("t", i), ""}] = 1
	}
	in.Schedules = nil
	if c := made(t, in); len(c.Lanes) != mostLanes || c.LanesLeftOut != 1 {
		t.Errorf("%d lanes, %d left out", len(c.Lanes), c.LanesLeftOut)
	}
	in.Hosts = map[LaneKey]int{key: 1}
	in.Schedules = []CalendarSchedule{{Name: "bad", Lanes: []LaneKey{key}, Next: func(time.Time, int) ([]time.Time, error) { return nil, core.ErrInvalid }}}
	if l := made(t, in).Lanes[0]; len(l.FireTimes) != 0 {
		t.Errorf("%+v", l.FireTimes)
	}
}

// Lanes share the fire times of a schedule: a calendar of thousands of lanes stays small.
func TestLanesShareFireTimes(t *testing.T) {
	t.Parallel()
	m := calendarMaker{CalendarInput: CalendarInput{From: utc(t, "2026-09-01 00:00"), To: utc(t, "2026-09-08 00:00")}, lanes: map[LaneKey]*lane{}}
	s := cron(t, "s", "*/10 * * * *", "UTC")
	for i := range 1000 {
		s.Lanes = append(s.Lanes, LaneKey{"acme", fmt.Sprint(i)})
	}
	m.schedule(&s)
	first, last := m.lane(s.Lanes[0]), m.lane(s.Lanes[999])
	if n := len(first.all()); n != 7*24*6 {
		t.Errorf("%d fire times", n)
	}
	if &first.fires[0].at[0] != &last.fires[0].at[0] {
		t.Error("each lane has fire times of its own")
	}
}
