package definitions

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows/civil"
)

func diffPlaybooks(before, after *Set) []Change {
	old, now := byName(before), byName(after)
	var out []Change
	for _, name := range unionKeys(old, now) {
		p, q := old[name], now[name]
		c := Change{Kind: KindPlaybook, Name: name, Action: Changed, Details: []string{}}
		c.HostsCome, c.HostsGo = comeAndGo(before.selected[name], after.selected[name])
		switch {
		case p == nil:
			c.Action = Added
			c.report("%s, %s", core.Plural(len(q.Steps), "step"), core.Plural(len(after.selected[name]), "host"))
		case q == nil:
			c.Action = Removed
			c.report("%s, %s", core.Plural(len(p.Steps), "step"), core.Plural(len(before.selected[name]), "host"))
		case bytes.Equal(p.Whole(), q.Whole()) && p.File == q.File && len(c.HostsCome)+len(c.HostsGo) == 0:
			continue
		default:
			changedPlaybook(&c, p, q)
			reportHosts(&c)
		}
		out = append(out, c)
	}
	return out
}

func reportHosts(c *Change) {
	if n := len(c.HostsCome); n > 0 {
		c.report("%s more: %s", core.Plural(n, "host"), some(c.HostsCome))
	}
	if n := len(c.HostsGo); n > 0 {
		c.report("%s less: %s", core.Plural(n, "host"), some(c.HostsGo))
	}
}

func changedPlaybook(c *Change, p, q *playbooks.Playbook) {
	if p.File != q.File {
		c.report("file: %s -> %s", p.File, q.File)
	}
	if bytes.Equal(p.Whole(), q.Whole()) {
		return
	}
	said := len(c.Details)
	was, is := plainYAML(p.Source), plainYAML(q.Source)
	changedSteps(c, p, q)
	scheduled := !reflect.DeepEqual(was["schedule"], is["schedule"]) // has a change of its own
	for _, key := range []string{"steps", "handlers", "schedule"} {
		delete(was, key)
		delete(is, key)
	}
	reportFields(c, "", was, is, []string{"vars"})
	changedIncluded(c, p.Included, q.Included)
	switch {
	case len(c.Details) > said:
	case scheduled:
		c.report("its schedule")
	default:
		c.report("only comments or layout")
	}
}

// changedIncluded reports changes of an included file beside its steps and handlers, without values
// of params: as with vars, they may be what should not be shown.
func changedIncluded(c *Change, before, after map[string]string) {
	for _, file := range unionKeys(before, after) {
		old, had := before[file]
		now, has := after[file]
		if !had || !has { // the include comes or goes
			continue
		}
		was, is := plainYAML([]byte(old)), plainYAML([]byte(now))
		for _, key := range []string{"steps", "handlers"} {
			delete(was, key)
			delete(is, key)
		}
		reportFields(c, file+": ", was, is, []string{"params", "outputs"})
	}
}

// plainYAML is a playbook, or a file that it includes, as plain values. The source is known to be
// good.
func plainYAML(source []byte) map[string]any {
	out := map[string]any{}
	if n, err := yamlread.Root(source); err == nil && n != nil {
		_ = n.Decode(&out) // it is a mapping: it was loaded
	}
	return out
}

// calls are steps, includes, groups or handlers, in order, as their files have them.
type calls struct {
	names  []string
	fields map[string]map[string]any
}

func (c *calls) add(name string, fields map[string]any) {
	if c.fields == nil {
		c.fields = map[string]map[string]any{}
	}
	c.names, c.fields[name] = append(c.names, name), fields
}

func callsOf(p *playbooks.Playbook) (steps, includes, groups, handlers calls) {
	for i := range p.Steps {
		steps.add(p.Steps[i].Name, p.Steps[i].Fields())
	}
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if !b.Group() {
			includes.add(b.Name, b.Fields())
			continue
		}
		fields := b.Fields()
		for i := b.First; i < b.End; i++ {
			part, names := string(b.Part(i)), ""
			if before, ok := fields[part].(string); ok {
				names = before + ", "
			}
			fields[part] = names + p.Steps[i].Name
		}
		groups.add(b.Name, fields)
	}
	for i := range p.Handlers {
		handlers.add(p.Handlers[i].Name, p.Handlers[i].Fields())
	}
	return steps, includes, groups, handlers
}

func changedSteps(c *Change, p, q *playbooks.Playbook) {
	steps, includes, groups, handlers := callsOf(p)
	nowSteps, nowIncludes, nowGroups, nowHandlers := callsOf(q)
	changedCalls(c, "step", steps, nowSteps)
	changedCalls(c, "include", includes, nowIncludes)
	changedCalls(c, "group", groups, nowGroups)
	changedCalls(c, "handler", handlers, nowHandlers)
	flushes := func(p *playbooks.Playbook) (before []string) {
		for _, s := range p.Steps {
			if s.Flush {
				before = append(before, s.Name)
			}
		}
		return before
	}
	if now := flushes(q); !slices.Equal(flushes(p), now) {
		c.report("handlers are flushed before: %s", cmp.Or(some(now), "no step"))
	}
}

func changedCalls(c *Change, what string, was, is calls) {
	old, before, now, after := was.fields, was.names, is.fields, is.names
	come, gone := comeAndGo(before, after)
	if len(come) > 0 {
		c.report("adds %s %s", what, some(come))
	}
	if len(gone) > 0 {
		c.report("removes %s %s", what, some(gone))
	}
	kept := func(names, without []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(without, n) })
	}
	if order := kept(after, come); !slices.Equal(kept(before, gone), order) {
		c.report("the order of its %ss: %s", what, some(after))
	}
	for _, name := range after {
		a, ok := old[name]
		if b := now[name]; ok && !reflect.DeepEqual(a, b) {
			reportFields(c, what+" "+name+": ", a, b, []string{"with"})
		}
	}
}

func diffSchedules(before, after *Set, from time.Time) []Change {
	index := func(s *Set) map[string]*playbooks.Schedule {
		out := map[string]*playbooks.Schedule{}
		for i := range s.Schedules {
			out[s.Schedules[i].Playbook] = &s.Schedules[i].Schedule
		}
		return out
	}
	old, now := index(before), index(after)
	changes := diffNamed(KindSchedule, old, now,
		func(s *playbooks.Schedule) string { return fmt.Sprintf("%s %s", s.Cron, s.Timezone) },
		func(c *Change, a, b *playbooks.Schedule) {
			reportFields(c, "", scheduleFields(a), scheduleFields(b), []string{"vars"})
		})
	for i := range changes {
		c := &changes[i]
		var was, is string
		c.OldNext, was = nextFireTime(old[c.Name], from)
		c.NewNext, is = nextFireTime(now[c.Name], from)
		switch {
		case c.Action == Added:
			c.report("first fire time %s", is)
		case c.Action == Removed:
			c.report("next fire time was %s", was)
		case was == is:
			c.report("next fire time %s, as before", is)
		default:
			c.report("next fire time %s, not %s", is, was)
		}
	}
	return changes
}

func scheduleFields(s *playbooks.Schedule) map[string]any {
	duration := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "0m")
	}
	return map[string]any{"cron": s.Cron, "timezone": s.Timezone, "catch_up": s.CatchUp, "overlap": s.Overlap,
		"jitter": duration(s.Jitter), "start_within": duration(s.StartWithin), "limit": strings.Join(s.Limit, ","),
		"vars": s.Vars, "tags": strings.Join(s.Tags, ","), "skip_tags": strings.Join(s.SkipTags, ",")}
}

func nextFireTime(s *playbooks.Schedule, from time.Time) (time.Time, string) {
	if s == nil {
		return time.Time{}, "never"
	}
	zone, err := civil.LoadZone(s.Timezone)
	if err != nil {
		return time.Time{}, "never: " + err.Error()
	}
	cron, err := civil.ParseCron(s.Cron)
	if err != nil {
		return time.Time{}, "never: " + err.Error()
	}
	next, ok := cron.Next(from, zone)
	if !ok {
		return time.Time{}, "never"
	}
	return next.UTC(), next.In(zone).Format("Mon 2006-01-02 15:04 MST")
}

// byName are playbooks by their names.
func byName(s *Set) map[string]*playbooks.Playbook {
	out := make(map[string]*playbooks.Playbook, len(s.Playbooks))
	for _, p := range s.Playbooks {
		out[p.Name] = p
	}
	return out
}
