package worker

import (
	"sync"
	"time"
)

// Bounds of what is known of the queue's clock.
const (
	clockAge  = 7               // beats: an older answer does not count any more
	clockStep = time.Second     // wall clock and monotonic clock may part by so much since the answer
	clockKeep = 5 * time.Second // so long an answer that was quicker is believed rather than a newer one
)

// clock is the queue's clock as this node knows it: from when the queue's answers came, on
// the node's monotonic clock. The node's wall clock may be an hour off: it decides nothing, except
// that it can confirm a leap of the queue's. Safe for concurrent use.
type clock struct {
	beat time.Duration // how often answers come

	mu        sync.Mutex
	local     time.Time     // when the answer had come, by this node
	suspended time.Duration // how long the machine had been suspended by then
	said      time.Time     // the time in the answer
	spread    time.Duration // how long it took: the queue's clock is later by so much at most
	doubt     time.Duration // since a leap: the time that the clock would have if it had continued, less the time that it has
}

// report takes in an answer of the queue that was asked for at sent. It returns how far the queue's
// clock has leaped since the answer before: what it is off from the time that passed here,
// suspended time included. 0 is that it continued.
func (c *clock) report(sent, said time.Time, suspended time.Duration) (leap time.Duration) {
	if said.IsZero() {
		return 0
	}
	now := time.Now()
	spread := now.Sub(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.said.IsZero() {
		leap = leaped(said.Sub(c.said), sent.Sub(c.local)+suspended-c.suspended, spread+c.spread)
	}
	// Nobody knows whether a leap set the clock right or wrong. Until it leaps back, or agrees with
	// this node's own clock, both readings count.
	switch known := spread + c.spread + time.Millisecond; { // a leap is known to within that: clocks are read one after another
	case leap > 0:
		c.doubt -= leap + known
	case leap < 0:
		c.doubt += known - leap
	}
	if off := now.Round(0).Sub(said); c.doubt.Abs() <= 2*clockStep || -clockStep <= off && off <= spread+clockStep {
		c.doubt = 0
	}
	if age := now.Sub(c.local); !c.said.IsZero() && age < clockKeep && c.spread < spread && !leaps(c.local, now) {
		early := c.said.Add(age)
		if !early.After(said.Add(spread)) && !early.Add(c.spread).Before(said) { // they agree
			return leap
		}
	}
	c.local, c.suspended, c.said, c.spread = now, suspended, said.Round(0), spread
	return leap
}

// leaped returns how far a clock that advanced by went is off from the time that passed, which is
// known to within spread. It is 0 if two good clocks may differ by as much.
func leaped(went, passed, spread time.Duration) time.Duration {
	slack := clockStep + passed/1000
	switch early, late := passed-slack, passed+spread+slack; {
	case went < early:
		return went - passed
	case went > late:
		return went - passed - spread
	}
	return 0
}

// now is between early and late by the queue's clock, and after a leap by the time that this clock
// would have without it. It is not known when the queue has not answered for long, or when the
// machine was suspended since.
func (c *clock) now() (early, late time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	age := now.Sub(c.local)
	if c.said.IsZero() || age > clockAge*c.beat || leaps(c.local, now) {
		return time.Time{}, time.Time{}, false
	}
	early = c.said.Add(age)
	return early.Add(min(c.doubt, 0)), early.Add(c.spread + max(c.doubt, 0)), true
}

// leaps reports whether between two local times the wall clock was set, or the monotonic clock
// stood still.
func leaps(from, to time.Time) bool {
	return apart(to.Round(0).Sub(from.Round(0)), to.Sub(from))
}

func apart(wall, monotonic time.Duration) bool {
	d := wall - monotonic
	return d > clockStep || d < -clockStep
}
