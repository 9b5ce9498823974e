package server

import (
	"errors"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// plan is the part of a launch that views of a run need.
type plan struct {
	kind       string         // as api.Run has it
	command    launch.Command // of a run of one
	reason     string         // of a person
	become     *core.BecomeRule
	disruptive bool
	options    api.RunOptions
	foreign    bool  // the limit may name hosts and groups of other tenants
	limits     []int // hosts that are released with each wave
	waves      int   // with those behind barriers
	shares     shares
	// The failure thresholds; 0 is none.
	stopAfter, stopUnreachable int
}

// maxPlans bounds the cache. A plan has a few numbers, options of at most 16 KiB, or a command line
// of at most 32 KiB.
const maxPlans = 1024

// planCache keeps the plans of runs: they change only with the content of a run. The zero value is
// ready.
type planCache struct {
	mu    sync.Mutex
	known map[planKey]knownPlan
}

type planKey struct {
	run     string
	content int64
}

// knownPlan is a plan, or why there is none, now and later.
type knownPlan struct {
	plan
	err error
}

// of is a run's plan, read where it is not known. An error is kept if the record of the run is
// wrong, and not if a later try may succeed.
func (c *planCache) of(run *ledger.Run, read func() (plan, error)) (plan, error) {
	key := planKey{run.ID, run.Content()}
	c.mu.Lock()
	p, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return p.plan, p.err
	}
	if p.plan, p.err = read(); p.err != nil && !errors.Is(p.err, core.ErrInvalid) {
		return plan{}, p.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxPlans {
		c.known = map[planKey]knownPlan{}
	}
	c.known[key] = p
	return p.plan, p.err
}
