package server

import (
	"sync"

	"github.com/turnus/turnus/core/launch"
)

// plan is the part of a launch that views of a run under way need.
type plan struct {
	limits []int // hosts that are released with each wave
	waves  int   // with those behind barriers
	shares shares
	// The failure thresholds; 0 is none.
	stopAfter, stopUnreachable int
}

// purpose is the part of a launch that a person wrote for other people.
type purpose struct {
	command launch.Command // of a run of one
	reason  string
}

// maxPlans bounds a cache. A plan has a few numbers, and a command line at most 32 KiB.
const maxPlans = 1024

// launchCache keeps parts of the launches of runs that a queue has had: those never change. The
// zero value is ready.
type launchCache[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

// of is the part of a run's launch, read where it is not known.
func (c *launchCache[T]) of(run string, read func() (T, error)) (p T, err error) {
	p, ok := c.get(run)
	if ok {
		return p, nil
	}
	if p, err = read(); err == nil {
		c.put(run, p)
	}
	return p, err
}

func (c *launchCache[T]) get(run string) (p T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok = c.known[run]
	return p, ok
}

func (c *launchCache[T]) put(run string, p T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxPlans {
		c.known = map[string]T{}
	}
	c.known[run] = p
}
