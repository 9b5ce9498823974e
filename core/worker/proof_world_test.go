package worker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A world is what one scenario of the proof is made of, as plain values: window sets, freezes and
// their edits, a playbook, hosts. Nothing here uses packages windows or admission: the oracle reads
// these values directly, and the worker reads the YAML that they are written as.

// zones have whole hours, half hours, quarters, negative saving, midnight changes, a skipped day,
// and none of it.
var proofZones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Europe/Dublin", "America/Havana", "Asia/Kathmandu",
	"Africa/Cairo", "America/Santiago", "Pacific/Apia", "Asia/Tehran", "Pacific/Chatham",
}

// wall is a wall clock time, in minutes since 1970 as if it were UTC.
type wall int64

func (w wall) String() string {
	return time.Unix(int64(w)*60, 0).UTC().Format("2006-01-02T15:04")
}

func wallOf(t time.Time, zone *time.Location) wall {
	_, offset := t.In(zone).Zone()
	return wall((t.Unix() + int64(offset)) / 60)
}

const day = 24 * 60 // minutes

type proofRule struct {
	kind   string // daily, weekly, cron, once
	begin  wall   // of the occurrence near the scenario's start
	length int    // minutes: on the wall clock; elapsed for cron
}

type proofSet struct {
	name, zone string
	rules      []proofRule
	cutoff     int // minutes
	stop       bool
	needsYes   bool // has an approval
	until      time.Time
	revoked    time.Time
	carry      int
	freezes    []string
	requires   string
	open       bool // always
}

type proofFreeze struct {
	name, zone string
	from, to   wall
}

type proofDefs struct {
	sets    []proofSet
	freezes []proofFreeze
}

func (d proofDefs) clone() proofDefs {
	c := proofDefs{sets: slices.Clone(d.sets), freezes: slices.Clone(d.freezes)}
	for i := range c.sets {
		c.sets[i].rules = slices.Clone(c.sets[i].rules)
		c.sets[i].freezes = slices.Clone(c.sets[i].freezes)
	}
	return c
}

func (d proofDefs) find(name string) *proofSet {
	for i := range d.sets {
		if d.sets[i].name == name {
			return &d.sets[i]
		}
	}
	return nil
}

// yaml writes the definitions as an operator would.
func (d proofDefs) yaml() string {
	var b strings.Builder
	b.WriteString("window_sets:\n")
	for _, s := range d.sets {
		fmt.Fprintf(&b, "  %s:\n    timezone: %s\n", s.name, s.zone)
		if s.cutoff > 0 {
			fmt.Fprintf(&b, "    cutoff: %dm\n", s.cutoff)
		}
		if s.stop {
			b.WriteString("    overrun: stop_at_checkpoint\n")
		}
		if s.carry > 0 {
			fmt.Fprintf(&b, "    carry_over: {max: %d}\n", s.carry)
		}
		if s.requires != "" {
			fmt.Fprintf(&b, "    requires: [%s]\n", s.requires)
		}
		if s.needsYes {
			fmt.Fprintf(&b, "    approval: {by: cab, until: %q", s.until.UTC().Format(time.RFC3339))
			if !s.revoked.IsZero() {
				fmt.Fprintf(&b, ", revoked: %q", s.revoked.UTC().Format(time.RFC3339))
			}
			b.WriteString("}\n")
		}
		if len(s.freezes) > 0 {
			b.WriteString("    deny:\n")
			for _, f := range s.freezes {
				fmt.Fprintf(&b, "      - {use: freeze/%s}\n", f)
			}
		}
		b.WriteString("    allow:\n")
		if s.open {
			b.WriteString("      - {id: all, rrule: FREQ=DAILY, from: \"00:00\", to: \"+1d 00:00\"}\n")
		}
		for i, r := range s.rules {
			b.WriteString("      - " + r.yaml(i) + "\n")
		}
	}
	if len(d.freezes) > 0 {
		b.WriteString("freezes:\n")
	}
	for _, f := range d.freezes {
		fmt.Fprintf(&b, "  %s: {timezone: %s, from: %q, to: %q}\n", f.name, f.zone, f.from, f.to)
	}
	return b.String()
}

func (r proofRule) yaml(i int) string {
	clock := func(minutes wall) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }
	from := r.begin % day
	to := from + wall(r.length)
	ends := clock(to % day)
	if to >= day {
		ends = "+1d " + ends
	}
	switch r.kind {
	case "daily":
		return fmt.Sprintf(`{id: r%d, rrule: "FREQ=DAILY", from: %q, to: %q}`, i, clock(from), ends)
	case "weekly":
		weekday := time.Unix(int64(r.begin)*60, 0).UTC().Weekday().String()[:2]
		return fmt.Sprintf(`{id: r%d, rrule: "FREQ=WEEKLY;BYDAY=%s", from: %q, to: %q}`, i, strings.ToUpper(weekday), clock(from), ends)
	case "cron":
		return fmt.Sprintf(`{id: r%d, cron: "%d %d * * *", duration: %dm}`, i, from%60, from/60, r.length)
	default:
		return fmt.Sprintf(`{id: r%d, at: %q, to: %q}`, i, r.begin, r.begin+wall(r.length))
	}
}

type proofStep struct {
	name, uses string
	window     string // as written
	windowed   bool
	need       time.Duration // own
	attempts   int
	interval   time.Duration
	items      int // 0: no foreach
}

type proofHost struct {
	name, set, ha string
}

type proofWorld struct {
	seed    uint64
	start   time.Time // by the queue's clock
	skew    time.Duration
	defs    proofDefs
	steps   []proofStep
	hosts   []proofHost
	waves   string
	nodes   int
	horizon time.Duration
	edits   []time.Duration // after start
	faults  []time.Duration
}

// chance is true in p of 100 cases.
func chance(r *rand.Rand, p int) bool { return r.IntN(100) < p }

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

func newWorld(seed uint64) *proofWorld {
	r := rand.New(rand.NewPCG(seed, 0x7073))
	w := &proofWorld{seed: seed, horizon: 8 * time.Hour, nodes: 1 + r.IntN(2)}
	zones := []string{proofZones[r.IntN(len(proofZones))], proofZones[r.IntN(len(proofZones))]}
	w.start = time.Date(2001+r.IntN(35), 1, 1+r.IntN(365), r.IntN(24), r.IntN(60), r.IntN(60), 0, time.UTC)
	if chance(r, 60) { // about when a clock changes
		if zone, err := time.LoadLocation(zones[0]); err == nil {
			if _, change := w.start.In(zone).ZoneBounds(); !change.IsZero() && change.Year() < 2037 {
				w.start = change.Add(-time.Duration(r.IntN(6*3600)) * time.Second).UTC()
			}
		}
	}
	if chance(r, 40) {
		w.skew = []time.Duration{time.Hour, -time.Hour, 17 * time.Minute, -7 * 24 * time.Hour}[r.IntN(4)]
	}
	for i, n := 0, 1+r.IntN(2); i < n; i++ {
		w.defs.sets = append(w.defs.sets, w.newSet(r, fmt.Sprintf("s%d", i), zones[i]))
	}
	if len(w.defs.sets) > 1 && chance(r, 20) {
		w.defs.sets[0].requires = "s1"
	}
	w.playbook(r)
	for i, n := 0, 1+r.IntN(5); i < n; i++ {
		h := proofHost{name: fmt.Sprintf("h%d", i), set: w.defs.sets[r.IntN(len(w.defs.sets))].name}
		if chance(r, 40) {
			h.ha = fmt.Sprintf("ha%d", i/2)
		}
		w.hosts = append(w.hosts, h)
	}
	for i, n := 0, r.IntN(5); i < n; i++ {
		w.edits = append(w.edits, time.Duration(r.Int64N(int64(w.horizon))))
	}
	for i, n := 0, r.IntN(4); i < n; i++ {
		w.faults = append(w.faults, time.Duration(r.Int64N(int64(w.horizon))))
	}
	return w
}

func (w *proofWorld) newSet(r *rand.Rand, name, zone string) proofSet {
	s := proofSet{name: name, zone: zone, stop: chance(r, 40)}
	for i, n := 0, 2+r.IntN(4); i < n; i++ {
		s.rules = append(s.rules, w.newRule(r, zone))
	}
	if chance(r, 30) {
		s.cutoff = 1 + r.IntN(20)
	}
	if chance(r, 25) {
		s.carry = 1 + r.IntN(2)
	}
	if chance(r, 40) {
		s.needsYes, s.until = true, w.start.Truncate(time.Minute).Add(minutes(60+r.IntN(14*60)))
	}
	if chance(r, 20) {
		w.freeze(r, &s, w.start)
	}
	return s
}

func (w *proofWorld) newRule(r *rand.Rand, zone string) proofRule {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	return proofRule{
		kind:  []string{"daily", "weekly", "cron", "once"}[r.IntN(4)],
		begin: wallOf(w.start, loc) + wall(r.IntN(11*60)-90), length: 10 + r.IntN(100),
	}
}

// freeze adds a freeze that begins near at to the set.
func (w *proofWorld) freeze(r *rand.Rand, s *proofSet, at time.Time) {
	zone := []string{s.zone, "UTC"}[r.IntN(2)]
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	from := wallOf(at, loc) + wall(r.IntN(90)-30)
	f := proofFreeze{name: fmt.Sprintf("f%d", len(w.defs.freezes)), zone: zone, from: from, to: from + wall(20+r.IntN(200))}
	w.defs.freezes = append(w.defs.freezes, f)
	s.freezes = append(s.freezes, f.name)
}

func (w *proofWorld) playbook(r *rand.Rand) {
	for i, n := 0, 1+r.IntN(3); i < n; i++ {
		s := proofStep{
			name: fmt.Sprintf("p%d", i), uses: []string{"fw.flash", "fw.flash", "fw.hold", "cmd"}[r.IntN(4)],
			need: minutes(2 + r.IntN(25)), attempts: 1 + r.IntN(3), interval: []time.Duration{time.Second, time.Minute, 20 * time.Minute}[r.IntN(3)],
		}
		if chance(r, 15) {
			s.items = 1 + r.IntN(3)
		}
		switch {
		case chance(r, 15):
			s.window = "none"
		case chance(r, 15):
			s.window = w.defs.sets[r.IntN(len(w.defs.sets))].name
		}
		s.windowed = s.window != "none" && s.uses != "cmd"
		w.steps = append(w.steps, s)
	}
	if !slices.ContainsFunc(w.steps, func(s proofStep) bool { return s.windowed }) {
		w.steps[len(w.steps)-1].uses, w.steps[len(w.steps)-1].window, w.steps[len(w.steps)-1].windowed = "fw.flash", "", true
	}
	w.waves = []string{"[100%]", "[1, 100%]"}[r.IntN(2)]
}

// source is the playbook as written.
func (w *proofWorld) source() string {
	var b strings.Builder
	fmt.Fprintf(&b, "playbook: proof\ntargets: true\nwindow: service\nstrategy: {waves: %s}\nsteps:\n", w.waves)
	for _, s := range w.steps {
		fmt.Fprintf(&b, "  - {name: %s, uses: %s, needs: %s, with: {%s}, retry: {attempts: %d, interval: %s}", s.name, s.uses, s.need, item(s), s.attempts, s.interval)
		if s.window != "" {
			fmt.Fprintf(&b, ", window: %s", s.window)
		}
		if s.items > 0 {
			fmt.Fprintf(&b, ", foreach: %q", []string{"[1]", "[1, 2]", "[1, 2, 3]"}[s.items-1])
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// edit changes the definitions as people do: late freezes, revoked approvals, edited windows.
func (w *proofWorld) edit(r *rand.Rand, now time.Time) {
	w.defs = w.defs.clone()
	s := &w.defs.sets[r.IntN(len(w.defs.sets))]
	switch r.IntN(6) {
	case 0, 1:
		w.freeze(r, s, now)
	case 2:
		s.freezes = nil // lifted
	case 3:
		if s.needsYes {
			s.revoked = now.Truncate(time.Minute)
			break
		}
		fallthrough
	case 4:
		s.rules[r.IntN(len(s.rules))] = w.newRule(r, s.zone)
	case 5:
		s.revoked, s.needsYes = time.Time{}, false
		s.stop = !s.stop
	}
}

// item lets a call know which item of a foreach it has.
func item(s proofStep) string {
	if s.items == 0 {
		return ""
	}
	return `item: "${{ item }}"`
}
