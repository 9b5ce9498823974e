package windows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func load(t testing.TB, text string) *Definitions {
	t.Helper()
	d, err := Parse(Document{"windows.yaml", []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// one makes a set named s out of its body, in Berlin unless it sets another zone.
func one(t testing.TB, body string) *Definitions {
	t.Helper()
	set, rest, found := strings.Cut(body, "\nfreezes:")
	if !found {
		rest = " {}"
	}
	if !strings.Contains(set, "timezone:") {
		set = "timezone: Europe/Berlin\n" + set
	}
	return load(t, "window_sets:\n  s:\n    "+strings.ReplaceAll(set, "\n", "\n    ")+"\nfreezes:"+rest)
}

func instantOf(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// show lists windows as "10-24 22:00+02 to 10-25 05:00+01", with their notes.
func show(c *Compiled, list []Window) string {
	var b strings.Builder
	for _, w := range list {
		fmt.Fprintf(&b, "%s to %s", w.Open.In(c.Zone).Format("01-02 15:04-07"), w.Close.In(c.Zone).Format("01-02 15:04-07"))
		for _, note := range w.Notes {
			b.WriteString("; " + note)
		}
		if w.Unapproved != "" {
			b.WriteString("; " + w.Unapproved)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSpace(b.String())
}

func occurrences(t testing.TB, d *Definitions, set, from, to string) string {
	t.Helper()
	lo, hi := instantOf(t, from+"T00:00:00Z"), instantOf(t, to+"T00:00:00Z")
	c := d.Compile(set, Horizon{lo, hi})
	if c.Reason() != "" {
		return "closed: " + c.Reason()
	}
	return show(c, c.Occurrences(lo, hi))
}

const saturday = `allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}]`

// On 25 October 2026 the clock of Berlin shows 02:00 to 03:00 twice. A deny that ends, begins or
// lies there closes both.
func TestFaultW4DenyClosesBothCopiesOfAnHour(t *testing.T) {
	const all = "allow: [{rrule: \"FREQ=DAILY\", from: \"00:00\", to: \"06:00\"}]\n"
	for name, c := range map[string]struct{ body, want string }{
		"it ends there":        {`deny: [{id: d, rrule: "FREQ=DAILY", from: "00:00", to: "02:30"}]`, "10-25 02:30+01 to 10-25 06:00+01; lengthened by 1h by a clock change; clipped by d"},
		"it lasts for a time":  {`deny: [{id: d, at: 2026-10-25T02:10, duration: 20m}]`, "10-25 00:00+02 to 10-25 02:10+02; lengthened by 1h by a clock change; clipped by d\n10-25 02:30+01 to 10-25 06:00+01; lengthened by 1h by a clock change; clipped by d"},
		"cron":                 {`deny: [{id: d, cron: "0 2 * * *", duration: 30m}]`, "10-25 00:00+02 to 10-25 02:00+02; lengthened by 1h by a clock change; clipped by d\n10-25 02:30+01 to 10-25 06:00+01; lengthened by 1h by a clock change; clipped by d"},
		"a freeze":             {"deny: [{use: freeze/f}]\nfreezes: {f: {timezone: Europe/Berlin, from: 2026-10-20, to: 2026-10-25T02:30}}", "10-25 02:30+01 to 10-25 06:00+01; lengthened by 1h by a clock change; clipped by freeze/f"},
		"it ends as it begins": {`deny: [{id: d, rrule: "FREQ=DAILY", from: "00:00", to: "02:00"}]`, "10-25 02:00+02 to 10-25 06:00+01; lengthened by 1h by a clock change; clipped by d"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for line := range strings.Lines(occurrences(t, one(t, all+c.body), "s", "2026-10-24", "2026-10-26")) {
				if strings.HasPrefix(line, "10-25") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			if got := strings.Join(got, "\n"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestOccurrences(t *testing.T) {
	for _, c := range []struct{ name, body, from, to, want string }{
		{
			"28 March 2026 lasts 6 h", saturday, "2026-03-28", "2026-03-30",
			"03-28 22:00+01 to 03-29 05:00+02; shortened by 1h by a clock change",
		},
		{
			"24 October 2026 lasts 8 h", saturday, "2026-10-24", "2026-10-26",
			"10-24 22:00+02 to 10-25 05:00+01; lengthened by 1h by a clock change",
		},
		{"otherwise 7 h", saturday, "2026-05-02", "2026-05-04", "05-02 22:00+02 to 05-03 05:00+02"},
		{
			"a freeze from 20 December clips to 2 h", saturday + "\ndeny: [{use: freeze/xmas}]\nfreezes: {xmas: {timezone: Europe/Berlin, from: 2026-12-20, to: 2027-01-07}}",
			"2026-12-18", "2027-01-11", "12-19 22:00+01 to 12-20 00:00+01; clipped by freeze/xmas\n01-09 22:00+01 to 01-10 05:00+01",
		},
		{
			"a duration is elapsed time", `allow: [{rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", duration: 7h}]`, "2026-03-28", "2026-03-30",
			"03-28 22:00+01 to 03-29 06:00+02",
		},
		{
			"a start in a gap moves to its end", `allow: [{rrule: "FREQ=DAILY", from: "02:15", to: "04:00"}]`, "2026-03-29", "2026-03-30",
			"03-29 03:00+02 to 03-29 04:00+02; shortened by 45m by a clock change; opens late: 02:15 does not exist on that day",
		},
		{
			"an end in a fold is the first one: it closes early", `allow: [{rrule: "FREQ=DAILY", from: "01:00", to: "02:30"}]`, "2026-10-25", "2026-10-26",
			"10-25 01:00+02 to 10-25 02:30+02",
		},
		{
			"second Tuesday and two days", `allow: [{rrule: "FREQ=MONTHLY;BYDAY=2TU", offset: 2d, from: "01:00", to: "05:00"}]`, "2026-09-01", "2026-11-01",
			"09-10 01:00+02 to 09-10 05:00+02\n10-15 01:00+02 to 10-15 05:00+02",
		},
		{"cron and duration", `allow: [{cron: "0 22 * * SUN", duration: 4h}]`, "2026-10-25", "2026-10-27", "10-25 22:00+01 to 10-26 02:00+01"},
		{
			"overlapping and touching allows merge",
			`allow: [{cron: "0 1 * * *", duration: 1h}, {cron: "0 2 * * *", duration: 1h}, {cron: "30 2 * * *", to: "04:00"}]`, "2026-05-02", "2026-05-03",
			"05-02 01:00+02 to 05-02 04:00+02\n05-03 01:00+02 to 05-03 04:00+02",
		},
		{
			"valid counts the local date of the start", `allow: [{rrule: "FREQ=DAILY", from: "23:00", to: "+1d 01:00", valid: [2026-05-02, 2026-05-03]}]`, "2026-05-01", "2026-05-06",
			"05-02 23:00+02 to 05-03 01:00+02\n05-03 23:00+02 to 05-04 01:00+02",
		},
		{
			"every other week counts from valid", `allow: [{rrule: "FREQ=WEEKLY;INTERVAL=2;BYDAY=SA", from: "22:00", to: "24:00", valid: [2026-01-03, 2026-12-31]}]`, "2026-06-01", "2026-06-30",
			"06-06 22:00+02 to 06-07 00:00+02\n06-20 22:00+02 to 06-21 00:00+02",
		},
		{
			"a holiday is clipped out", "allow: [{rrule: \"FREQ=DAILY\", from: \"22:00\", to: \"+1d 02:00\"}]\ndeny: [{use: holidays/DE-HE}]", "2026-10-02", "2026-10-04",
			"10-02 22:00+02 to 10-03 00:00+02; clipped by holidays/DE-HE\n10-04 00:00+02 to 10-04 02:00+02; clipped by holidays/DE-HE",
		},
		{
			"a holiday cancels what touches it", "allow: [{rrule: \"FREQ=DAILY\", from: \"22:00\", to: \"+1d 02:00\"}]\ndeny: [{use: holidays/DE-HE, effect: cancel}]", "2026-10-02", "2026-10-05",
			"10-04 22:00+02 to 10-05 02:00+02",
		},
		{
			"a deny may be a rule", "allow: [{rrule: \"FREQ=DAILY\", from: \"00:00\", to: \"24:00\"}]\ndeny: [{id: month-end, rrule: \"FREQ=MONTHLY;BYMONTHDAY=-1\", from: \"00:00\", to: \"24:00\"}]",
			"2026-04-29", "2026-05-02", "04-01 00:00+02 to 04-30 00:00+02\n05-01 00:00+02 to 05-31 00:00+02",
		},
		{
			"a single window beats no freeze", "allow: [{at: 2026-12-24T10:00, to: 2026-12-24T12:00}]\ndeny: [{use: freeze/xmas}]\nfreezes: {xmas: {timezone: Europe/Berlin, from: 2026-12-20, to: 2027-01-07}}",
			"2026-12-01", "2027-01-01", "",
		},
		{
			"the owner lifts a freeze by a later approval",
			"allow: [{at: 2026-12-24T10:00, to: 2026-12-24T12:00, approval: {by: cab, at: 2026-12-02, freezes: [xmas]}}]\ndeny: [{use: freeze/xmas}]\nfreezes: {xmas: {timezone: Europe/Berlin, from: 2026-12-20, to: 2027-01-07, owner: cab, made: 2026-12-01}}",
			"2026-12-03", "2027-01-01", "12-24 10:00+01 to 12-24 12:00+01",
		},
		{
			"not by an approval of the freeze's own day",
			"allow: [{at: 2026-12-24T10:00, to: 2026-12-24T12:00, approval: {by: cab, at: 2026-12-01T12:00, freezes: [xmas]}}]\ndeny: [{use: freeze/xmas}]\nfreezes: {xmas: {timezone: Europe/Berlin, from: 2026-12-20, to: 2027-01-07, owner: cab, made: 2026-12-01}}",
			"2026-12-03", "2027-01-01", "",
		},
		{
			"nor by somebody else",
			"allow: [{at: 2026-12-24T10:00, to: 2026-12-24T12:00, approval: {by: me, at: 2026-12-02, freezes: [xmas]}}]\ndeny: [{use: freeze/xmas}]\nfreezes: {xmas: {timezone: Europe/Berlin, from: 2026-12-20, to: 2027-01-07, owner: cab, made: 2026-12-01}}",
			"2026-12-03", "2027-01-01", "",
		},
		{
			"the approval's last day counts whole", saturday + "\napproval: {id: CHG1, by: cab, until: 2026-05-02}", "2026-05-02", "2026-05-04",
			"05-02 22:00+02 to 05-03 00:00+02; clipped to its approval\n05-03 00:00+02 to 05-03 05:00+02; unapproved: approval CHG1 expired 2026-05-03 00:00",
		},
		{
			"a deny cancels the whole occurrence, also what an approval cuts", saturday + "\napproval: {id: CHG1, by: cab, until: 2026-05-02}\ndeny: [{at: 2026-05-03T00:00, to: 2026-05-04T00:00, effect: cancel}]",
			"2026-05-02", "2026-05-04", "",
		},
		{
			"an approval covers a number of occurrences", saturday + "\napproval: {by: cab, at: 2026-05-01, max_occurrences: 2}", "2026-05-09", "2026-05-18",
			"05-09 22:00+02 to 05-10 05:00+02\n05-16 22:00+02 to 05-17 05:00+02; unapproved: the approval by cab covers 2 occurrences",
		},
		{
			"revoking closes from then on", saturday + "\napproval: {by: cab, revoked: 2026-05-10T00:00}", "2026-05-09", "2026-05-11",
			"05-09 22:00+02 to 05-10 00:00+02; clipped to its approval\n05-10 00:00+02 to 05-10 05:00+02; unapproved: the approval by cab was revoked 2026-05-10 00:00",
		},
		{
			"proposed is not approved", saturday + "\napproval: {by: cab, state: proposed}", "2026-05-09", "2026-05-11",
			"05-09 22:00+02 to 05-10 05:00+02; unapproved: the approval by cab is only proposed",
		},
		{
			"an edit voids the approval", saturday + "\napproval: {by: cab, window: sha256:" + strings.Repeat("0", 64) + "}", "2026-05-09", "2026-05-11",
			"05-09 22:00+02 to 05-10 05:00+02; unapproved: the window was edited after the approval by cab",
		},
		{
			"a single window that zone data has moved is held", "allow: [{at: 2026-05-02T22:00, to: 2026-05-03T02:00, utc: \"2026-05-02T21:00:00Z\"}]", "2026-05-02", "2026-05-04",
			"05-02 22:00+02 to 05-03 02:00+02; zone data has moved it from the approved 2026-05-02T21:00:00Z; confirm it",
		},
		{"no allow is closed", "cutoff: 30m", "2026-05-02", "2026-05-04", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := occurrences(t, one(t, c.body), "s", c.from, c.to); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

const levels = `
window_sets:
  global: {scope: {}, timezone: UTC, allow: [{id: g, rrule: FREQ=DAILY, from: "00:00", to: "12:00"}], deny: [{id: noon, rrule: FREQ=DAILY, from: "03:00", to: "04:00"}], cutoff: 20m}
  acme: {scope: {customer: acme}, timezone: UTC, inherit: MODE, allow: [{id: a, rrule: FREQ=DAILY, from: "02:00", to: "14:00"}], requires: [hours]}
  fra: {scope: {customer: acme, site: fra}, timezone: UTC}
  hours: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: "01:00", to: "13:00"}]}
`

func TestInherit(t *testing.T) {
	for mode, want := range map[string]string{
		"intersect": "05-02 02:00+00 to 05-02 03:00+00 05-02 04:00+00 to 05-02 12:00+00",
		"replace":   "05-02 02:00+00 to 05-02 03:00+00 05-02 04:00+00 to 05-02 13:00+00",
		"extend":    "05-02 01:00+00 to 05-02 03:00+00 05-02 04:00+00 to 05-02 13:00+00",
	} {
		t.Run(mode, func(t *testing.T) {
			d := load(t, strings.Replace(levels, "MODE", mode, 1))
			for _, set := range []string{"acme", "fra"} { // fra has no allow: it takes acme's
				c := d.Compile(set, Ahead(instantOf(t, "2026-05-02T00:00:00Z"), 1))
				list := c.Occurrences(c.Horizon.From, c.Horizon.To)
				for i := range list {
					list[i].Notes = nil
				}
				if got := strings.ReplaceAll(show(c, list), "\n", " "); got != want {
					t.Errorf("%s: got %s\nwant %s", set, got, want)
				}
				if c.Cutoff != 20*time.Minute {
					t.Errorf("%s: cutoff %s", set, c.Cutoff)
				}
			}
		})
	}
}

// An approval of a set that has no rule of its own is for what it inherits: revoked, or used up, it
// closes.
func TestApprovalOfWhatASetInherits(t *testing.T) {
	for _, c := range []struct{ why, approval, want string }{
		{"approved", "at: 2026-05-01", "05-01 22:00+00 to 05-02 02:00+00 05-02 22:00+00 to 05-03 02:00+00 05-03 22:00+00 to 05-04 02:00+00"},
		{"proposed", "state: proposed", ""},
		{"revoked", `revoked: "2026-05-02T12:00"`, "05-01 22:00+00 to 05-02 02:00+00"},
		{"used up", `at: "2026-05-01T12:00", max_occurrences: 2`, "05-01 22:00+00 to 05-02 02:00+00 05-02 22:00+00 to 05-03 02:00+00"},
		{"used up before", "at: 2026-04-20, max_occurrences: 2", ""},
	} {
		d := load(t, `
window_sets:
  wide: {scope: {}, timezone: UTC, allow: [{id: n, rrule: FREQ=DAILY, from: "22:00", to: "+1d 02:00"}]}
  acme: {scope: {customer: acme}, timezone: UTC, approval: {id: C1, by: cab, `+c.approval+`}}
`)
		s := d.Compile("acme", Ahead(instantOf(t, "2026-05-01T12:00:00Z"), 3))
		var open []Window
		for _, w := range s.Occurrences(s.Horizon.From, s.Horizon.To) {
			if w.Notes = nil; w.Unapproved == "" {
				open = append(open, w)
			}
		}
		if got := strings.ReplaceAll(show(s, open), "\n", " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.why, got, c.want)
		}
	}
}

// An approval of a window is void when the rules change by which it opens, wherever they are.
func TestApprovalIsBoundToInheritedRules(t *testing.T) {
	const text = `
window_sets:
  wide: {scope: {}, timezone: UTC, allow: [{id: n, rrule: FREQ=DAILY, from: "22:00", to: "+1d %s:00"}]}
  acme: {scope: {customer: acme}, timezone: UTC%s}
`
	hash := func(to, more string) string {
		d := load(t, fmt.Sprintf(text, to, more))
		return d.HashOf(d.Sets["acme"])
	}
	const own = `, allow: [{id: o, rrule: FREQ=DAILY, from: "22:00", to: "23:00"}]`
	for _, c := range []struct {
		why, more string
		differ    bool
	}{
		{"without rules of its own", "", true},
		{"with more than the wider set's", ", inherit: extend" + own, true},
		{"with less than the wider set's", own, false},
		{"instead of the wider set's", ", inherit: replace" + own, false},
	} {
		if (hash("02", c.more) != hash("03", c.more)) != c.differ {
			t.Errorf("%s: an edit of the wider set changes the hash: %v", c.why, !c.differ)
		}
	}
	d := load(t, fmt.Sprintf(text, "03", `, approval: {id: C1, by: cab, window: "`+hash("02", "")+`"}`))
	if c := d.Compile("acme", Ahead(instantOf(t, "2026-05-01T12:00:00Z"), 3)); c.longest != 0 {
		t.Error("open by rules that nobody approved")
	}
}

// Freezes are lifted in thought, and approvals that are bound to the window still hold.
func TestWithoutFreezesKeepsWhatIsBound(t *testing.T) {
	const body = `timezone: UTC
allow: [{id: n, rrule: FREQ=DAILY, from: "22:00", to: "23:00"}]
deny: [{use: freeze/f}]
`
	const frozen = "freezes:\n  f: {timezone: UTC, from: 2026-01-01, to: 2027-01-01}\n"
	text := func(more string) string {
		return frozen + "window_sets:\n  s:\n    " + strings.ReplaceAll(strings.TrimSpace(body+more), "\n", "\n    ") + "\n"
	}
	d := load(t, text(""))
	d = load(t, text(`approval: {by: cab, window: "`+d.HashOf(d.Sets["s"])+`"}`))
	h := Ahead(instantOf(t, "2026-05-01T12:00:00Z"), 3)
	if c := d.Compile("s", h); c.longest != 0 {
		t.Fatal("the freeze does not hold: this test shows nothing")
	}
	if c := d.WithoutFreezes().Compile("s", h); c.longest != time.Hour {
		t.Errorf("the longest window lasts %s", c.longest)
	}
}

func TestFit(t *testing.T) {
	c := one(t, saturday+"\ncutoff: 30m").Compile("s", Ahead(instantOf(t, "2026-05-01T00:00:00Z"), 400))
	open, end := instantOf(t, "2026-05-02T20:00:00Z"), instantOf(t, "2026-05-03T03:00:00Z")
	next := instantOf(t, "2026-05-09T20:00:00Z")
	for _, x := range []struct {
		name string
		t    time.Time
		need time.Duration
		want time.Time
	}{
		{"before it opens", open.Add(-time.Hour), time.Hour, open},
		{"at opening", open, time.Hour, open},
		{"the need is just what remains", end.Add(-time.Hour), time.Hour, end.Add(-time.Hour)},
		{"one second later it does not start", end.Add(-time.Hour + time.Second), time.Hour, next},
		{"one nanosecond later neither", end.Add(-time.Hour + 1), time.Hour, next},
		{"the whole window", open, 7 * time.Hour, open},
		{"a second more than the window waits for the longer one", open, 7*time.Hour + time.Second, instantOf(t, "2026-10-24T20:00:00Z")},
		{"the cutoff is kept", end.Add(-30 * time.Minute), time.Minute, end.Add(-30 * time.Minute)},
		{"to the second", end.Add(-30*time.Minute + time.Second), time.Minute, next},
		{"at close it is closed", end, time.Minute, next},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, err := c.Next(x.t, x.need)
			if err != nil || !got.Equal(x.want) {
				t.Errorf("got %s, %v; want %s", got, err, x.want)
			}
		})
	}
	for _, need := range []time.Duration{0, -time.Second} {
		if _, err := c.Next(open, need); !errors.Is(err, ErrNeed) || !errors.Is(err, ErrInvalid) {
			t.Errorf("need %s: %v", need, err)
		}
	}
	for name, at := range map[string]time.Time{"before the horizon": open.AddDate(-1, 0, 0), "after it": open.AddDate(3, 0, 0), "year 1": {}} {
		if _, err := c.Next(at, time.Hour); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Next(open, 9*time.Hour); !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "the longest window within 400 days lasts 8h, needed are 9h") {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsUnknownIsClosed(t *testing.T) {
	h := Ahead(instantOf(t, "2026-05-01T00:00:00Z"), 400)
	rule := []Rule{{ID: "r", RRule: "FREQ=DAILY", To: &Clock{Time: time.Hour}}}
	for name, c := range map[string]struct {
		set  Set
		want string
	}{
		"zone":     {Set{Timezone: "Mars/Olympus", Allow: rule}, "Mars/Olympus"},
		"freeze":   {Set{Timezone: "UTC", Allow: rule, Deny: []Deny{{Use: "freeze/gone"}}}, "gone"},
		"calendar": {Set{Timezone: "UTC", Allow: rule, Deny: []Deny{{Use: "holidays/XX"}}}, "holidays/XX"},
		"requires": {Set{Timezone: "UTC", Allow: rule, Requires: []string{"nobody"}}, "nobody"},
		"itself":   {Set{Timezone: "UTC", Allow: rule, Requires: []string{"s"}}, "requires itself"},
		"rule":     {Set{Timezone: "UTC", Allow: []Rule{{ID: "r", RRule: "FREQ=HOURLY"}}}, "FREQ"},
	} {
		t.Run(name, func(t *testing.T) {
			set := c.set
			set.Name = "s"
			d := &Definitions{Sets: map[string]*Set{"s": &set}}
			got := d.Compile("s", h)
			_, err := got.Next(h.From, time.Minute)
			e, _ := got.Explain(h.From, time.Minute)
			if !strings.Contains(got.Reason(), c.want) || !errors.Is(err, ErrClosed) || e.Cause != ByUnknown || e.Open {
				t.Errorf("reason %q, err %v, explained %+v", got.Reason(), err, e)
			}
		})
	}
	// The negative control: with everything known the same rule opens.
	d := &Definitions{Sets: map[string]*Set{"s": {Name: "s", Timezone: "UTC", Allow: rule}}}
	if _, err := d.Compile("s", h).Next(h.From, time.Minute); err != nil {
		t.Error(err)
	}
	if _, err := (&Definitions{}).Compile("s", h).Next(h.From, time.Minute); !errors.Is(err, ErrClosed) {
		t.Error("a set that nobody defines is open")
	}
}

func TestExplain(t *testing.T) {
	d := one(t, `allow:
  - {id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}
  - {id: CHG1, at: 2026-05-05T10:00, to: 2026-05-05T12:00, approval: {id: A1, by: cab, state: proposed}}
  - {id: CHG2, at: 2026-05-06T10:00, to: 2026-05-06T12:00}
deny: [{use: freeze/xmas}, {use: holidays/DE-HE}]
cutoff: 30m
freezes: {xmas: {timezone: Europe/Berlin, from: 2026-12-20, to: 2027-01-07}}`)
	for at, want := range map[string]string{
		"2026-05-09T20:00:00Z": "true true rule sat",
		"2026-05-10T02:40:00Z": "true false need sat",
		"2026-05-10T02:35:00Z": "true false cutoff sat",
		"2026-05-07T02:00:00Z": "false false none ",
		"2026-05-05T09:00:00Z": "false false approval CHG1",
		"2026-10-03T21:00:00Z": "false false holidays DE-HE",
		"2026-12-24T10:00:00Z": "false false freeze xmas",
		"2026-12-19T22:45:00Z": "true false freeze xmas",
		"2026-12-26T22:00:00Z": "false false freeze xmas",
	} {
		need := time.Hour
		if want == "true false cutoff sat" {
			need = 10 * time.Minute
		}
		c := d.Compile("s", Ahead(instantOf(t, at), 400))
		e, err := c.Explain(instantOf(t, at), need)
		got := fmt.Sprintf("%t %t %s %s", e.Open, e.Fits, e.Cause, e.By)
		if err != nil || got != want || e.Reason == "" {
			t.Errorf("%s: got %s, want %s (%s, %v)", at, got, want, e.Reason, err)
		}
		if e.Next.IsZero() || e.Fits != e.Next.Equal(instantOf(t, at)) {
			t.Errorf("%s: next %s", at, e.Next)
		}
	}
}

func TestApprovalCovers(t *testing.T) {
	a := &Approval{ID: "CHG1", Change: "sha256:1", Targets: "sha256:2"}
	if err := a.Covers("sha256:1", "sha256:2"); err != nil {
		t.Error(err)
	}
	if a.Covers("sha256:3", "sha256:2") == nil || a.Covers("sha256:1", "sha256:3") == nil {
		t.Error("another change or other targets are covered")
	}
	if (*Approval)(nil).Covers("x", "y") != nil || (&Approval{}).Covers("x", "y") != nil {
		t.Error("an approval that is bound to nothing is void")
	}
}

func TestHashChangesWithEveryEditButApprovals(t *testing.T) {
	base := one(t, saturday).Sets["s"].Hash()
	for body, same := range map[string]bool{
		saturday + "\napproval: {by: cab}":             true,
		saturday + "\ncarry_over: {max: 3}":            true,
		strings.Replace(saturday, "05:00", "05:01", 1): false,
		saturday + "\ncutoff: 30m":                     false,
		saturday + "\ntimezone: Europe/Zurich":         false,
		saturday + "\ndeny: [{use: holidays/DE}]":      false,
		strings.Replace(saturday, `"}]`, `", approval: {by: cab, window: sha256:`+base[7:]+"}}]", 1):    true,
		strings.Replace(saturday, `"FREQ=WEEKLY;BYDAY=SA"`, `"FREQ=WEEKLY;BYDAY=SA;UNTIL=20300101"`, 1): false,
	} {
		if got := one(t, body).Sets["s"].Hash(); (got == base) != same {
			t.Errorf("%s: the same hash is %t", body, got == base)
		}
	}
}

func TestLintKnowsSetsThatOthersInheritFrom(t *testing.T) {
	d := load(t, `
window_sets:
  base: {scope: {}, timezone: UTC, deny: [{use: holidays/DE}]}
  acme: {scope: {customer: acme}, timezone: UTC, allow: [{cron: "0 12 * * *", duration: 2h}]}
  forgotten: {scope: {customer: other}, timezone: UTC}`)
	for set, want := range map[string]Severity{"base": Info, "acme": Info, "forgotten": Error} {
		got := d.Lint(d.Compile(set, Ahead(instantOf(t, "2026-05-01T00:00:00Z"), 400)), 0)
		if len(got) == 0 || got[0].Severity != want {
			t.Errorf("%s: %v", set, got)
		}
	}
}

func TestLint(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"a freeze that eats every occurrence", saturday + "\ndeny: [{use: freeze/long}]\nfreezes: {long: {timezone: UTC, from: 2026-01-01, to: 2028-01-01}}", "error: it does not open within 400 days; its occurrences: 57 taken by freeze/long"},
		{"an allow that never fits", `allow: [{id: short, cron: "0 3 * * *", duration: 30m}, {id: long, cron: "0 5 * * *", duration: 3h}]`, "warning: short: it never leaves the 1h that are needed"},
		{"nothing fits", `allow: [{id: short, cron: "0 3 * * *", duration: 30m}]`, "error: no window of the next 400 days fits: the longest lasts 30m, needed are 1h"},
		{"opportunities", saturday, "info: 9 windows fit within the next 60 days; the longest lasts 7h"},
		{"both day fields", `allow: [{id: c, cron: "0 12 13 * FRI", duration: 3h}]`, "when either does"},
		{"approval without at", saturday + "\napproval: {by: cab, max_occurrences: 2}", "say since when it holds"},
		{"a freeze that is not lifted", saturday + "\napproval: {by: cab, freezes: [f]}\nfreezes: {f: {timezone: UTC, from: 2026-01-01, to: 2026-01-02}}", "does not lift freeze f: the freeze has no owner"},
		{"not approved yet", saturday + "\napproval: {by: cab, state: proposed}", "warning: it does not open within 400 days; its occurrences: 57 unapproved: the approval by cab is only proposed"},
		{"dropped", `allow: [{id: gap, rrule: FREQ=DAILY, from: "02:15", to: "02:45"}]`, "2027-03-28: gap of 02:15 comes to nothing: empty: a clock change leaves nothing of it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := one(t, c.body)
			var got []string
			for _, f := range d.Lint(d.Compile("s", Ahead(instantOf(t, "2026-05-01T00:00:00Z"), 400)), time.Hour) {
				got = append(got, string(f.Severity)+": "+f.Message)
			}
			if !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("got %s", strings.Join(got, "\n"))
			}
		})
	}
}
