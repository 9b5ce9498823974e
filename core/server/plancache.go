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
	known map[planKey]*knownPlan
}

type planKey struct {
	run     string
	content int64
}

// knownPlan is a plan, or why there is none, now and later. Its lock belongs to the reader.
type knownPlan struct {
	mu    sync.Mutex
	known bool
	plan
	err error
}

// of is a run's plan, read once where it is not known. Others wait for it. An error is kept if the
// record of the run is wrong, and not if a later try may succeed.
func (c *planCache) of(run *ledger.Run, read func() (plan, error)) (plan, error) {
	p := c.get(planKey{run.ID, run.Content()})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.plan, p.err
	}
	got, err := read()
	if err == nil || errors.Is(err, core.ErrInvalid) {
		p.plan, p.err, p.known = got, err, true
	}
	return got, err
}

func (c *planCache) get(key planKey) *knownPlan {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.known[key]
	if p != nil {
		return p
	}
	if c.known == nil {
		c.known = map[planKey]*knownPlan{}
	}
	if len(c.known) >= maxPlans {
		for other := range c.known { // any
			delete(c.known, other)
			break
		}
	}
	p = &knownPlan{}
	c.known[key] = p
	return p
}
