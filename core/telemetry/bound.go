package telemetry

import "sync"

// Other stands for all values of a label that came after there were as many as it may have.
const Other = "other"

// How many values a label may have.
const (
	DefaultTenants = 200
	maxWorkers     = 500
	maxValues      = 200 // of any other
)

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
