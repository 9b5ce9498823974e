package pictures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Host is a square of the map: a host and the last thing that ran on it.
type Host struct {
	Name, Customer, Group string
	Outcome               core.Outcome // "" where nothing has run
	Ended                 time.Time
	Playbook              string
	Run                   string // that had the outcome; "" where nothing has run
	Index                 int    // of the host's job in it
	Link                  string // where a click leads; "" is nowhere
}

// Common properties by which hosts are grouped.
const (
	ByGroup   = "group"
	BySite    = "site"
	ByHAGroup = "ha_group"
)

// Hosts makes the squares of hosts. By group a host is in the most specific of its groups, which an
// inventory has last.
func Hosts(fleet []api.FleetHost, by string) []Host {
	hosts := make([]Host, len(fleet))
	for i := range fleet {
		f := &fleet[i]
		h := Host{Name: f.Name, Customer: f.Customer, Outcome: f.Outcome, Ended: f.Ended, Playbook: f.Playbook, Run: f.Run, Index: f.Index}
		switch {
		case by == BySite:
			h.Group = f.Site
		case by == ByHAGroup:
			h.Group = f.HAGroup
		case len(f.Groups) > 0:
			h.Group = f.Groups[len(f.Groups)-1]
		}
		hosts[i] = h
	}
	return hosts
}

// Group is the hosts of one customer that stand together on the map.
type Group struct {
	Customer, Name string
	Hosts          []Host // by name
	Link           string
}

// Customer is a part of the map.
type Customer struct {
	Name   string
	Groups []Group // by name
	Hosts  int
}

// MaxSquares is how many hosts have a square each. Of a larger fleet each group has one.
const MaxSquares = 5000

// Fleet sorts hosts by customer, group and name. A host is always at the same place, with any
// outcome.
func Fleet(hosts []Host) []Customer {
	hosts = slices.Clone(hosts)
	slices.SortFunc(hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(a.Customer, b.Customer), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name))
	})
	var all []Customer
	for _, h := range hosts {
		if n := len(all); n == 0 || all[n-1].Name != h.Customer {
			all = append(all, Customer{Name: h.Customer})
		}
		c := &all[len(all)-1]
		if n := len(c.Groups); n == 0 || c.Groups[n-1].Name != h.Group {
			c.Groups = append(c.Groups, Group{Customer: h.Customer, Name: h.Group})
		}
		g := &c.Groups[len(c.Groups)-1]
		g.Hosts = append(g.Hosts, h)
		c.Hosts++
	}
	return all
}

// worstFirst is the order in which outcomes need attention. "" is a host on which nothing has run.
var worstFirst = []core.Outcome{core.Lost, core.Failed, core.Unreachable, core.RolledBack, core.Cancelled, core.Changed, core.Unchanged, core.Skipped, ""}

// Rank is the place of an outcome among all, the worst first.
func Rank(o core.Outcome) int { return slices.Index(worstFirst, o) }

// Bad reports whether somebody should check a host with this outcome.
func Bad(o core.Outcome) bool { return Rank(o) <= Rank(core.RolledBack) }

// Count is how many hosts have an outcome.
type Count struct {
	Outcome core.Outcome
	Hosts   int
}

// Counts counts the outcomes of hosts, the worst first.
func Counts(hosts []Host) []Count {
	n := map[core.Outcome]int{}
	for _, h := range hosts {
		n[h.Outcome]++
	}
	var counts []Count
	for _, o := range worstFirst {
		if n[o] > 0 {
			counts = append(counts, Count{o, n[o]})
		}
	}
	return counts
}

// Word is an outcome in words.
func (c Count) Word() string { return word(c.Outcome) }

// Class is the class of squares with this outcome in style sheets.
func (c Count) Class() string { return classOf(c.Outcome) }

func word(o core.Outcome) string {
	if o == "" {
		return "nothing has run"
	}
	return strings.ReplaceAll(string(o), "_", " ")
}

// Letter returns the character of an outcome, and of none yet, for pictures without colours.
func Letter(kind string) string {
	switch o := core.Outcome(kind); {
	case kind == "":
		return "·"
	case o.Valid():
		return string(o.Letter())
	}
	return strings.ToUpper(kind[:1])
}

// Fade is how strong the colour of an outcome of this age is: it means less the older it is.
func Fade(age time.Duration) float64 {
	const day = 24 * time.Hour
	switch {
	case age <= day:
		return 1
	case age <= 7*day:
		return 0.75
	case age <= 30*day:
		return 0.5
	}
	return 0.3
}

// told describes a square.
func (h *Host) told() string {
	if h.Outcome == "" {
		return h.Name + ": " + word("")
	}
	text := h.Name + ": " + word(h.Outcome)
	if h.Playbook != "" {
		text += " by " + h.Playbook
	}
	return text + ", " + utc(h.Ended)
}

func (g *Group) told() string {
	parts := core.Map(Counts(g.Hosts), func(c Count) string { return fmt.Sprintf("%d %s", c.Hosts, c.Word()) })
	return fmt.Sprintf("%s / %s: %s", Named(g.Customer), Named(g.Name), strings.Join(parts, ", "))
}

// Tenant is the name of a tenant. Runs without one are the provider's.
func Tenant(name string) string { return cmp.Or(name, "provider") }

// Named is a name, or a dash where there is none.
func Named(name string) string {
	if name == "" {
		return "–"
	}
	return name
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
