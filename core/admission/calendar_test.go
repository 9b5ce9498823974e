package admission

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/windows"
)

// calendarOf is the window sets of a test, in Berlin: sat opens Saturdays 22:00 to 05:00.
func calendarOf(t testing.TB, text string) *Calendar {
	t.Helper()
	b, err := NewCalendar([]windows.Document{{File: "w.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func utc(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

const saturdays = `
window_sets:
  sat:
    timezone: Europe/Berlin
    allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}]
    deny: [{use: freeze/xmas}]
    overrun: stop_at_checkpoint
  short:
    timezone: Europe/Berlin
    allow: [{id: noon, rrule: "FREQ=DAILY", from: "12:00", to: "12:30"}]
  carried:
    timezone: Europe/Berlin
    allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}]
    carry_over: {max: 2, deadline: 2026-12-10}
  once:
    timezone: Europe/Berlin
    allow: [{id: CHG0041, at: "2026-11-01T22:00", to: "2026-11-02T04:00"}]
  expired:
    timezone: Europe/Berlin
    allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}]
    approval: {id: CHG7, by: cab, until: 2026-11-20}
  broken:
    timezone: Europe/Berlin
    allow: []
freezes:
  xmas: {timezone: Europe/Berlin, from: "2026-12-20", to: "2027-01-07"}
`

func TestAsk(t *testing.T) {
	b := calendarOf(t, saturdays)
	for _, c := range []struct {
		why    string
		at     string
		q      Question
		open   bool
		next   string
		again  bool // Reapprove
		by     windows.Cause
		reason string
	}{
		{"open, and it fits", "2026-11-21T22:00:00Z", Question{Set: "sat", Need: time.Hour}, true, "", false, windows.ByRule, "open by sat, and 1h fit"},
		{"equality fits", "2026-11-22T03:00:00Z", Question{Set: "sat", Need: time.Hour}, true, "", false, windows.ByRule, ""},
		{"one second less does not", "2026-11-22T03:00:01Z", Question{Set: "sat", Need: time.Hour}, false, "2026-11-28T21:00:00Z", false, windows.ByNeed, "only 59m59s are left"},
		{"closed", "2026-11-23T12:00:00Z", Question{Set: "sat", Need: time.Hour}, false, "2026-11-28T21:00:00Z", false, windows.ByNone, "no rule opens"},
		{"frozen", "2026-12-26T22:00:00Z", Question{Set: "sat", Need: time.Hour}, false, "2027-01-09T21:00:00Z", false, windows.ByFreeze, "freeze xmas holds"},
		{"a freeze comes too soon", "2026-12-19T22:30:00Z", Question{Set: "sat", Need: time.Hour}, false, "2027-01-09T21:00:00Z", false, windows.ByFreeze, "only 30m are left before freeze xmas"},
		{"never fits", "2026-11-23T12:00:00Z", Question{Set: "short", Need: time.Hour}, false, "", true, windows.ByNone, "the longest window within 400 days lasts 30m, needed are 1h"},
		{"unknown set", "2026-11-23T12:00:00Z", Question{Set: "nobody", Need: time.Hour}, false, "", false, windows.ByUnknown, `no window set has the name "nobody"`},
		{"a host without a set", "2026-11-23T12:00:00Z", Question{Need: time.Hour}, false, "", false, windows.ByUnknown, "the host has no window set"},
		{"no rule at all", "2026-11-23T12:00:00Z", Question{Set: "broken", Need: time.Hour}, false, "", true, windows.ByNone, "does not open within 400 days"},
		{"the only window is over", "2026-11-23T12:00:00Z", Question{Set: "once", Need: time.Hour}, false, "", true, windows.ByNone, "does not open within 400 days"},
		{"the approval is over", "2026-11-23T12:00:00Z", Question{Set: "expired", Need: time.Hour}, false, "", true, windows.ByNone, "approval CHG7 expired"},
		{"one window missed of two", "2026-11-23T12:00:00Z", Question{Set: "carried", Need: time.Hour, Missed: 1}, false, "2026-11-28T21:00:00Z", false, windows.ByNone, ""},
		{"two windows missed", "2026-11-23T12:00:00Z", Question{Set: "carried", Need: time.Hour, Missed: 2}, false, "", true, windows.ByNone, "it missed 2 of the 2 windows"},
		{"missed, though it is open now", "2026-11-21T22:00:00Z", Question{Set: "carried", Need: time.Hour, Missed: 2}, false, "", true, windows.ByRule, "it missed 2"},
		{"the next is after the deadline", "2026-12-07T12:00:00Z", Question{Set: "carried", Need: time.Hour}, false, "", true, windows.ByNone, "after the carry-over deadline"},
		{"the deadline is over", "2026-12-12T22:00:00Z", Question{Set: "carried", Need: time.Hour}, false, "", true, windows.ByRule, "carry-over deadline of window set carried, Fri 2026-12-11 00:00 CET (2026-12-10T23:00:00Z), has passed"},
	} {
		a, err := b.Ask(utc(t, c.at), c.q)
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		next := ""
		if !a.Next.IsZero() {
			next = a.Next.UTC().Format(time.RFC3339)
		}
		if a.Open != c.open || next != c.next || a.Reapprove != c.again || a.By != c.by || !strings.Contains(a.Reason, c.reason) {
			t.Errorf("%s: open %v, next %q, reapprove %v, by %s: %s\nexpected open %v, next %q, reapprove %v, by %s: …%s…",
				c.why, a.Open, next, a.Reapprove, a.By, a.Reason, c.open, c.next, c.again, c.by, c.reason)
		}
		if a.Reapprove != strings.HasPrefix(a.Reason, string(core.NeedsReapproval)+": ") {
			t.Errorf("%s: reason %q", c.why, a.Reason)
		}
	}
}

func TestAnswerSaysWhenItClosesAndWhatThen(t *testing.T) {
	a, err := calendarOf(t, saturdays).Ask(utc(t, "2026-11-21T22:00:00Z"), Question{Set: "sat", Need: time.Hour})
	if err != nil || !a.Close.Equal(utc(t, "2026-11-22T04:00:00Z")) || a.Overrun != windows.StopAtCheckpoint || a.Zone.String() != "Europe/Berlin" {
		t.Errorf("%+v, %v", a, err)
	}
}

// An unknown run time must not count as 0, as ConfigMgr has it.
func TestTrapUnknownNeedIsAnError(t *testing.T) {
	for _, need := range []time.Duration{0, -time.Minute} {
		if a, err := calendarOf(t, saturdays).Ask(utc(t, "2026-11-21T22:00:00Z"), Question{Set: "sat", Need: need}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("need %v: %+v, %v", need, a, err)
		}
	}
}

// bound has an approval that is bound to a change and to targets, and a rule that needs none.
func bound(change, targets string) string {
	return fmt.Sprintf(`
window_sets:
  acme:
    timezone: UTC
    allow:
      - {id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00", approval: {id: CHG9, by: cab, change: %q, targets: %q}}
      - {id: yearly, rrule: "FREQ=YEARLY;BYMONTH=6;BYMONTHDAY=1", from: "00:00", to: "06:00"}
  inherits:
    timezone: UTC
    allow: [{id: any, rrule: "FREQ=DAILY", from: "00:00", to: "24:00"}]
    requires: [acme]
`, change, targets)
}

func TestApprovalHoldsForItsChangeAndTargetsOnly(t *testing.T) {
	change, err := ChangeHash([]byte("steps"), nil)
	if err != nil {
		t.Fatal(err)
	}
	targets := TargetsHash([]string{"a", "b"})
	other := TargetsHash([]string{"a", "b", "c"})
	b := calendarOf(t, bound(change, targets))
	at := utc(t, "2026-11-21T23:00:00Z") // a Saturday night
	for _, c := range []struct {
		why, set, change, targets string
		open                      bool
		reason                    string
	}{
		{"what was approved", "acme", change, targets, true, ""},
		{"what was approved, through another set", "inherits", change, targets, true, ""},
		{"another change", "acme", other, targets, false, "approval CHG9 was given for another change"},
		{"more hosts", "acme", change, other, false, "approval CHG9 was given for other targets"},
		{"more hosts, through another set", "inherits", change, other, false, "required window set acme is closed"},
		{"nobody says what is done", "acme", "", "", false, "another change"},
	} {
		a, err := b.Ask(at, Question{Set: c.set, Need: time.Hour, Change: c.change, Targets: c.targets})
		if err != nil || a.Open != c.open || !strings.Contains(a.Reason, c.reason) {
			t.Errorf("%s: %+v, %v", c.why, a, err)
		}
		if !c.open && !a.Next.Equal(utc(t, "2027-06-01T00:00:00Z")) {
			t.Errorf("%s: next %v, expected the rule that needs no approval", c.why, a.Next)
		}
	}
}

// The guard that checks the binding of an approval is needed: without it the window opens.
func TestNoticesAnApprovalForOtherWork(t *testing.T) {
	b, at := calendarOf(t, bound(hash([]byte("x")), hash([]byte("y")))), utc(t, "2026-11-21T23:00:00Z")
	if start, err := b.defs.Compile("acme", windows.Ahead(at, Ahead)).Next(at, time.Hour); err != nil || !start.Equal(at) {
		t.Errorf("the window is closed for another reason, %v: this test shows nothing", err)
	}
	if a, _ := b.Ask(at, Question{Set: "acme", Need: time.Hour, Change: hash([]byte("z")), Targets: hash([]byte("y"))}); a.Open {
		t.Error("an approval for another change opened the window")
	}
}

func TestCalendarLooksAheadAgain(t *testing.T) {
	b := calendarOf(t, `
window_sets:
  rare: {timezone: UTC, allow: [{id: rare, at: "2028-06-01T00:00", to: "2028-06-01T06:00"}]}
  weekly: {timezone: UTC, allow: [{id: w, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "00:00", to: "06:00"}]}
`)
	start := utc(t, "2026-11-20T00:00:00Z")
	for day := range 700 {
		now := start.AddDate(0, 0, day)
		a, err := b.Ask(now, Question{Set: "weekly", Need: time.Hour})
		if err != nil || !a.Open && a.Next.Sub(now) > 7*24*time.Hour {
			t.Fatalf("day %d: %+v, %v", day, a, err)
		}
		c := b.Compiled(now, "weekly", windows.Work{})
		if c.Horizon.To.Sub(now) < leastAhead {
			t.Fatalf("day %d: the horizon ends %v", day, c.Horizon.To)
		}
	}
	// A horizon that was worked out before does not hide what has come into reach.
	if a, _ := b.Ask(utc(t, "2027-04-01T00:00:00Z"), Question{Set: "rare", Need: time.Hour}); !a.Next.IsZero() {
		t.Errorf("%+v: more than 400 days ahead", a)
	}
	if a, _ := b.Ask(utc(t, "2027-06-01T00:00:00Z"), Question{Set: "rare", Need: time.Hour}); a.Next.IsZero() || a.Reapprove {
		t.Errorf("%+v, expected the window of 2028", a)
	}
	if a, _ := b.Ask(start, Question{Set: "weekly", Need: time.Hour}); !a.Next.Equal(utc(t, "2026-11-21T00:00:00Z")) {
		t.Errorf("a clock that was set back: %+v", a)
	}
}

func TestOneCalendarForMany(t *testing.T) {
	b := calendarOf(t, saturdays)
	b.Warm(utc(t, "2026-11-21T22:00:00Z"), "sat", "short", "nobody")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				a, err := b.Ask(utc(t, "2026-11-21T22:00:00Z"), Question{Set: []string{"sat", "short", "carried", "nobody"}[i%4], Need: 10 * time.Minute, Change: fmt.Sprint(i)})
				if err != nil || a.Open != (i%2 == 0) {
					t.Errorf("%d: %+v, %v", i, a, err)
				}
			}
		})
	}
	wg.Wait()
	if len(b.kept) != 3 { // names that nobody defines are not kept
		t.Errorf("%d sets are kept, expected one for all changes of each set", len(b.kept))
	}
}

func BenchmarkAsk(b *testing.B) {
	cal, now := calendarOf(b, saturdays), utc(b, "2026-11-23T12:00:00Z")
	for b.Loop() {
		if _, err := cal.Ask(now, Question{Set: "sat", Need: time.Hour}); err != nil {
			b.Fatal(err)
		}
	}
}
