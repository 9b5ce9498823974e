package windows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// Bounds of one set.
const (
	maxRules = 200  // of one set, and as many denies
	maxTotal = 5000 // of one file
	maxScope = 8
)

func (d *decoder) set(name string, k, v *yaml.Node) *Set {
	switch strings.ToLower(name) {
	case "service", "none": // somebody who writes "window: none" must not think that it is this set
		d.fail(k, "in playbooks window: service is the host's own set, and none is any time", "no window set may have the name %s", quote(name))
	}
	s := &Set{Name: name, Inherit: Intersect}
	allow := d.Each("allow", maxRules, func(n *yaml.Node) {
		r := d.rule(n, s, fmt.Sprintf("allow[%d]", len(s.Allow)+1), true)
		if slices.ContainsFunc(s.Allow, func(had Rule) bool { return had.ID == r.ID }) {
			d.fail(n, "", "two rules of the window set have the id %s", quote(r.ID))
		}
		s.Allow = append(s.Allow, r)
	})
	d.Mapping(v, "window set "+quote(name),
		value(d, "timezone", &s.Timezone, zoneText).Needed(), // first: times in other keys are in this zone
		field{Key: "scope", Want: "a mapping such as {customer: acme, site: fra}", Read: func(n *yaml.Node) { s.Scope = d.scope(n) }},
		yamlread.Choice(d.Reader, "inherit", &s.Inherit, Intersect, Replace, Extend),
		field{Key: "allow", Want: allow.Want, Read: func(n *yaml.Node) {
			s.Allow = []Rule{} // an empty list opens nothing; without one the set opens what it inherits
			allow.Read(n)
		}},
		d.names("requires", &s.Requires, func(n *yaml.Node) { d.checkRequires(n, s) }),
		d.Each("deny", maxRules, func(n *yaml.Node) { s.Deny = append(s.Deny, d.deny(n, s)) }),
		value(d, "cutoff", &s.Cutoff, func(text string) (*time.Duration, error) { v, err := ParseDuration(text); return &v, err }),
		yamlread.Choice(d.Reader, "overrun", &s.Overrun, Finish, StopAtCheckpoint),
		field{Key: "approval", Read: func(n *yaml.Node) { s.Approval = d.approval(n, s) }},
		field{Key: "carry_over", Read: func(n *yaml.Node) { s.Carry = d.carry(n, s) }},
		d.Bool("four_eyes", &s.FourEyes))
	return s
}

func (d *decoder) scope(n *yaml.Node) map[string]string {
	out := map[string]string{}
	for _, p := range d.Pairs(n, "scope") {
		if len(out) >= maxScope {
			d.fail(p.Key, "", "a scope has at most %d keys", maxScope)
			break
		}
		var text string
		yamlread.Parse(d.Reader, p.Value, &text, nameText)
		out[p.Name] = text
	}
	return out
}

// rule reads an allow rule, which may be approved, or the rule of a deny with more keys.
func (d *decoder) rule(n *yaml.Node, s *Set, id string, approved bool, more ...field) Rule {
	r := Rule{ID: id}
	if d.rulesRead++; d.rulesRead > maxTotal {
		d.fail(n, "", "more than %d rules in one file", maxTotal)
		d.Full = true
		return r
	}
	var t ruleNodes
	known := append([]field{
		value(d, "id", &r.ID, nameText),
		t.noted(&t.repeats, value(d, "rrule", &r.RRule, plainText)),
		t.noted(&t.repeats, value(d, "cron", &r.Cron, plainText)),
		value(d, "at", &r.At, wallTime),
		value(d, "utc", &r.AtUTC, instant(&s.Timezone, false)),
		t.noted(&t.from, field{Key: "from"}),
		t.noted(&t.to, field{Key: "to"}),
		value(d, "duration", &r.Duration, ParseDuration),
		value(d, "offset", &r.Offset, parseOffset),
		field{Key: "valid", Read: func(n *yaml.Node) { r.Valid = d.span(n) }},
	}, more...)
	if approved {
		known = append(known, field{Key: "approval", Read: func(n *yaml.Node) { r.Approval = d.approval(n, s) }})
	}
	before := len(d.problems)
	if !d.Mapping(n, "the rule", known...) || len(d.problems) > before {
		return r
	}
	d.ruleTimes(n, &r, t.from, t.to)
	if len(d.problems) == before {
		d.ruleRepeats(t, &r)
	}
	return r
}

// ruleNodes are values of a rule that other keys are needed to read, or to check.
type ruleNodes struct{ from, to, repeats *yaml.Node }

func (*ruleNodes) noted(at **yaml.Node, f field) field {
	read := f.Read
	f.Read = func(n *yaml.Node) {
		if *at = n; read != nil {
			read(n)
		}
	}
	return f
}

func wallTime(text string) (time.Time, error) { t, _, err := parseWall(text); return t, err }

// ruleTimes reads from and to, and reports keys that do not go together.
func (d *decoder) ruleTimes(n *yaml.Node, r *Rule, from, to *yaml.Node) {
	kinds := 0
	for _, given := range []bool{r.RRule != "", r.Cron != "", !r.At.IsZero()} {
		if given {
			kinds++
		}
	}
	const three = "a rule is one of: rrule with from and to; cron with duration; at with to"
	switch {
	case kinds != 1:
		d.fail(n, three, "a rule needs exactly one of rrule, cron and at; %d are given", kinds)
		return
	case r.RRule != "" && from == nil:
		d.fail(n, three, `a rule with rrule has no "from"`)
		return
	case r.RRule == "" && from != nil:
		d.fail(from, three, "from is for rules with rrule; cron and at name the time themselves")
		return
	case r.RRule == "" && r.Offset != 0:
		d.fail(n, "", "offset is for rules with rrule")
		return
	case !r.At.IsZero() && r.Valid != nil:
		d.fail(n, "", "valid is for rules that recur")
		return
	case r.At.IsZero() && !r.AtUTC.IsZero():
		d.fail(n, "", "utc is for rules with at")
		return
	case (to != nil) == (r.Duration > 0):
		d.fail(n, "to is wall clock time, duration is elapsed time", `a rule needs either "to" or "duration"`)
		return
	}
	if from != nil {
		var c Clock
		value(d, "from", &c, parseClock).Read(from)
		if c.Days > 0 {
			d.fail(from, "shift the day with offset:", "from is a time of the rule's own day")
		}
		r.From = c.Time
	}
	switch {
	case to == nil:
	case !r.At.IsZero():
		value(d, "to", &r.ToAt, wallTime).Read(to)
		if !r.ToAt.IsZero() && !r.ToAt.After(r.At) {
			d.fail(to, "", "to is not after at")
		}
		if r.ToAt.Sub(r.At) > maxOnce {
			d.fail(to, "", "a single window lasts at most 400 days")
		}
	default:
		r.To = &Clock{}
		value(d, "to", r.To, parseClock).Read(to)
		end := r.To.length()
		if r.RRule != "" && end <= r.From {
			d.fail(to, `the next day is written "+1d 05:00"`, "to is not after from")
		}
		if end > maxLength {
			d.fail(to, "", "an occurrence lasts at most 31 days")
		}
	}
	if r.Duration > maxOnce || r.Duration > maxLength && r.At.IsZero() {
		d.fail(n, "", "duration: an occurrence that recurs lasts at most 31 days, a single one 400")
	}
}

// ruleRepeats parses rrule and cron, and refuses what recurs too often, or ends before it starts.
func (d *decoder) ruleRepeats(t ruleNodes, r *Rule) {
	at := t.repeats
	recur, err := r.prepare()
	if err != nil {
		d.fail(at, "", "%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "invalid: "), "invalid "))
		return
	}
	r.recur = recur
	if recur.cron == nil {
		return
	}
	if r.To != nil && r.To.length() <= recur.cron.Latest() { // as a deny it would deny nothing
		d.fail(t.to, `the next day is written "+1d 05:00"`, "to is not after the last time of day at which cron %s starts", quote(r.Cron))
		return
	}
	wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end := wall.AddDate(0, 0, 400)
	for n := 0; n == 0 || recur.cron.PerDay()*400 > maxOccurrences; n++ {
		next, ok := recur.cron.NextWall(wall)
		switch {
		case n == 0 && !ok:
			d.fail(at, "", "cron %s never matches a day", quote(r.Cron))
			return
		case !ok || next.After(end):
			return
		case n == maxOccurrences:
			d.fail(at, `a window that is nearly always open is written rrule: FREQ=DAILY, from: "00:00", to: "24:00"`, "cron %s opens more than %d times in 400 days", quote(r.Cron), maxOccurrences)
			return
		}
		wall = next
	}
}

func (d *decoder) span(n *yaml.Node) *Span {
	items := d.List(n, "two dates, both included: [2026-01-01, 2026-12-31]")
	if len(items) != 2 {
		d.fail(n, "expected two dates, both included: [2026-01-01, 2026-12-31]", "valid has %d items", len(items))
		return nil
	}
	s := &Span{}
	yamlread.Parse(d.Reader, items[0], &s.First, parseDate)
	yamlread.Parse(d.Reader, items[1], &s.Last, parseDate)
	if s.First.IsZero() || s.Last.IsZero() {
		return nil
	}
	if s.Last.Before(s.First) {
		d.fail(n, "", "valid ends before it begins")
	}
	return s
}

func (d *decoder) deny(n *yaml.Node, s *Set) Deny {
	deny := Deny{Effect: Clip}
	effect := yamlread.Choice(d.Reader, "effect", &deny.Effect, Clip, Cancel)
	if target, _ := d.Follow(n); target.Kind == yaml.MappingNode && !slices.ContainsFunc(target.Content, func(k *yaml.Node) bool { return k.Value == "use" }) {
		r := d.rule(n, s, fmt.Sprintf("deny[%d]", len(s.Deny)+1), false, effect)
		deny.Rule = &r
		return deny
	}
	use := value(d, "use", &deny.Use, plainText)
	d.Mapping(n, "the deny", field{Key: "use", Required: true, Read: func(n *yaml.Node) {
		use.Read(n)
		d.later = append(d.later, func() { d.checkUse(n, deny.Use) })
	}}, effect)
	return deny
}

func (d *decoder) checkUse(n *yaml.Node, use string) {
	kind, name, _ := strings.Cut(use, "/")
	switch {
	case kind == "freeze" && d.defs.Freezes[name] == nil:
		d.fail(n, didYouMean(name, sortedNames(d.defs.Freezes)), "unknown freeze %s", quote(name))
	case kind == "holidays" && !d.knowsCalendar(name):
		d.fail(n, holidayHint(name, sortedNames(d.defs.Holidays)), "unknown holiday calendar %s", quote(name))
	case kind != "freeze" && kind != "holidays":
		d.fail(n, "", "use %s: expected freeze/NAME or holidays/NAME", quote(use))
	}
}

func (d *decoder) checkRequires(n *yaml.Node, s *Set) {
	for _, name := range s.Requires {
		if d.defs.Sets[name] == nil {
			d.fail(n, didYouMean(name, sortedNames(d.defs.Sets)), "unknown window set %s in requires", quote(name))
		}
	}
	if d.requires(s.Name, s.Name, map[string]bool{}) {
		d.fail(n, "", "window set %s requires itself", quote(s.Name))
	}
}

// requires reports whether from needs to, by requires or by what it inherits from.
func (d *decoder) requires(from, to string, seen map[string]bool) bool {
	s := d.defs.Sets[from]
	if s == nil || seen[from] {
		return false
	}
	seen[from] = true
	needs := slices.Clone(s.Requires)
	for _, wider := range d.defs.wider(s) {
		needs = append(needs, wider.Requires...)
	}
	return slices.ContainsFunc(needs, func(name string) bool { return name == to || d.requires(name, to, seen) })
}

func (d *decoder) carry(n *yaml.Node, s *Set) *CarryOver {
	c := &CarryOver{}
	d.Mapping(n, "carry_over", d.Int("max", &c.Max, 1, 10_000), value(d, "deadline", &c.Deadline, instant(&s.Timezone, true)))
	return c
}

func sortedNames[T any](m map[string]*T) []string { return slices.Sorted(maps.Keys(m)) }
