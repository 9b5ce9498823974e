package ics

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/windows"
)

const weekly = "UID:a\nSUMMARY:w\nDTSTART;TZID=Europe/Berlin:20261017T220000\nDTEND;TZID=Europe/Berlin:20261018T000000\nRRULE:FREQ=WEEKLY;BYDAY=SA\n"

const night = "UID:a\nSUMMARY:n\nDTSTART;TZID=Europe/Berlin:20260103T220000\nDTEND;TZID=Europe/Berlin:20260104T050000\nRRULE:FREQ=WEEKLY;BYDAY=SA\n"

// A calendar opens what is in its newest revisions, in the zone that it names, and nothing else.
func TestFaultW4Calendar(t *testing.T) {
	const single = "DTSTART;TZID=Europe/Berlin:20261024T220000\n"
	const at = "2026-10-24T20:00:00Z 2026-10-24T22:00:00Z"
	for _, c := range []struct{ name, text, want string }{
		{
			"the highest SEQUENCE",
			calendar(weekly+"SEQUENCE:2", "UID:a\nSUMMARY:w\nDTSTART;TZID=Europe/Berlin:20261015T030000\nDURATION:PT1H\nRRULE:FREQ=DAILY\nSEQUENCE:1"), at,
		},
		{"the highest SEQUENCE, written as 10 after 9", calendar("UID:a\n"+single+"DURATION:PT9H\nSEQUENCE:9", "UID:a\n"+single+"DURATION:PT2H\nSEQUENCE:10"), at},
		{"no SEQUENCE is 0", calendar("UID:a\n"+single+"DURATION:PT9H", "UID:a\n"+single+"DURATION:PT2H\nSEQUENCE:1"), at},
		{"the latest DTSTAMP", calendar("UID:a\nDTSTAMP:20260102T000000Z\n"+single+"DURATION:PT2H", "UID:a\nDTSTAMP:20260101T000000Z\n"+single+"DURATION:PT9H"), at},
		{"cancelled by a later revision", calendar(weekly+"SEQUENCE:1", weekly+"SEQUENCE:2\nSTATUS:CANCELLED"), ""},
		{"a cancelled series, a moved occurrence of it", calendar(weekly+"STATUS:CANCELLED", "UID:a\n"+single+"DURATION:PT2H\nRECURRENCE-ID;TZID=Europe/Berlin:20261024T220000"), ""},
		{"tentative", calendar(weekly + "STATUS:TENTATIVE"), ""},
		{"one occurrence cancelled", calendar(weekly, "UID:a\n"+single+"RECURRENCE-ID;TZID=Europe/Berlin:20261024T220000\nSTATUS:CANCELLED"), ""},
		{"one occurrence cancelled, in UTC", calendar(weekly, "UID:a\n"+single+"RECURRENCE-ID:20261024T200000Z\nSTATUS:CANCELLED"), ""},
		{"left out in UTC, in the autumn night", calendar(night + "EXDATE:20261024T200000Z"), ""},
		{"cancelled in UTC, in the autumn night", calendar(night, "UID:a\n"+single+"RECURRENCE-ID:20261024T200000Z\nSTATUS:CANCELLED"), ""},
		{"added in UTC, in the autumn night", calendar(strings.ReplaceAll(night, "RRULE:FREQ=WEEKLY;BYDAY=SA", "RDATE:20261024T200000Z")), "2026-10-24T20:00:00Z 2026-10-25T04:00:00Z"},
		{
			"one occurrence moved", calendar(weekly, "UID:a\nDTSTART;TZID=Europe/Berlin:20261022T010000\nDURATION:PT1H\nRECURRENCE-ID;TZID=Europe/Berlin:20261024T220000\nSEQUENCE:1"),
			"2026-10-21T23:00:00Z 2026-10-22T00:00:00Z",
		},
		{"only a moved occurrence", calendar("UID:a\n" + single + "DURATION:PT2H\nRECURRENCE-ID;TZID=Europe/Berlin:20261023T220000"), at},
		{"a floating time", calendarWith("X-WR-TIMEZONE:Europe/Berlin\n", "DTSTART:20261024T220000\nDTEND:20261025T000000"), at},
		{"a floating time that recurs", calendarWith("X-WR-TIMEZONE:Europe/Berlin\n", "DTSTART:20261017T220000\nDURATION:PT2H\nRRULE:FREQ=WEEKLY"), at},
		{"a floating time beside another zone", calendarWith("X-WR-TIMEZONE:Europe/Berlin\n", "DTSTART:20261024T220000\nDURATION:PT2H", "DTSTART;TZID=Asia/Tokyo:20251224T220000\nDURATION:PT2H\nRRULE:FREQ=DAILY;COUNT=2"), at},
		{"a floating day", calendarWith("X-WR-TIMEZONE:Europe/Berlin\n", "DTSTART;VALUE=DATE:20261021"), "2026-10-20T22:00:00Z 2026-10-21T22:00:00Z"},
		{"a day left out by its date", calendar(weekly + "EXDATE;VALUE=DATE:20261024"), ""},
		{"a whole day left out", calendarWith("X-WR-TIMEZONE:Europe/Berlin\n", "DTSTART;VALUE=DATE:20261022\nRRULE:FREQ=DAILY;COUNT=2\nEXDATE;VALUE=DATE:20261023"), "2026-10-21T22:00:00Z 2026-10-22T22:00:00Z"},
		{"hours elapse over a clock change", calendar("DTSTART;TZID=Europe/Berlin:20261025T010000\nDURATION:PT3H"), "2026-10-24T23:00:00Z 2026-10-25T02:00:00Z"},
		{"days go by the wall clock", calendar("DTSTART;TZID=Europe/Berlin:20261024T120000\nDURATION:P1D"), "2026-10-24T10:00:00Z 2026-10-25T11:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, err := Read([]byte(strings.ReplaceAll(c.text, "\n", "\r\n")), Import{Name: "acme"})
			if err != nil {
				t.Fatal(err)
			}
			from := instant(t, "2026-10-20T00:00:00Z")
			var got []string
			for _, w := range parse(t, string(set.YAML)).Compile("acme", windows.Ahead(from, 10)).Occurrences(from, from.AddDate(0, 0, 7)) {
				got = append(got, fmt.Sprintf("%s %s", w.Open.UTC().Format(time.RFC3339), w.Close.UTC().Format(time.RFC3339)))
			}
			if strings.Join(got, "\n") != c.want {
				t.Errorf("got  %s\nwant %s\n%s", strings.Join(got, "\n"), c.want, set.YAML)
			}
		})
	}
}

// A rule that a window set cannot express, or that programs read differently, is refused with the
// reason.
func TestFaultW4CalendarRefuses(t *testing.T) {
	const berlin = "DTSTART;TZID=Europe/Berlin:20261024T220000\nDURATION:PT2H\n"
	for want, text := range map[string]string{
		"have SEQUENCE 0 and one DTSTAMP":               calendar("UID:a\n"+berlin, "UID:a\n"+berlin),
		`STATUS "CANCELED"`:                             calendar(berlin + "STATUS:CANCELED"),
		"METHOD:CANCEL":                                 calendarWith("METHOD:CANCEL\n", berlin),
		`SEQUENCE "x"`:                                  calendar(berlin + "SEQUENCE:x"),
		"names no time zone":                            calendar("DTSTART:20261024T220000\nDURATION:PT2H"),
		`"20261024" names no time zone`:                 calendar("DTSTART;VALUE=DATE:20261024"),
		`"Mars/Base"`:                                   calendarWith("X-WR-TIMEZONE:Mars/Base\n", "DTSTART:20261024T220000\nDURATION:PT2H"),
		"DTEND and DURATION exclude":                    calendar(berlin + "DTEND;TZID=Europe/Berlin:20261024T230000"),
		"days together with hours":                      calendar("DTSTART;TZID=Europe/Berlin:20261024T220000\nDURATION:P1DT2H"),
		"RDATE and DTSTART are not both":                calendar(berlin + "RDATE;VALUE=DATE:20261026\nX-WR-TIMEZONE:UTC"),
		"EXDATE and DTSTART are not both":               calendarWith("X-WR-TIMEZONE:Europe/Berlin\n", "DTSTART;VALUE=DATE:20261022\nRRULE:FREQ=DAILY\nEXDATE:20261023T000000Z"),
		"expected a date, or a date and time":           calendar(berlin + "RDATE;VALUE=PERIOD:20261125T090000Z/20261125T123000Z"),
		"more than one DTSTART":                         calendar(berlin + "DTSTART;TZID=Europe/Berlin:20261024T230000"),
		"not a day of its RRULE":                        calendar("DTSTART;TZID=Europe/Berlin:20261023T220000\nDURATION:PT2H\nRRULE:FREQ=WEEKLY;BYDAY=SA;COUNT=3"),
		"comes twice in Europe/Berlin":                  calendar(weekly, "DTSTART:20261025T013000Z\nDURATION:PT2H"),
		"RECURRENCE-ID with RANGE":                      calendar(weekly, "UID:a\n"+berlin+"RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20261024T220000"),
		"moved by less than its length":                 calendar(weekly, "UID:a\nDTSTART;TZID=Europe/Berlin:20261024T230000\nDURATION:PT2H\nRECURRENCE-ID;TZID=Europe/Berlin:20261024T220000"),
		"older than that of its series":                 calendar(weekly+"SEQUENCE:3", "UID:a\nDTSTART;TZID=Europe/Berlin:20261020T230000\nDURATION:PT2H\nRECURRENCE-ID;TZID=Europe/Berlin:20261024T220000"),
		"RRULE beside RECURRENCE-ID":                    calendar(weekly, "UID:a\n"+berlin+"RRULE:FREQ=DAILY\nRECURRENCE-ID;TZID=Europe/Berlin:20261024T220000"),
		"DTSTART of its series are not both dates or":   calendarWith("X-WR-TIMEZONE:Europe/Berlin\n", weekly, "UID:a\n"+berlin+"RECURRENCE-ID;VALUE=DATE:20261024"),
		"DTSTART and DTEND are not both dates or both":  calendarWith("X-WR-TIMEZONE:Europe/Berlin\n", "DTSTART;TZID=Europe/Berlin:20261024T220000\nDTEND;VALUE=DATE:20261025"),
		"is every month to some programs and one month": calendar("DTSTART;TZID=Europe/Berlin:20261031T220000\nDURATION:PT2H\nRRULE:FREQ=YEARLY;BYMONTHDAY=-1"),
	} {
		t.Run(want, func(t *testing.T) {
			set, err := Read([]byte(strings.ReplaceAll(text, "\n\n", "\n")), Import{Name: "acme"})
			if !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("got %v, want %q\n%+v", err, want, set)
			}
		})
	}
}

// A feed of windows that are not approved opens nothing when it is read back.
func TestFaultW4UnapprovedFeedOpensNothing(t *testing.T) {
	d := parse(t, `window_sets: {acme: {timezone: Europe/Berlin, allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "24:00"}], approval: {by: cab, state: proposed}}}`)
	from := instant(t, "2026-10-20T00:00:00Z")
	c := d.Compile("acme", windows.Ahead(from, 10))
	var b strings.Builder
	if err := Write(&b, Calendar{Feeds: []Feed{{Set: "acme", Zone: c.Zone, Windows: c.Occurrences(from, c.Horizon.To)}}, Stamp: from}); err != nil {
		t.Fatal(err)
	}
	set, err := Read([]byte(b.String()), Import{Name: "again"})
	if err != nil || len(set.Skipped) != 1 || strings.Contains(string(set.YAML), "2026") {
		t.Errorf("%+v, %v", set, err)
	}
}
