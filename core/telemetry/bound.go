package telemetry

import (
	"maps"
	"sync"
)

// Other stands for all values of a label that came after there were as many as it may have.
const Other = "other"

// How many values a label may have.
const (
	DefaultTenants = 200
	maxWorkers     = 500
	maxValues      = 200 // of any other
)

// passing reports whether a label gets new values as long as a service runs. Sources alone report
// such a label, and a value that they no longer report is forgotten.
func passing(label string) bool { return label == "worker" || label == "revision" }

// bounds keeps the values that labels had, the first of each: a metric has no more series than the
// table's labels allow.
type bounds struct {
	tenants int
	off     bool // a negative control's: every value passes

	mu   sync.Mutex
	seen map[string]map[string]bool // by label
}

func newBounds(tenants int) *bounds {
	if tenants <= 0 {
		tenants = DefaultTenants
	}
	return &bounds{tenants: tenants, seen: map[string]map[string]bool{}}
}

// value returns the text that stands for v in a series.
func (b *bounds) value(label, v string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.seen[label]
	if known[v] || b.off {
		return v
	}
	most := maxValues
	switch label {
	case "tenant":
		most = b.tenants
	case "worker":
		most = maxWorkers
	}
	if len(known) >= most {
		return Other
	}
	if known == nil {
		known = map[string]bool{}
		b.seen[label] = known
	}
	known[v] = true
	return v
}

// values bounds those of one series, into a slice of its own.
func (b *bounds) values(m *Metric, given []string) []string {
	out := make([]string, len(given))
	for i, v := range given {
		out[i] = b.value(m.Labels[i], clean(v))
	}
	return out
}

// forget removes the values of passing labels that the sources no longer report. A label that none
// of them reported keeps its values: a source may have failed.
func (b *bounds) forget(reported map[string]map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for label, now := range reported {
		maps.DeleteFunc(b.seen[label], func(v string, _ bool) bool { return !now[v] })
	}
}
