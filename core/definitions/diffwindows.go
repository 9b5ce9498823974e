package definitions

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/windows"
)

// diffWindowSets compares window sets where a server has approvals beside those of the definitions.
func diffWindowSets(before, after *windows.Definitions, given []windows.Given, from time.Time) []Change {
	oldGiven, newGiven := before.Given, after.Given
	before, after = before.WithGiven(given), after.WithGiven(given)
	if reflect.DeepEqual(fieldsOf(before), fieldsOf(after)) {
		return nil
	}
	h := windows.Ahead(from, DiffDays)
	was, is := openings(before, h), openings(after, h)
	var out []Change
	for _, name := range unionKeys(before.Sets, after.Sets) {
		old, now := before.Sets[name], after.Sets[name]
		c := Change{Kind: KindWindowSet, Name: name, Action: Changed, Details: []string{}}
		come, gone := comeAndGo(was[name], is[name])
		c.WindowsCome, c.WindowsGo = len(come), len(gone)
		switch {
		case old == nil:
			c.Action = Added
			c.report("opens %s in the next %d days", times(len(is[name])), DiffDays)
		case now == nil:
			c.Action = Removed
			c.report("would have opened %s in the next %d days", times(len(was[name])), DiffDays)
		default:
			changedSet(&c, approved{old, before.HashOf(old)}, approved{now, after.HashOf(now)})
			changedGiven(&c, oldGiven, newGiven)
			for _, g := range before.Voids(after, name, from) {
				c.Voids = append(c.Voids, clean(wordName(g)))
			}
			slices.Sort(c.Voids)
			c.Voids = slices.Compact(c.Voids)
			if len(c.Details)+len(come)+len(gone)+len(c.Voids) == 0 {
				continue
			}
			reportWindows(&c)
		}
		out = append(out, c)
	}
	return out
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// openings are the approved windows of each set, as comparable texts.
func openings(d *windows.Definitions, h windows.Horizon) map[string][]string {
	names := unionKeys(d.Sets, nil)
	out := map[string][]string{}
	for name, c := range d.CompileAll(h, names...) {
		for _, w := range c.Occurrences(h.From, h.To) {
			if w.Unapproved == "" {
				out[name] = append(out[name], w.Open.UTC().Format(time.RFC3339)+"/"+w.Close.UTC().Format(time.RFC3339))
			}
		}
	}
	return out
}

func reportWindows(c *Change) {
	span := fmt.Sprintf("in the next %d days", DiffDays)
	switch {
	case c.WindowsCome > 0 && c.WindowsGo > 0:
		c.report("adds %d, removes %d occurrences %s", c.WindowsCome, c.WindowsGo, span)
	case c.WindowsCome > 0:
		c.report("adds %s %s", core.Plural(c.WindowsCome, "occurrence"), span)
	case c.WindowsGo > 0:
		c.report("removes %s %s", core.Plural(c.WindowsGo, "occurrence"), span)
	default:
		c.report("opens as before %s", span)
	}
	for _, id := range c.Voids {
		c.report("voids approval %s", id)
	}
}

func changedSet(c *Change, from, to approved) {
	old, now := from.set, to.set
	was, is := fieldsOf(old), fieldsOf(now)
	if reflect.DeepEqual(was, is) {
		if from.hash != to.hash { // a set that it inherits from was edited
			changedApprovals(c, from, to)
		}
		return
	}
	rules := func(s *windows.Set) (ids []string, byID map[string]any) {
		byID = map[string]any{}
		for _, r := range s.Allow {
			r.Approval = nil
			ids = append(ids, r.ID)
			byID[r.ID] = fieldsOf(r)
		}
		return ids, byID
	}
	before, oldRules := rules(old)
	after, newRules := rules(now)
	come, gone := comeAndGo(before, after)
	if len(come) > 0 {
		c.report("adds rule %s", some(come))
	}
	if len(gone) > 0 {
		c.report("removes rule %s", some(gone))
	}
	for _, id := range after {
		a, both := oldRules[id].(map[string]any)
		b, _ := newRules[id].(map[string]any)
		if both && !reflect.DeepEqual(a, b) {
			reportFields(c, "rule "+id+": ", a, b, nil)
		}
	}
	changedApprovals(c, from, to)
	for _, key := range []string{"Allow", "Approval"} {
		delete(was, key)
		delete(is, key)
	}
	reportFields(c, "", was, is, nil)
	if len(c.Details) == 0 && len(c.Voids) == 0 {
		c.report("the order of its rules")
	}
}

// approvals of a set and of its rules, by id and place: several may have one id.
func approvals(s *windows.Set) map[string]*windows.Approval {
	out := map[string]*windows.Approval{}
	put := func(where string, a *windows.Approval) {
		if a != nil {
			out[strings.TrimSpace(a.ID+" of "+where)] = a
		}
	}
	put("the set", s.Approval)
	for i := range s.Allow {
		put("rule "+s.Allow[i].ID, s.Allow[i].Approval)
	}
	return out
}

// shortNames maps the keys of approvals to their names for people: the id, where it is of one
// place.
func shortNames(was, is map[string]*windows.Approval) map[string]string {
	places, names := map[string]int{}, map[string]string{}
	id := func(key string) string {
		if a := is[key]; a != nil {
			return a.ID
		}
		return was[key].ID
	}
	for _, key := range unionKeys(was, is) {
		places[id(key)]++
	}
	for _, key := range unionKeys(was, is) {
		if names[key] = key; id(key) != "" && places[id(key)] == 1 {
			names[key] = id(key)
		}
	}
	return names
}

// approved is a window set, and what an approval of it is bound to.
type approved struct {
	set  *windows.Set
	hash string
}

// changedApprovals reports which approvals come, go and change, and which an edit voids: those that
// are bound to the set as it was before.
func changedApprovals(c *Change, old, now approved) {
	was, is := approvals(old.set), approvals(now.set)
	names := shortNames(was, is)
	for _, key := range unionKeys(was, is) {
		id, a, b := names[key], was[key], is[key]
		switch {
		case a == nil:
			c.report("adds approval %s (%s)", id, state(b))
		case b == nil:
			c.report("removes approval %s (%s)", id, state(a))
		case !reflect.DeepEqual(fieldsOf(a), fieldsOf(b)):
			reportFields(c, "approval "+id+": ", fieldsOf(a), fieldsOf(b), nil)
		}
		held := a != nil && (a.Window == "" || a.Window == old.hash)
		if held && b != nil && b.Window != "" && b.Window != now.hash {
			c.Voids = append(c.Voids, id)
		}
	}
}

// changedGiven reports which approvals under approvals: of a set come, go and change, however far
// ahead their windows are, and for any work.
func changedGiven(c *Change, before, after []*windows.Given) {
	index := func(given []*windows.Given) map[string]*windows.Given {
		out := map[string]*windows.Given{}
		for _, g := range given {
			if g.Set == c.Name {
				out[strings.TrimSpace(g.ID+" "+ruleOf(g))+" by "+g.By+" at "+g.At.UTC().Format(time.RFC3339Nano)] = g
			}
		}
		return out
	}
	was, is := index(before), index(after)
	for _, id := range unionKeys(was, is) {
		a, b := was[id], is[id]
		switch {
		case a == nil:
			c.report("adds approval %s (%s)", id, state(&b.Approval))
		case b == nil:
			c.report("removes approval %s (%s)", id, state(&a.Approval))
		default:
			reportFields(c, "approval "+id+": ", fieldsOf(a), fieldsOf(b), nil)
		}
	}
}

// wordName names an approval apart from its set: people give them without an id as well.
func wordName(g *windows.Given) string {
	return cmp.Or(g.ID, ruleOf(g)) + " by " + g.By
}

func ruleOf(g *windows.Given) string {
	if g.Rule != "" {
		return "of rule " + g.Rule
	}
	return "of the set"
}

func state(a *windows.Approval) string {
	if a.State == "" {
		return string(windows.Approved)
	}
	return string(a.State)
}

func describeFreeze(f *windows.Freeze) string {
	const layout = "2006-01-02 15:04"
	text := fmt.Sprintf("from %s to %s %s", f.From.Format(layout), f.To.Format(layout), f.Timezone)
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return text
}

func describeHolidays(c *windows.Calendar) string {
	text := core.Plural(len(c.Dates), "date")
	if len(c.Include) > 0 {
		text += ", includes " + some(c.Include)
	}
	return text
}

func changedHolidays(c *Change, old, now *windows.Calendar) {
	dates := func(c *windows.Calendar) (out []string) {
		for _, d := range c.Dates {
			out = append(out, d.Format(time.DateOnly))
		}
		return out
	}
	for _, pair := range [][2][]string{{dates(old), dates(now)}, {old.Include, now.Include}} {
		come, gone := comeAndGo(pair[0], pair[1])
		if len(come) > 0 {
			c.report("adds %s", some(come))
		}
		if len(gone) > 0 {
			c.report("removes %s", some(gone))
		}
	}
	if len(c.Details) == 0 {
		c.report("the order of its dates")
	}
}
