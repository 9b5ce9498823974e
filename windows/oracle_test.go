package windows

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/windows/civil"
)

// oddZones are those whose clocks do what one does not expect.
func oddZones() []string {
	return []string{
		"Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "Asia/Beirut", "Europe/Dublin", "Pacific/Apia", "Asia/Kathmandu",
		"America/St_Johns", "Europe/Berlin", "America/New_York", "Antarctica/Troll", "Africa/Casablanca",
	}
}

// clock is a zone's clock, read once a minute over a span: the oracle knows nothing else of zones.
type clock struct {
	start time.Time
	high  []int64 // the latest wall time shown so far, in minutes
	shown []int64 // the wall time
}

func readClock(zone *time.Location, from, to time.Time) *clock {
	c := &clock{start: from}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		_, off := at.In(zone).Zone()
		wall := (at.Unix() + int64(off)) / 60
		c.shown = append(c.shown, wall)
		if n := len(c.high); n > 0 {
			wall = max(wall, c.high[n-1])
		}
		c.high = append(c.high, wall)
	}
	return c
}

// first is the first minute of the span at which the clock has reached a wall time.
func (c *clock) first(wall time.Time) int {
	return sort.Search(len(c.high), func(i int) bool { return c.high[i] >= wall.Unix()/60 })
}

// last is the minute after the last one of the span that is before a wall time, or, with upTo, that
// shows it.
func (c *clock) last(wall time.Time, upTo bool) int {
	out := c.first(wall)
	for i := out; i < min(out+26*60, len(c.shown)); i++ {
		if c.shown[i] < wall.Unix()/60 || upTo && c.shown[i] == wall.Unix()/60 {
			out = i + 1
		}
	}
	return out
}

// testRule is a rule that an oracle understands without a library: which days, and from when to
// when.
type testRule struct {
	text   string
	on     func(day time.Time) bool
	offset int
	from   time.Duration
	days   int
	to     time.Duration
	length time.Duration // instead of to
}

func (r testRule) yaml(id string) string {
	end := fmt.Sprintf(`to: "+%dd %s"`, r.days, hhmm(r.to))
	if r.length > 0 {
		end = "duration: " + FormatDuration(r.length)
	}
	return fmt.Sprintf(`{id: %s, rrule: "%s", offset: %dd, from: "%s", %s, valid: [1990-01-01, 2199-12-31]}`, id, r.text, r.offset, hhmm(r.from), end)
}

func hhmm(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", d/time.Hour, d%time.Hour/time.Minute)
}

// spans are the rule's occurrences as indexes of minutes. A deny closes both copies of a repeated
// hour.
func (r testRule) spans(c *clock, deny bool) [][2]int {
	var out [][2]int
	firstDay := time.Unix(c.high[0]*60, 0).UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	last := time.Unix(c.high[len(c.high)-1]*60, 0).UTC().AddDate(0, 0, -5)
	for d := firstDay; d.Before(last); d = d.AddDate(0, 0, 1) {
		if !r.on(d.AddDate(0, 0, -r.offset)) {
			continue
		}
		open, end := c.first(d.Add(r.from)), c.first(d.AddDate(0, 0, r.days).Add(r.to))
		switch {
		case r.length > 0 && deny:
			end = max(open, c.last(d.Add(r.from), true)-1) + int(r.length/time.Minute)
		case r.length > 0:
			end = open + int(r.length/time.Minute)
		case deny:
			end = c.last(d.AddDate(0, 0, r.days).Add(r.to), false)
		}
		if open < end {
			out = append(out, [2]int{open, end})
		}
	}
	return out
}

func drawRule(t *rapid.T) testRule {
	r := testRule{
		offset: rapid.IntRange(-2, 2).Draw(t, "offset"),
		from:   time.Duration(rapid.IntRange(0, 24*4-1).Draw(t, "from")) * 15 * time.Minute,
	}
	length := time.Duration(rapid.IntRange(1, 40*4).Draw(t, "length")) * 15 * time.Minute
	if rapid.Bool().Draw(t, "elapsed") {
		r.length = length
	} else {
		r.days, r.to = int((r.from+length)/(24*time.Hour)), (r.from+length)%(24*time.Hour)
	}
	names := []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		days := rapid.SliceOfNDistinct(rapid.IntRange(0, 6), 1, 5, rapid.ID).Draw(t, "weekdays")
		var list []string
		for _, d := range days {
			list = append(list, names[d])
		}
		r.text = "FREQ=WEEKLY;BYDAY=" + strings.Join(list, ",")
		r.on = func(d time.Time) bool { return slices.Contains(days, int(d.Weekday())) }
	case 1:
		nth, day := rapid.IntRange(1, 4).Draw(t, "nth"), rapid.IntRange(0, 6).Draw(t, "weekday")
		r.text = fmt.Sprintf("FREQ=MONTHLY;BYDAY=%d%s", nth, names[day])
		r.on = func(d time.Time) bool { return int(d.Weekday()) == day && (d.Day()-1)/7+1 == nth }
	case 2:
		days := rapid.SliceOfNDistinct(rapid.IntRange(1, 31), 1, 12, rapid.ID).Draw(t, "monthdays")
		r.text = "FREQ=MONTHLY;BYMONTHDAY=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(days), " ", ","), "[]")
		r.on = func(d time.Time) bool { return slices.Contains(days, d.Day()) }
	default:
		every := rapid.IntRange(1, 6).Draw(t, "every")
		r.text = fmt.Sprintf("FREQ=DAILY;INTERVAL=%d", every)
		anchor := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
		r.on = func(d time.Time) bool { return int(d.Sub(anchor).Hours()/24)%every == 0 }
	}
	return r
}

// scene is a window set as text, and as an oracle sees it.
type scene struct {
	zone     string
	allow    []testRule
	deny     []testRule
	requires []testRule
	holidays []time.Time
	cancel   bool
	freeze   [2]time.Time
	cutoff   int        // minutes
	words    []testWord // none: no approval is needed
}

// testWord is an approval of the set that was given at a server, or a revocation. A scene has one
// revocation at most: of several only the last one counts, and the others are past by then.
type testWord struct {
	rule            int // of allow; -1 is the set
	revoked         bool
	at, from, until time.Time // of an approval also from and until, zero for none
}

func (w testWord) yaml(by string) string {
	text := fmt.Sprintf("{set: s, by: %s, at: %q", by, w.at.UTC().Format(time.RFC3339))
	if w.rule >= 0 {
		text += fmt.Sprintf(", rule: allow%d", w.rule)
	}
	if w.revoked {
		text += ", state: revoked"
	}
	for key, t := range map[string]time.Time{"from": w.from, "until": w.until} {
		if !t.IsZero() {
			text += fmt.Sprintf(", %s: %q", key, t.UTC().Format(time.RFC3339))
		}
	}
	return text + "}"
}

// approves reports whether a word covers an instant of a rule.
func (w testWord) approves(rule int, at time.Time) bool {
	return !w.revoked && (w.rule < 0 || w.rule == rule) && !at.Before(w.at) && !at.Before(w.from) && (w.until.IsZero() || at.Before(w.until))
}

// approved reports whether an instant of a rule is approved.
func (s scene) approved(rule int, at time.Time) bool {
	revoked := func(w testWord) bool {
		return slices.ContainsFunc(s.words, func(r testWord) bool {
			return r.revoked && (r.rule < 0 || r.rule == rule) && !r.at.Before(w.at) && !at.Before(r.at)
		})
	}
	return len(s.words) == 0 || slices.ContainsFunc(s.words, func(w testWord) bool { return w.approves(rule, at) && !revoked(w) })
}

func (s scene) yaml() string {
	var b strings.Builder
	list := func(key string, rules []testRule, more string) {
		fmt.Fprintf(&b, "    %s:\n", key)
		for i, r := range rules {
			fmt.Fprintf(&b, "      - %s\n", r.yaml(fmt.Sprintf("%s%d", key, i)))
		}
		b.WriteString(more)
	}
	fmt.Fprintf(&b, "window_sets:\n  s:\n    timezone: %s\n    cutoff: %dm\n    requires: [hours]\n", s.zone, s.cutoff)
	if len(s.words) > 0 {
		b.WriteString("    approval: {by: cab, state: proposed}\n")
	}
	list("allow", s.allow, "")
	effect := Clip
	if s.cancel {
		effect = Cancel
	}
	list("deny", s.deny, fmt.Sprintf("      - {use: freeze/f}\n      - {use: holidays/own, effect: %s}\n", effect))
	fmt.Fprintf(&b, "  hours:\n    timezone: %s\n", s.zone)
	list("allow", s.requires, "")
	const f = "2006-01-02T15:04"
	fmt.Fprintf(&b, "freezes: {f: {timezone: %s, from: %s, to: %s}}\nholidays: {own: {dates: [", s.zone, s.freeze[0].Format(f), s.freeze[1].Format(f))
	for _, h := range s.holidays {
		b.WriteString(h.Format(time.DateOnly) + ", ")
	}
	b.WriteString("]}}\n")
	for i, w := range s.words {
		if i == 0 {
			b.WriteString("approvals:\n")
		}
		fmt.Fprintf(&b, "  - %s\n", w.yaml(fmt.Sprintf("server%d", i)))
	}
	return b.String()
}

// open returns for every minute whether the set is open.
func (s scene) open(c *clock) []bool {
	paint := func(spans [][2]int) []bool {
		out := make([]bool, len(c.high))
		for _, span := range spans {
			for i := span[0]; i < min(span[1], len(out)); i++ {
				out[i] = true
			}
		}
		return out
	}
	var days [][2]int
	for _, h := range s.holidays {
		days = append(days, [2]int{c.first(h), c.last(h.AddDate(0, 0, 1), false)})
	}
	var denied, required [][2]int
	a := make([]bool, len(c.high))
	for i, r := range s.allow {
		for _, span := range r.spans(c, false) {
			touched := slices.ContainsFunc(days, func(d [2]int) bool { return span[0] < d[1] && d[0] < span[1] })
			if s.cancel && touched {
				continue
			}
			for m := span[0]; m < min(span[1], len(a)); m++ {
				a[m] = a[m] || s.approved(i, c.start.Add(time.Duration(m)*time.Minute))
			}
		}
	}
	for _, r := range s.deny {
		denied = append(denied, r.spans(c, true)...)
	}
	for _, r := range s.requires {
		required = append(required, r.spans(c, false)...)
	}
	denied = append(denied, [2]int{c.first(s.freeze[0]), c.last(s.freeze[1], false)})
	if !s.cancel {
		denied = append(denied, days...)
	}
	d, r := paint(denied), paint(required)
	for i := range a {
		a[i] = a[i] && r[i] && !d[i]
	}
	return a
}

func drawScene(t *rapid.T) (scene, time.Time) {
	s := scene{zone: rapid.SampledFrom(oddZones()).Draw(t, "zone"), cutoff: rapid.IntRange(1, 90).Draw(t, "cutoff"), cancel: rapid.Bool().Draw(t, "cancel")}
	zone, err := civil.LoadZone(s.zone)
	if err != nil {
		t.Fatal(err)
	}
	base := time.Date(2008, 1, 1, 0, 0, 0, 0, time.UTC)
	changes := civil.Changes(zone, base, base.AddDate(28, 0, 0))
	around := base.AddDate(0, 0, rapid.IntRange(0, 28*365).Draw(t, "day"))
	if len(changes) > 0 {
		around = rapid.SampledFrom(changes).Draw(t, "change").Before.Truncate(24 * time.Hour)
	}
	s.allow = rapid.SliceOfN(rapid.Custom(drawRule), 1, 4).Draw(t, "allow")
	s.deny = rapid.SliceOfN(rapid.Custom(drawRule), 0, 1).Draw(t, "deny")
	s.requires = []testRule{{text: "FREQ=DAILY;INTERVAL=1", on: func(time.Time) bool { return true }, days: 1}}
	if rapid.Bool().Draw(t, "hours") {
		s.requires = rapid.SliceOfN(rapid.Custom(drawRule), 1, 3).Draw(t, "requires")
	}
	wall := func(what string) time.Time {
		return around.Add(time.Duration(rapid.IntRange(-5*96, 5*96).Draw(t, what)) * 15 * time.Minute)
	}
	s.freeze[0] = wall("freeze")
	s.freeze[1] = s.freeze[0].Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "frozen")) * 15 * time.Minute)
	s.holidays = []time.Time{wall("holiday").Truncate(24 * time.Hour)}
	s.words = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) testWord {
		w := testWord{rule: rapid.IntRange(-1, len(s.allow)-1).Draw(t, "rule"), at: wall("given")}
		end := w.at
		if rapid.Bool().Draw(t, "later") {
			w.from = wall("from")
			if w.from.After(end) {
				end = w.from
			}
		}
		if rapid.Bool().Draw(t, "ends") {
			w.until = end.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "lasts")) * 15 * time.Minute)
		}
		return w
	}), 0, 4).Draw(t, "words")
	if len(s.words) > 0 && rapid.Bool().Draw(t, "revoked") {
		s.words = append(s.words, testWord{rule: rapid.IntRange(-1, len(s.allow)-1).Draw(t, "of"), revoked: true, at: wall("revocation")})
	}
	return s, around
}

// margin is how far around a span an oracle must look.
const margin = 6 * 24 * time.Hour

// compare runs a scene through both, for every minute of a span, and for starts of some needs.
func compare(s scene, d *Definitions, from, to time.Time, needs []int) error {
	zone, err := civil.LoadZone(s.zone)
	if err != nil {
		return err
	}
	return compareOn(readClock(zone, from.Add(-margin), to.Add(2*margin)), zone, s, d, from, to, needs)
}

func compareOn(c *clock, zone *time.Location, s scene, d *Definitions, from, to time.Time, needs []int) error {
	open := s.open(c)
	compiled := d.Compile("s", Horizon{from, to})
	if compiled.Reason() != "" {
		return errors.New(compiled.Reason())
	}
	n, first := int(to.Sub(from)/time.Minute), int(margin/time.Minute)
	run := make([]int, len(open)+1) // for how many minutes it stays open from here
	for i := len(open) - 1; i >= 0; i-- {
		if open[i] {
			run[i] = run[i+1] + 1
		}
	}
	for _, w := range compiled.Occurrences(from, to) {
		if w.Open.Second() != 0 || w.Close.Second() != 0 || !w.Close.After(w.Open) {
			return fmt.Errorf("window %v", w)
		}
	}
	for _, need := range append(needs, 0) {
		next := -1 // the next minute at which it fits, within the horizon
		for i := n - 1; i >= 0; i-- {
			if run[first+i] >= max(need, s.cutoff) {
				next = i
			}
			if need > 0 && n > 100_000 && i%11 != 0 {
				continue // a year: Next is asked now and then, whether it is open each minute
			}
			at := from.Add(time.Duration(i) * time.Minute)
			if need == 0 { // only whether it is open, as in the windows
				e := compiled.fits.spans
				if _, got := e.find(at.UnixNano()); got != open[first+i] {
					return fmt.Errorf("%s: open is %t, want %t", at.In(zone), got, open[first+i])
				}
				continue
			}
			got, err := compiled.Next(at, time.Duration(need)*time.Minute)
			if (err == nil) != (next >= 0) || err == nil && !got.Equal(from.Add(time.Duration(next)*time.Minute)) {
				return fmt.Errorf("%s, need %dm: got %s, %w, want minute %d", at.In(zone), need, got.In(zone), err, next)
			}
		}
	}
	return nil
}

func TestCompiledSetAgreesWithLookingAtTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, around := drawScene(t)
		d, err := Parse(Document{"scene.yaml", []byte(s.yaml())})
		if err != nil {
			t.Fatalf("%v\n%s", err, s.yaml())
		}
		needs := []int{rapid.IntRange(1, 30*60).Draw(t, "need")}
		if err := compare(s, d, around.AddDate(0, 0, -3), around.AddDate(0, 0, 4), needs); err != nil {
			t.Fatalf("%v\n%s", err, s.yaml())
		}
	})
}

// yearScene is a plain set: Saturdays over midnight, the early hours of every night, less a freeze.
func yearScene(zone string, year int) scene {
	return scene{
		zone: zone, cutoff: 30,
		allow: []testRule{
			{text: "FREQ=WEEKLY;BYDAY=SA", on: func(d time.Time) bool { return d.Weekday() == time.Saturday }, from: 22 * time.Hour, days: 1, to: 5 * time.Hour},
			{text: "FREQ=DAILY;INTERVAL=1", on: func(time.Time) bool { return true }, to: 3 * time.Hour},
			{text: "FREQ=DAILY;INTERVAL=1", on: func(time.Time) bool { return true }, from: 2*time.Hour + 15*time.Minute, length: time.Hour},
		},
		requires: []testRule{{text: "FREQ=DAILY;INTERVAL=1", on: func(time.Time) bool { return true }, days: 1}},
		freeze:   [2]time.Time{time.Date(year, 12, 20, 0, 0, 0, 0, time.UTC), time.Date(year+1, 1, 7, 0, 0, 0, 0, time.UTC)},
		holidays: []time.Time{time.Date(year, 5, 1, 0, 0, 0, 0, time.UTC), time.Date(year, 10, 3, 0, 0, 0, 0, time.UTC)},
		words: []testWord{ // of two servers
			{rule: -1, at: time.Date(year, 1, 20, 1, 0, 0, 0, time.UTC), until: time.Date(year, 8, 1, 1, 7, 0, 0, time.UTC)},
			{rule: 1, at: time.Date(year, 2, 1, 0, 0, 0, 0, time.UTC), from: time.Date(year, 7, 20, 0, 0, 0, 0, time.UTC)},
			{rule: 1, revoked: true, at: time.Date(year, 9, 1, 0, 41, 0, 0, time.UTC)},
			{rule: -1, at: time.Date(year, 9, 20, 1, 23, 0, 0, time.UTC)},
		},
	}
}

func TestYearsAgreeWithLookingAtTheClock(t *testing.T) {
	for _, zone := range oddZones() {
		t.Run(zone, func(t *testing.T) {
			years := []int{2026}
			if zone == "Pacific/Apia" { // has had its odd year
				years = []int{2011, 2021}
			}
			for _, year := range years {
				s := yearScene(zone, year)
				from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
				if err := compare(s, load(t, s.yaml()), from, from.AddDate(1, 0, 10), []int{90}); err != nil {
					t.Error(year, err)
				}
			}
		})
	}
}

// The negative control: the comparison notices a set that ignores the freeze, the holiday, what is
// required, an approval, or a clock change.
func TestLookingAtTheClockNoticesAWrongSet(t *testing.T) {
	right := yearScene("Europe/Berlin", 2026)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(1, 0, 10)
	zone, err := civil.LoadZone(right.zone)
	if err != nil {
		t.Fatal(err)
	}
	c := readClock(zone, from.Add(-margin), to.Add(2*margin))
	for name, spoil := range map[string]func(*scene){
		"freeze":   func(s *scene) { s.freeze[1] = s.freeze[0].Add(time.Minute) },
		"holiday":  func(s *scene) { s.holidays = s.holidays[:1] },
		"requires": func(s *scene) { s.requires[0].from = time.Hour },
		"zone":     func(s *scene) { s.zone = "Europe/Moscow" },
		"length":   func(s *scene) { s.allow[0].to += time.Minute },

		"begin of an approval": func(s *scene) { s.words[3].at = s.words[3].at.Add(time.Minute) },
		"end of an approval":   func(s *scene) { s.words[0].until = s.words[0].until.Add(time.Minute) },
		"rule of an approval":  func(s *scene) { s.words[1].rule = 2 },
		"revocation":           func(s *scene) { s.words = slices.Delete(s.words, 2, 3) },
		"another's approval":   func(s *scene) { s.words = slices.Delete(s.words, 3, 4) },
	} {
		wrong := yearScene("Europe/Berlin", 2026)
		spoil(&wrong)
		if compareOn(c, zone, right, load(t, wrong.yaml()), from, to, nil) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
	if err := compareOn(c, zone, right, load(t, right.yaml()), from, to, nil); err != nil {
		t.Error(err)
	}
}
