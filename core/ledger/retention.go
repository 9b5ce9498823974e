package ledger

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

// LeastRetention is the shortest time that anything is kept: an hour's mistake should not empty a
// ledger.
const LeastRetention = 24 * time.Hour

// RetentionRule is how long things of a tenant are kept. Of each, zero is the time that the policy
// has for all, and there Forever.
type RetentionRule struct {
	Runs    time.Duration // after their end, with all that belongs to them
	Outputs time.Duration // large outputs, after their run's end
	Quota   int64         // bytes of large outputs: over it the oldest runs lose theirs
}

// over takes the values that a rule does not set from another.
func (r RetentionRule) over(base RetentionRule) RetentionRule {
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

// RetentionPolicy is the rules of a service.
type RetentionPolicy struct {
	All     RetentionRule            // of tenants without one, and of what a tenant's leaves open
	Tenants map[string]RetentionRule // as written
}

// Of is the rule that holds for a tenant.
func (p *RetentionPolicy) Of(tenant string) RetentionRule { return p.Tenants[tenant].over(p.All) }

// Idle reports that everything is kept for ever.
func (p *RetentionPolicy) Idle() bool {
	keeps := func(r RetentionRule) bool { return r.Runs <= 0 && r.Outputs <= 0 && r.Quota <= 0 }
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
func (p *RetentionPolicy) Names() []string { return slices.Sorted(maps.Keys(p.Tenants)) }

// ParseRetentionTime reads how long something is kept: as 90d, at least a day, or forever.
func ParseRetentionTime(text string) (time.Duration, error) {
	if text == "forever" {
		return Forever, nil
	}
	d, err := windows.ParseDuration(text)
	if err != nil || d < LeastRetention {
		return 0, fmt.Errorf("%q: expected a day or more, as 1095d, or forever: %w", text, core.ErrInvalid)
	}
	return d, nil
}

// retentionSizes are the units of ParseRetentionSize.
var retentionSizes = []struct {
	unit  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}

// ParseRetentionSize reads a size, as 50GiB, at least a MiB, or forever, which is without bound.
func ParseRetentionSize(text string) (int64, error) {
	if text == "forever" {
		return Forever, nil
	}
	for _, s := range retentionSizes {
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

const maxRetention = 1 << 20

// ParseRetention reads a file of rules, with a rule named all for values that its tenants do not
// set:
//
//	all: {runs: 1095d, outputs: 90d, quota: 50GiB}
//	tenants:
//	  acme: {runs: 3650d, outputs: 30d}
//	  globex: {outputs: forever}
//
// Values that all does not set come from base. Errors name the file, line and column, and wrap
// core.ErrInvalid.
func ParseRetention(file string, data []byte, base RetentionRule) (RetentionPolicy, error) {
	if len(data) > maxRetention {
		return RetentionPolicy{}, fmt.Errorf("%s: it has more than %d bytes: %w", file, maxRetention, core.ErrInvalid)
	}
	var problems yamlread.Problems
	r, root := problems.Open(file, data)
	p := RetentionPolicy{Tenants: map[string]RetentionRule{}}
	if root != nil {
		r.Mapping(root, "the file",
			yamlread.Field{Key: "all", Read: func(n *yaml.Node) { p.All = retentionRule(r, n, "all") }},
			yamlread.Field{Key: "tenants", Read: func(n *yaml.Node) {
				for _, t := range r.Pairs(n, "tenants") {
					p.Tenants[t.Name] = retentionRule(r, t.Value, "tenant "+t.Name)
				}
			}})
	}
	p.All = p.All.over(base)
	return p, problems.Err()
}

func retentionRule(r *yamlread.Reader, n *yaml.Node, what string) (out RetentionRule) {
	r.Mapping(n, what,
		yamlread.Value(r, "runs", &out.Runs, ParseRetentionTime),
		yamlread.Value(r, "outputs", &out.Outputs, ParseRetentionTime),
		yamlread.Value(r, "quota", &out.Quota, ParseRetentionSize))
	return out
}
