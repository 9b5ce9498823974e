package server

import (
	"sync"

	"github.com/turnus/turnus/core/launch"
)

// plan is the part of a launch that views of a run under way need.
type plan struct {
	command launch.Command // of a run of one
	limits  []int          // hosts that are released with each wave
	waves   int            // with those behind barriers
	shares  shares
	// The failure thresholds; 0 is none.
	stopAfter, stopUnreachable int
}

// maxPlans bounds the cache. A plan has a few numbers, or a command line of at most 32 KiB.
const maxPlans = 1024

// planCache keeps the plans of runs that a queue has had: those never change. The zero value is
// ready.
type planCache struct {
	mu    sync.Mutex
	known map[string]plan
}

// of is a run's plan, read where it is not known.
func (c *planCache) of(run string, read func() (plan, error)) (plan, error) {
	c.mu.Lock()
	p, ok := c.known[run]
	c.mu.Unlock()
	if ok {
		return p, nil
	}
	p, err := read()
	if err != nil {
		return plan{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxPlans {
		c.known = map[string]plan{}
	}
	c.known[run] = p
	return p, nil
}
