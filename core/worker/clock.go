package worker

import (
	"sync"
	"time"
)

// Bounds of what is known of the queue's clock.
const (
	clockAge  = 7               // beats: an answer older than so many says nothing any more
	clockStep = time.Second     // wall clock and monotonic clock may part by so much since the answer
	clockKeep = 5 * time.Second // so long an answer that was quicker is believed rather than a newer one
)

// clock is the queue's clock as this node knows it: from when the queue's answers came, on
// the node's monotonic clock. The node's wall clock decides nothing; it may be an hour off. Safe
// for concurrent use.
type clock struct {
	beat time.Duration // how often answers come

	mu     sync.Mutex
	told   time.Time     // local, when the answer had come
	said   time.Time     // what it said
	spread time.Duration // how long it took: the queue's clock is later by so much at most
}

// tell takes in an answer of the queue that was asked for at sent.
func (c *clock) tell(sent, said time.Time) {
	if said.IsZero() {
		return
	}
	now := time.Now()
	spread := now.Sub(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.told); !c.said.IsZero() && age < clockKeep && c.spread < spread && !leaps(c.told, now) {
		early := c.said.Add(age)
		if !early.After(said.Add(spread)) && !early.Add(c.spread).Before(said) { // they agree
			return
		}
	}
	c.told, c.said, c.spread = now, said.Round(0), spread
}

// now is between early and late by the queue's clock. It is not known when the queue has
// not answered for long, or when the machine was asleep since.
func (c *clock) now() (early, late time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	local := time.Now()
	age := local.Sub(c.told)
	if c.said.IsZero() || age > clockAge*c.beat || leaps(c.told, local) {
		return time.Time{}, time.Time{}, false
	}
	early = c.said.Add(age)
	return early, early.Add(c.spread), true
}

// leaps tells whether between two local times the wall clock was set, or the monotonic clock stood still.
func leaps(from, to time.Time) bool {
	return apart(to.Round(0).Sub(from.Round(0)), to.Sub(from))
}

func apart(wall, monotonic time.Duration) bool {
	d := wall - monotonic
	return d > clockStep || d < -clockStep
}
