package windows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
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
	// The zone is read first: times in other keys mean what they say in it.
	if target := d.follow(v); target.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(target.Content); i += 2 {
			if target.Content[i].Value == "timezone" && d.follow(target.Content[i+1]).Kind == yaml.ScalarNode {
				s.Timezone = d.follow(target.Content[i+1]).Value
			}
		}
	}
	d.mapping(v, "window set "+quote(name), keys{
		"scope":    func(n *yaml.Node) { s.Scope = d.scope(n) },
		"timezone": func(n *yaml.Node) { with(d, n, "timezone", zoneText, &s.Timezone) },
		"inherit":  func(n *yaml.Node) { with(d, n, "inherit", choice(Intersect, Replace, Extend), &s.Inherit) },
		"allow":    func(n *yaml.Node) { s.Allow = d.rules(n, s) },
		"requires": func(n *yaml.Node) {
			s.Requires = d.names(n, "requires")
			d.later = append(d.later, func() { d.checkRequires(n, s) })
		},
		"deny": func(n *yaml.Node) {
			for i, item := range d.list(n, "deny") {
				if i == maxRules {
					d.fail(item, "", "more than %d denies in one window set", maxRules)
					break
				}
				s.Deny = append(s.Deny, d.deny(item, s, i))
			}
		},
		"cutoff": func(n *yaml.Node) {
			with(d, n, "cutoff", func(text string) (*time.Duration, error) { v, err := ParseDuration(text); return &v, err }, &s.Cutoff)
		},
		"overrun":    func(n *yaml.Node) { with(d, n, "overrun", choice(Finish, StopAtCheckpoint), &s.Overrun) },
		"approval":   func(n *yaml.Node) { s.Approval = d.approval(n, s) },
		"carry_over": func(n *yaml.Node) { s.Carry = d.carry(n, s) },
		"four_eyes":  func(n *yaml.Node) { with(d, n, "four_eyes", trueOrFalse, &s.FourEyes) },
	}, "timezone")
	return s
}

func (d *decoder) scope(n *yaml.Node) map[string]string {
	out := map[string]string{}
	target := d.follow(n)
	if target.Kind != yaml.MappingNode {
		d.fail(n, "expected a mapping such as {customer: acme, site: fra}", "scope is %s", kindOf(target))
		return out
	}
	d.each(target, "scope", func(key string, k, v *yaml.Node) {
		var value string
		with(d, v, key, nameText, &value)
		if len(out) >= maxScope {
			d.fail(k, "", "a scope has at most %d keys", maxScope)
			return
		}
		out[key] = value
	})
	return out
}

func (d *decoder) rules(n *yaml.Node, s *Set) []Rule {
	out := []Rule{}
	ids := map[string]bool{}
	for i, item := range d.list(n, "allow") {
		if i == maxRules {
			d.fail(item, "", "more than %d rules in one window set", maxRules)
			break
		}
		r := d.rule(item, s, fmt.Sprintf("allow[%d]", i+1), nil)
		if ids[r.ID] {
			d.fail(item, "", "two rules of the window set have the id %s", quote(r.ID))
		}
		ids[r.ID] = true
		out = append(out, r)
	}
	return out
}

// rule reads an allow rule, or with more keys the rule of a deny.
func (d *decoder) rule(n *yaml.Node, s *Set, id string, more keys) Rule {
	r := Rule{ID: id}
	if d.rulesRead++; d.rulesRead > maxTotal {
		d.fail(n, "", "more than %d rules in one file", maxTotal)
		d.full = true
		return r
	}
	var to, from *yaml.Node
	known := keys{
		"id":       func(n *yaml.Node) { with(d, n, "id", nameText, &r.ID) },
		"rrule":    func(n *yaml.Node) { with(d, n, "rrule", plainText, &r.RRule) },
		"cron":     func(n *yaml.Node) { with(d, n, "cron", plainText, &r.Cron) },
		"at":       func(n *yaml.Node) { with(d, n, "at", wallTime, &r.At) },
		"utc":      func(n *yaml.Node) { with(d, n, "utc", instant(&s.Timezone, false), &r.AtUTC) },
		"from":     func(n *yaml.Node) { from = n },
		"to":       func(n *yaml.Node) { to = n },
		"duration": func(n *yaml.Node) { with(d, n, "duration", ParseDuration, &r.Duration) },
		"offset":   func(n *yaml.Node) { with(d, n, "offset", parseOffset, &r.Offset) },
		"valid":    func(n *yaml.Node) { r.Valid = d.span(n) },
		"approval": func(n *yaml.Node) { r.Approval = d.approval(n, s) },
	}
	if more != nil {
		delete(known, "approval")
		maps.Copy(known, more)
	}
	before := len(d.problems)
	if !d.mapping(n, "the rule", known) || len(d.problems) > before {
		return r
	}
	d.ruleTimes(n, &r, from, to)
	if len(d.problems) == before {
		d.ruleRepeats(n, &r)
	}
	return r
}

func wallTime(text string) (time.Time, error) { t, _, err := parseWall(text); return t, err }

// ruleTimes reads from and to, and says which keys go together.
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
		with(d, from, "from", parseClock, &c)
		if c.Days > 0 {
			d.fail(from, "shift the day with offset:", "from is a time of the rule's own day")
		}
		r.From = c.Time
	}
	switch {
	case to == nil:
	case !r.At.IsZero():
		with(d, to, "to", wallTime, &r.ToAt)
		if !r.ToAt.IsZero() && !r.ToAt.After(r.At) {
			d.fail(to, "", "to is not after at")
		}
		if r.ToAt.Sub(r.At) > maxOnce {
			d.fail(to, "", "a single window lasts at most 400 days")
		}
	default:
		r.To = &Clock{}
		with(d, to, "to", parseClock, r.To)
		end := time.Duration(r.To.Days)*24*time.Hour + r.To.Time
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

// ruleRepeats parses rrule and cron, and refuses what recurs too often.
func (d *decoder) ruleRepeats(n *yaml.Node, r *Rule) {
	at := n
	if target := d.follow(n); target.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(target.Content); i += 2 {
			if key := target.Content[i].Value; key == "rrule" || key == "cron" {
				at = target.Content[i+1]
			}
		}
	}
	recur, err := r.prepare()
	if err != nil {
		d.fail(at, "", "%s", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "invalid: "), "invalid "))
		return
	}
	r.recur = recur
	if recur.cron == nil {
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
	items := d.list(n, "valid")
	if len(items) != 2 {
		d.fail(n, "expected two dates, both included: [2026-01-01, 2026-12-31]", "valid has %d items", len(items))
		return nil
	}
	s := &Span{}
	with(d, items[0], "valid", parseDate, &s.First)
	with(d, items[1], "valid", parseDate, &s.Last)
	if s.First.IsZero() || s.Last.IsZero() {
		return nil
	}
	if s.Last.Before(s.First) {
		d.fail(n, "", "valid ends before it begins")
	}
	return s
}

func (d *decoder) deny(n *yaml.Node, s *Set, i int) Deny {
	deny := Deny{Effect: Clip}
	effect := func(n *yaml.Node) { with(d, n, "effect", choice(Clip, Cancel), &deny.Effect) }
	if target := d.follow(n); target.Kind == yaml.MappingNode && !slices.ContainsFunc(target.Content, func(k *yaml.Node) bool { return k.Value == "use" }) {
		r := d.rule(n, s, fmt.Sprintf("deny[%d]", i+1), keys{"effect": effect})
		deny.Rule = &r
		return deny
	}
	d.mapping(n, "the deny", keys{
		"use": func(n *yaml.Node) {
			with(d, n, "use", plainText, &deny.Use)
			d.later = append(d.later, func() { d.checkUse(n, deny.Use) })
		},
		"effect": effect,
	}, "use")
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
	d.mapping(n, "carry_over", keys{
		"max":      func(n *yaml.Node) { with(d, n, "max", count, &c.Max) },
		"deadline": func(n *yaml.Node) { with(d, n, "deadline", instant(&s.Timezone, true), &c.Deadline) },
	})
	return c
}

func count(text string) (int, error) { return number(text, 1, 10_000) }

func sortedNames[T any](m map[string]*T) []string { return slices.Sorted(maps.Keys(m)) }
