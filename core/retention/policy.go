package retention

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/windows"
)

// Forever is a time or size without end.
const Forever = -1

// Least is the shortest time that anything is kept: an hour's mistake should not empty a ledger.
const Least = 24 * time.Hour

// Rule is how long things of a tenant are kept. Of each, zero is what the policy says for all, and
// there Forever.
type Rule struct {
	Runs    time.Duration // after their end, with all that belongs to them
	Outputs time.Duration // large outputs, after their run's end
	Quota   int64         // bytes of large outputs: over it the oldest runs lose theirs
}

// over takes what a rule does not say from another.
func (r Rule) over(base Rule) Rule {
	if r.Runs == 0 {
		r.Runs = base.Runs
	}
	if r.Outputs == 0 {
		r.Outputs = base.Outputs
	}
	if r.Quota == 0 {
		r.Quota = base.Quota
	}
	return r
}

// Policy is the rules of a service.
type Policy struct {
	All     Rule            // of tenants without one, and of what a tenant's leaves open
	Tenants map[string]Rule // as written
}

// Of is the rule that holds for a tenant.
func (p *Policy) Of(tenant string) Rule { return p.Tenants[tenant].over(p.All) }

// Idle reports that everything is kept for ever.
func (p *Policy) Idle() bool {
	keeps := func(r Rule) bool { return r.Runs <= 0 && r.Outputs <= 0 && r.Quota <= 0 }
	if !keeps(p.All) {
		return false
	}
	for tenant := range p.Tenants {
		if !keeps(p.Of(tenant)) {
			return false
		}
	}
	return true
}

// Names of the tenants with a rule of their own, sorted.
func (p *Policy) Names() []string { return slices.Sorted(maps.Keys(p.Tenants)) }

// ParseTime reads how long something is kept: as 90d, at least a day, or forever.
func ParseTime(text string) (time.Duration, error) {
	if text == "forever" {
		return Forever, nil
	}
	d, err := windows.ParseDuration(text)
	if err != nil || d < Least {
		return 0, fmt.Errorf("%q: expected a day or more, as 1095d, or forever: %w", text, core.ErrInvalid)
	}
	return d, nil
}

// sizes are the units of ParseSize.
var sizes = []struct {
	unit  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}

// ParseSize reads a size, as 50GiB, at least a MiB, or forever, which is without bound.
func ParseSize(text string) (int64, error) {
	if text == "forever" {
		return Forever, nil
	}
	for _, s := range sizes {
		number, ok := strings.CutSuffix(text, s.unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if size := n * float64(s.bytes); err == nil && size >= 1<<20 && size < 1<<60 {
			return int64(size), nil
		}
		break
	}
	return 0, fmt.Errorf("%q: expected a size of 1MiB or more, as 50GiB: %w", text, core.ErrInvalid)
}

const maxPolicy = 1 << 20

// Parse reads a file of rules, with a rule named all for values that its tenants do not set:
//
//	all: {runs: 1095d, outputs: 90d, quota: 50GiB}
//	tenants:
//	  acme: {runs: 3650d, outputs: 30d}
//	  globex: {outputs: forever}
//
// Values that all does not set come from base. Errors name the file, line and column, and wrap
// core.ErrInvalid.
func Parse(file string, data []byte, base Rule) (Policy, error) {
	if len(data) > maxPolicy {
		return Policy{}, fmt.Errorf("%s: it has more than %d bytes: %w", file, maxPolicy, core.ErrInvalid)
	}
	var problems yamlread.Problems
	r, root := problems.Open(file, data)
	p := Policy{Tenants: map[string]Rule{}}
	if root != nil {
		r.Mapping(root, "the file",
			yamlread.Field{Key: "all", Read: func(n *yaml.Node) { p.All = rule(r, n, "all") }},
			yamlread.Field{Key: "tenants", Read: func(n *yaml.Node) {
				for _, t := range r.Pairs(n, "tenants") {
					p.Tenants[t.Name] = rule(r, t.Value, "tenant "+t.Name)
				}
			}})
	}
	p.All = p.All.over(base)
	return p, problems.Err()
}

func rule(r *yamlread.Reader, n *yaml.Node, what string) (out Rule) {
	r.Mapping(n, what,
		yamlread.Value(r, "runs", &out.Runs, ParseTime),
		yamlread.Value(r, "outputs", &out.Outputs, ParseTime),
		yamlread.Value(r, "quota", &out.Quota, ParseSize))
	return out
}
