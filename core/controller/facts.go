package controller

import (
	"context"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// maxFactsKept bounds the JSON of which a FactsCache keeps what it decoded: of some 40,000 hosts.
const maxFactsKept = 16 << 20

// FactsCache keeps decoded facts from one launch to the next: most are the same, and reading and
// decoding them takes longer than seeing so. The zero value is ready, and nil keeps nothing. Safe
// for concurrent use.
type FactsCache struct {
	mu   sync.Mutex
	kept map[factsKey]keptFacts
	size int // bytes of JSON
}

type factsKey struct{ tenant, host string }

// keptFacts are those that a run gathered of a host at a time.
type keptFacts struct {
	run    string
	at     time.Time
	size   int            // bytes of JSON
	values map[string]any // which all launches share, and none changes
}

// FactsOnRecord returns what the ledger has of the hosts in scope, for launches of a playbook; nil
// where its targets and hosts() read no facts. Nobody may change the values. The cache is nil where
// there is one launch.
func FactsOnRecord(ctx context.Context, l *ledger.Ledger, s ledger.Scope, p *playbooks.Playbook, cache *FactsCache) (func(core.Host) (core.Facts, bool), error) {
	if p.FactsAge == 0 {
		return nil, nil //nolint:nilnil // as launch.Options has it
	}
	of := map[factsKey]core.Facts{}
	since, others := time.Time{}, true
	if cache != nil {
		listed, err := l.ListFacts(ctx, s)
		if err != nil {
			return nil, err
		}
		since, others = cache.fill(of, listed)
	}
	if others {
		read, err := l.AllFacts(ctx, s, since)
		if err != nil {
			return nil, err
		}
		if err := cache.decode(of, read); err != nil {
			return nil, err
		}
	}
	return func(h core.Host) (core.Facts, bool) {
		f, ok := of[factsKey{h.Customer, h.Name}]
		return f, ok
	}, nil
}

// fill takes facts that are listed from the cache, and returns whether there are others, and since
// when they were gathered.
func (c *FactsCache) fill(of map[factsKey]core.Facts, listed []ledger.HostFacts) (since time.Time, others bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range listed {
		h := &listed[i]
		key := factsKey{h.Tenant, h.Host}
		if had, ok := c.kept[key]; ok && had.run == h.Run && had.at.Equal(h.At) {
			of[key] = core.Facts{Values: had.values, At: h.At, Boot: h.Boot}
		} else if !others || h.At.Before(since) {
			since, others = h.At, true
		}
	}
	return since, others
}

// decode decodes facts that were read, and keeps them.
func (c *FactsCache) decode(of map[factsKey]core.Facts, read []ledger.HostFacts) error {
	for i := range read {
		h := &read[i]
		key := factsKey{h.Tenant, h.Host}
		if had, ok := of[key]; ok && had.At.Equal(h.At) {
			continue
		}
		facts, err := h.Decode()
		if err != nil {
			return err
		}
		facts.Values = snapshot.Exact(facts.Values)
		of[key] = facts
		c.keep(key, keptFacts{h.Run, h.At, len(h.JSON), facts.Values})
	}
	return nil
}

func (c *FactsCache) keep(key factsKey, f keptFacts) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += f.size - c.kept[key].size; c.size > maxFactsKept { // also of hosts that are gone
		c.kept, c.size = nil, f.size
	}
	if c.kept == nil {
		c.kept = map[factsKey]keptFacts{}
	}
	c.kept[key] = f
}
