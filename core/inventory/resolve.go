package inventory

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/turnus/turnus/core/yamlread"
)

// glob reports whether a shell pattern (* ? [ab] [!ab]) matches a whole name.
func glob(pattern, name string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return pattern == name
	}
	ok, err := path.Match(strings.ReplaceAll(pattern, "[!", "[^"), name)
	return err == nil && ok
}

// maxHints bounds how many errors get a suggestion that compares all names.
const maxHints = 20

// resolveChildren connects groups that named each other before all were known.
func (b *builder) resolveChildren() {
	for _, g := range b.order {
		for _, ref := range g.childRef {
			c := b.groups[ref.text]
			if c == nil && b.known.groups[ref.text] {
				continue
			}
			if c == nil {
				err := b.problem(ref.at, "group %q has the child %q, which is not defined", g.name, ref.text)
				if len(b.errs) <= maxHints {
					err.Hint = yamlread.DidYouMean(ref.text, slices.Sorted(maps.Keys(b.groups)))
				}
				continue
			}
			g.addChild(c)
		}
	}
}

// resolveMembers puts hosts into groups that select them by name or pattern.
func (b *builder) resolveMembers() {
	for _, g := range b.order {
		for _, sel := range g.match {
			if b.resolveMember(g, sel) == 0 {
				b.warn(sel.at, "group %q: %q matches no host", g.name, sel.text)
			}
		}
	}
}

func (b *builder) resolveMember(g *group, sel selector) int {
	if hasRange(sel.text) {
		names, err := b.expand(sel.text, sel.at)
		if err != nil {
			b.fail(sel.at, "%v", err)
			return 1
		}
		for _, n := range names {
			b.addByName(g, n, sel)
		}
		return 1
	}
	if !strings.ContainsAny(sel.text, "*?[") {
		b.addByName(g, sel.text, sel)
		return 1
	}
	if b.compared += len(b.list); b.compared > maxCompared {
		b.stop(sel.at, "too many patterns for %d hosts", len(b.list))
		return 1
	}
	n := 0
	for _, e := range b.list {
		if glob(sel.text, e.name) {
			b.join(g, e)
			n++
		}
	}
	if n > 0 {
		return n
	}
	b.compared += len(b.known.hosts)
	for name := range b.known.hosts {
		if glob(sel.text, name) {
			return 1
		}
	}
	return 0
}

func (b *builder) addByName(g *group, name string, sel selector) {
	if e := b.hosts[name]; e != nil {
		b.join(g, e)
		return
	}
	if b.known.hosts[name] {
		return
	}
	err := b.problem(sel.at, "group %q lists the host %q, which is not defined", g.name, name)
	if len(b.errs) <= maxHints {
		err.Hint = yamlread.DidYouMean(name, slices.Sorted(maps.Keys(b.hosts)))
	}
}

const (
	stateNew = iota
	stateOpen
	stateDone
)

// orderGroups refuses cycles, then computes each group's depth, the longest way
// from the outside, and everything above it.
func (b *builder) orderGroups() bool {
	var sorted []*group // children before their parents
	for _, g := range b.order {
		if cycle := g.walk(&sorted, nil); cycle != nil {
			b.fail(g.at, "groups contain each other: %s", strings.Join(cycle, " > "))
			return false
		}
	}
	for _, g := range b.order {
		g.depth = 1
		if g.name == "all" {
			g.depth = 0
		}
	}
	left := maxGroupWork
	for _, g := range slices.Backward(sorted) { // parents before their children
		if left -= g.collect(); left < 0 || g.depth > maxGroupDepth {
			b.fail(g.at, "group %q: groups are nested too deeply or too densely", g.name)
			return false
		}
		for _, c := range g.children {
			c.depth = max(c.depth, g.depth+1)
			c.parents = append(c.parents, g)
		}
	}
	return true
}

// Bounds of the group graph; an inventory made by people is far below.
const (
	maxGroupDepth = 64
	maxGroupWork  = 1_000_000
)

// collect fills up from the parents, and returns how much work that was.
func (g *group) collect() int {
	if g.name == "all" {
		return 0
	}
	work := 1
	g.up = []*group{g}
	seen := map[*group]bool{g: true}
	for _, p := range g.parents {
		work += len(p.up)
		for _, u := range p.up {
			if !seen[u] {
				seen[u] = true
				g.up = append(g.up, u)
			}
		}
	}
	return work
}

// walk visits a group and what is below it. It returns the names along a cycle.
func (g *group) walk(sorted *[]*group, way []string) []string {
	way = append(way, g.name)
	switch g.state {
	case stateDone:
		return nil
	case stateOpen:
		return way[slices.Index(way, g.name):]
	}
	g.state = stateOpen
	for _, c := range g.children {
		if cycle := c.walk(sorted, way); cycle != nil {
			return cycle
		}
	}
	g.state = stateDone
	*sorted = append(*sorted, g)
	return nil
}
