package ics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/turnus/turnus/windows"
)

func parse(t testing.TB, text string) *windows.Definitions {
	t.Helper()
	d, err := windows.Parse(windows.Document{File: "w.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestWrite(t *testing.T) {
	d := parse(t, `window_sets: {acme: {timezone: Europe/Berlin, allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}], approval: {by: "cab,a;b", until: 2026-10-24}}}`)
	from := instant(t, "2026-10-20T00:00:00Z")
	c := d.Compile("acme", windows.Ahead(from, 10))
	var b strings.Builder
	if err := Write(&b, Calendar{Name: "Maintenance windows acme", Feeds: []Feed{{Set: "acme", Zone: c.Zone, Windows: c.Occurrences(from, c.Horizon.To)}}, Stamp: from, Sequence: 7}); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//Turnus//Maintenance windows//EN
CALSCALE:GREGORIAN
METHOD:PUBLISH
X-WR-CALNAME:Maintenance windows acme
BEGIN:VEVENT
UID:sat-20261024@acme.turnus
DTSTAMP:20261020T000000Z
SEQUENCE:7
DTSTART:20261024T200000Z
DTEND:20261024T220000Z
SUMMARY:Maintenance window acme
STATUS:CONFIRMED
DESCRIPTION:lengthened by 1h by a clock change\nclipped to its approval
END:VEVENT
BEGIN:VEVENT
UID:sat-20261025@acme.turnus
DTSTAMP:20261020T000000Z
SEQUENCE:7
DTSTART:20261024T220000Z
DTEND:20261025T040000Z
SUMMARY:Not approved: maintenance window acme
STATUS:TENTATIVE
DESCRIPTION:lengthened by 1h by a clock change\nunapproved: the approval by
  cab\,a\;b expired 2026-10-25 00:00
END:VEVENT
END:VCALENDAR
`, "\n", "\r\n")
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

func TestLinesAreFoldedBetweenCharacters(t *testing.T) {
	var b strings.Builder
	line(&b, "SUMMARY", strings.Repeat("ü😀", 60))
	for l := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\r\n"), "\r\n") {
		if len(l) > 75 {
			t.Errorf("%d octets: %s", len(l), l)
		}
	}
	if got := strings.ReplaceAll(b.String(), "\r\n ", ""); got != "SUMMARY:"+strings.Repeat("ü😀", 60)+"\r\n" {
		t.Errorf("got %s", got)
	}
}

// A window keeps its UID when windows of the same day have ended, and names cannot begin a line.
func TestUIDsStayAndNamesAreTexts(t *testing.T) {
	d := parse(t, `window_sets: {west: {timezone: America/Los_Angeles, allow: [{id: d, rrule: FREQ=DAILY, from: "10:00", to: "11:00"}]}}`)
	first := instant(t, "2026-10-20T00:00:00Z")
	c := d.Compile("west", windows.Ahead(first, 30))
	twice := func(from time.Time) string {
		all := c.Occurrences(from.AddDate(0, 0, -2), c.Horizon.To)
		var list []windows.Window
		for _, w := range all { // a second window of each day, behind midnight in UTC
			list = append(list, w, windows.Window{Open: w.Open.Add(10 * time.Hour), Close: w.Close.Add(10 * time.Hour), Rules: w.Rules})
		}
		var b strings.Builder
		const evil = "x\r\nBEGIN:VEVENT\nSUMMARY:evil;a,b\x00\x07\\"
		if err := Write(&b, Calendar{Name: evil, Note: evil, Feeds: []Feed{{Set: evil, About: evil, Zone: c.Zone, Windows: list, From: from}}, Freezes: []Freeze{{Name: evil, About: evil, From: from, To: from.Add(time.Hour)}}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	times := func(text string) map[string]string {
		cal, err := decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, e := range cal.Events() {
			if value(e, "CATEGORIES") == "" {
				out[value(e, "UID")] = value(e, "DTSTART")
			}
		}
		return out
	}
	day, next := times(twice(first.AddDate(0, 0, 9))), times(twice(first.AddDate(0, 0, 10)))
	if len(day) != len(next)+2 {
		t.Errorf("%d events, then %d", len(day), len(next))
	}
	for uid, at := range next {
		if day[uid] != at {
			t.Errorf("UID %s: %s, then %s", uid, day[uid], at)
		}
	}
	text := twice(first)
	if strings.Contains(text, "\nSUMMARY:evil") || strings.Count(text, "\r\nBEGIN:VEVENT\r\n") != strings.Count(text, "\r\nEND:VEVENT\r\n") || strings.ContainsAny(text, "\x00\x07") {
		t.Errorf("a name is more than a text: %.2000s", text)
	}
	cal, err := decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := cal.Events()[0].Props.Text("SUMMARY"); err != nil || got != "Maintenance window x\nBEGIN:VEVENT\nSUMMARY:evil;a,b\\" {
		t.Errorf("%q, %v", got, err)
	}
}

// calendar is a calendar of events with a UID each, where they do not give one.
func calendar(events ...string) string { return calendarWith("", events...) }

func calendarWith(header string, events ...string) string {
	text := "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n" + header
	for i, e := range events {
		if !strings.Contains(e, "UID:") {
			e = fmt.Sprintf("UID:%d\n%s", i, e)
		}
		text += "BEGIN:VEVENT\n" + e + "\nEND:VEVENT\n"
	}
	return text + "END:VCALENDAR\n"
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{
			"a weekly event over midnight", calendar("SUMMARY:Patch night\nDTSTART;TZID=Europe/Berlin:20260103T220000\nDTEND;TZID=Europe/Berlin:20260104T050000\nRRULE:FREQ=WEEKLY;BYDAY=SA"),
			"2026-10-24T20:00:00Z 2026-10-25T04:00:00Z Patch-night",
		},
		{
			"every other week from the start on", calendar("DTSTART;TZID=Europe/Berlin:20261010T220000\nDURATION:PT2H\nRRULE:FREQ=WEEKLY;INTERVAL=2"),
			"2026-10-24T20:00:00Z 2026-10-24T22:00:00Z event-1",
		},
		{
			"a date left out and one added", calendar("DTSTART;TZID=Europe/Berlin:20261017T220000\nDURATION:PT2H\nRRULE:FREQ=WEEKLY\nEXDATE;TZID=Europe/Berlin:20261024T220000\nRDATE;TZID=Europe/Berlin:20261026T220000"),
			"2026-10-26T21:00:00Z 2026-10-26T23:00:00Z event-1-rdate-1",
		},
		{"a single event in UTC", calendar("DTSTART:20261024T200000Z\nDTEND:20261024T230000Z"), "2026-10-24T20:00:00Z 2026-10-24T23:00:00Z event-1"},
		{"a whole day", calendarWith("X-WR-TIMEZONE:UTC\n", "DTSTART;VALUE=DATE:20261025\nSUMMARY:Sunday"), "2026-10-25T00:00:00Z 2026-10-26T00:00:00Z Sunday"},
		{
			"a Windows zone name", calendar("DTSTART;TZID=W. Europe Standard Time:20261024T220000\nDTEND;TZID=W. Europe Standard Time:20261025T020000"),
			"2026-10-24T20:00:00Z 2026-10-25T00:00:00Z event-1",
		},
		{
			"an end in another zone", calendar("DTSTART;TZID=Europe/Berlin:20261024T220000\nDTEND;TZID=Europe/London:20261024T230000"),
			"2026-10-24T20:00:00Z 2026-10-24T22:00:00Z event-1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, err := Read([]byte(strings.ReplaceAll(c.text, "\n", "\r\n")), Import{Name: "acme"})
			if err != nil {
				t.Fatal(err)
			}
			from := instant(t, "2026-10-20T00:00:00Z")
			compiled := parse(t, string(set.YAML)).Compile("acme", windows.Ahead(from, 10))
			var got []string
			for _, w := range compiled.Occurrences(from, from.AddDate(0, 0, 7)) {
				got = append(got, fmt.Sprintf("%s %s %s", w.Open.Format(time.RFC3339), w.Close.Format(time.RFC3339), strings.Join(w.Rules, ",")))
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got %s\nwant %s\n%s", strings.Join(got, "\n"), c.want, set.YAML)
			}
		})
	}
}

func TestReadTakesAllOrNothing(t *testing.T) {
	good := "DTSTART;TZID=Europe/Berlin:20261024T220000\nDURATION:PT2H"
	for name, c := range map[string]struct{ text, want string }{
		"empty":        {"", "ends too early"},
		"not ICS":      {"hello", "calendar"},
		"cut short":    {"BEGIN:VCALENDAR\nBEGIN:VEVENT\n", "ends too early"},
		"wrong end":    {"BEGIN:VCALENDAR\nEND:VEVENT\n", "malformed"},
		"no events":    {"BEGIN:VCALENDAR\nVERSION:2.0\nEND:VCALENDAR\n", "0 events"},
		"hourly":       {calendar(good + "\nRRULE:FREQ=HOURLY"), "not supported"},
		"no start":     {calendar("SUMMARY:x"), "event x: it has no DTSTART"},
		"no end":       {calendar("DTSTART:20261024T200000Z"), "neither DTEND nor DURATION"},
		"backwards":    {calendar("DTSTART:20261024T200000Z\nDTEND:20261024T190000Z"), "DTEND is not after DTSTART"},
		"zone":         {calendar("DTSTART;TZID=Mars:20261024T200000\nDURATION:PT2H"), "Mars"},
		"second zone":  {calendar(good+"\nRRULE:FREQ=WEEKLY", "DTSTART;TZID=Asia/Tokyo:20261024T220000\nDURATION:PT2H\nRRULE:FREQ=WEEKLY"), "recurs in Asia/Tokyo"},
		"exclude rule": {calendar(good + "\nRRULE:FREQ=WEEKLY\nEXRULE:FREQ=MONTHLY"), "EXRULE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(c.text), Import{Name: "acme"})
			if !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	set, err := Read([]byte(calendar(good, good+"\nSTATUS:CANCELLED\nSUMMARY:gone")), Import{Name: "acme"})
	if err != nil || len(set.Skipped) != 1 || !strings.Contains(set.Skipped[0], "gone") || strings.Contains(string(set.YAML), "gone") {
		t.Errorf("%+v, %v", set, err)
	}
}

func TestWhatIsWrittenIsReadBack(t *testing.T) {
	d := parse(t, `window_sets: {acme: {timezone: Europe/Berlin, allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}], deny: [{use: holidays/DE-HE}]}}`)
	from := instant(t, "2026-03-01T00:00:00Z")
	c := d.Compile("acme", windows.Ahead(from, 365))
	list := c.Occurrences(from, c.Horizon.To)
	var b strings.Builder
	if err := Write(&b, Calendar{Feeds: []Feed{{Set: "acme", Zone: c.Zone, Windows: list}}, Freezes: []Freeze{{Name: "x", From: from, To: from.AddDate(0, 0, 9)}}, Stamp: from}); err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"UTC", "Asia/Kathmandu"} {
		set, err := Read([]byte(b.String()), Import{Name: "again", Timezone: zone})
		if err != nil {
			t.Fatal(err)
		}
		again := parse(t, string(set.YAML)).Compile("again", c.Horizon)
		got := again.Occurrences(from, c.Horizon.To)
		if len(set.Skipped) != 1 || !strings.Contains(set.Skipped[0], "a freeze") {
			t.Errorf("%q", set.Skipped)
		}
		if len(got) != len(list) {
			t.Fatalf("%d windows, want %d", len(got), len(list))
		}
		for i := range got {
			if !got[i].Open.Equal(list[i].Open) || !got[i].Close.Equal(list[i].Close) {
				t.Errorf("%s: %v, want %v", zone, got[i], list[i])
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(calendar("DTSTART;TZID=Europe/Berlin:20260103T220000\nDURATION:P1DT2H\nRRULE:FREQ=WEEKLY;BYDAY=SA\nEXDATE:20260110T210000Z"))
	f.Add(calendar("DTSTART;VALUE=DATE:20261025"))
	f.Add("BEGIN:VCALENDAR\nBEGIN:X\nBEGIN:X\nEND:X\n")
	f.Add("BEGIN:VCALENDAR\nA;B=\"")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Read([]byte(text), Import{Name: "fuzz"})
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		if err == nil {
			parse(t, string(set.YAML))
		}
	})
}
