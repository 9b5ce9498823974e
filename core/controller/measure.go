package controller

import (
	"sort"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// Measure gets what is worth counting. Its functions may be nil; they are called by many goroutines and must not block.
type Measure struct {
	Accepted func(tenant string, jobs int)
	Recorded func(Recorded)
}

// Recorded tells of outcomes that this server has made durable.
type Recorded struct {
	Tenant   string
	Outcomes []ledger.Outcome
	Results  []core.Result // of the jobs that have one: not of those cancelled in bulk
	// Delays are how long after they were due jobs started, of runs that this server has followed from their beginning.
	Delays []time.Duration
}

// pace is when the jobs of a run could start at the earliest, as this server saw it.
type pace struct {
	known    bool // the run was followed from its beginning
	from     time.Time
	paused   time.Time         // when it was last seen so
	released map[int]time.Time // by wave
}

// begin notes that a run is followed for the first time.
func (p *pace) begin(run *ledger.Run, l *launch.Launch, now time.Time) {
	if p.known || run.Recorded > 0 || l.Snapshot.Turns != nil {
		return
	}
	p.known, p.from, p.released = true, l.Snapshot.Launched, map[int]time.Time{0: {}}
	if run.Approvals > 0 { // somebody let it go on a moment ago
		p.from = now
	}
}

// delay is how long after it was due a job started; false where that is not known.
func (p *pace) delay(l *launch.Launch, ends []int, index int, started time.Time) (time.Duration, bool) {
	released, ok := p.released[sort.SearchInts(l.Limits, index+1)]
	if !p.known || !ok || started.IsZero() {
		return 0, false
	}
	due := p.from
	for _, t := range []time.Time{released, p.paused} {
		if t.After(due) && t.Before(started) {
			due = t
		}
	}
	if i := sort.SearchInts(ends, index+1); i < len(ends) && l.Run.Segments[i].Due.After(due) {
		due = l.Run.Segments[i].Due
	}
	return max(0, started.Sub(due)), true
}

// segmentEnds are the indexes behind each segment.
func segmentEnds(segments []queue.Segment) []int {
	ends, end := make([]int, len(segments)), 0
	for i, s := range segments {
		end += s.Count
		ends[i] = end
	}
	return ends
}

// measure tells of outcomes that were recorded just now.
func (f *follower) measure(l *launch.Launch, recorded []ledger.Outcome, results []core.Result) {
	if f.c.cfg.Measure.Recorded == nil {
		return
	}
	r := Recorded{Tenant: l.Run.Tenant, Outcomes: recorded, Results: results}
	f.c.mu.Lock()
	for i := range results {
		if d, ok := f.watched.pace.delay(l, f.ends, results[i].Job.Index, results[i].Started); ok {
			r.Delays = append(r.Delays, d)
		}
	}
	f.c.mu.Unlock()
	f.c.cfg.Measure.Recorded(r)
}

// note keeps what an event, or a status, says of when jobs may start.
func (f *follower) note(change func(*pace)) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if f.watched.pace.known {
		change(&f.watched.pace)
	}
}

// Lag is how long the oldest outcome that this server has read from the queue has waited to be recorded; 0 where none waits.
func (c *Controller) Lag() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var oldest time.Duration
	for f := range c.recording {
		oldest = max(oldest, time.Since(f.handed))
	}
	return oldest
}

// handing notes that a follower has outcomes that are not recorded, or none any more.
func (f *follower) handing(on bool) {
	f.c.mu.Lock()
	defer f.c.mu.Unlock()
	if !on {
		delete(f.c.recording, f)
		return
	}
	f.handed = time.Now()
	f.c.recording[f] = struct{}{}
}
