package controller

import (
	"bytes"
	"context"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

// maxFactsKept bounds the JSON of which a FactsCache keeps what it decoded: of some 40,000 hosts.
const maxFactsKept = 16 << 20

// FactsCache keeps decoded facts from one launch to the next: most are the same, and decoding them
// takes longer than reading them. The zero value is ready, and nil keeps nothing. Safe for
// concurrent use.
type FactsCache struct {
	mu   sync.Mutex
	kept map[factsKey]keptFacts
	size int // bytes of JSON
}

type factsKey struct{ tenant, host string }

type keptFacts struct {
	json   []byte
	values map[string]any // which all launches share, and none changes
}

// values returns those of a host, decoded before if their JSON is the same.
func (c *FactsCache) values(h *ledger.HostFacts) (map[string]any, error) {
	key := factsKey{h.Tenant, h.Host}
	had := c.kept[key]
	if had.values != nil && bytes.Equal(had.json, h.JSON) {
		return had.values, nil
	}
	facts, err := h.Decode()
	if err != nil {
		return nil, err
	}
	values := launch.Exact(facts.Values)
	if c.size += len(h.JSON) - len(had.json); c.size > maxFactsKept { // also of hosts that are gone
		c.kept, c.size = nil, len(h.JSON)
	}
	if c.kept == nil {
		c.kept = map[factsKey]keptFacts{}
	}
	c.kept[key] = keptFacts{h.JSON, values}
	return values, nil
}

// FactsOnRecord returns what the ledger has of the hosts in scope, for launches of a playbook; nil
// where its targets and hosts() read no facts. Nobody may change the values. The cache is nil where
// there is one launch.
func FactsOnRecord(ctx context.Context, l *ledger.Ledger, s ledger.Scope, p *playbooks.Playbook, cache *FactsCache) (func(core.Host) (core.Facts, bool), error) {
	if p.FactsAge == 0 {
		return nil, nil //nolint:nilnil // as launch.Options has it
	}
	all, err := l.AllFacts(ctx, s)
	if err != nil {
		return nil, err
	}
	if cache == nil {
		cache = &FactsCache{}
	}
	cache.mu.Lock()
	defer cache.mu.Unlock()
	of := make(map[factsKey]core.Facts, len(all))
	for i := range all {
		f := core.Facts{At: all[i].At, Boot: all[i].Boot}
		if f.Values, err = cache.values(&all[i]); err != nil {
			return nil, err
		}
		of[factsKey{all[i].Tenant, all[i].Host}] = f
	}
	return func(h core.Host) (core.Facts, bool) {
		f, ok := of[factsKey{h.Customer, h.Name}]
		return f, ok
	}, nil
}
