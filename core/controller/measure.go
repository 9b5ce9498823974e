package controller

import (
	"sort"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// Measure gets what is worth counting. Its functions may be nil; Accepted by many goroutines, and
// they must not block.
type Measure struct {
	Accepted func(tenant string, jobs int)
	Recorded func(Recorded)
}

// Recorded reports outcomes that this server has made durable.
type Recorded struct {
	Run      string
	Tenant   string
	Outcomes []ledger.Outcome
	Results  []core.Result // of the jobs that have one: not of those cancelled in bulk
	// Delays are how long after they were due jobs started, of runs that this server has followed
	// from their beginning.
	Delays []time.Duration
}

// pace is when the jobs of a run could start at the earliest, as this server saw it. Nil is not
// known: of a run that it has not followed from the beginning.
type pace struct {
	from     time.Time
	paused   time.Time         // when it was last seen so
	released map[int]time.Time // by wave; nil of one wave
}

// pace notes what a look shows of when jobs may start.
func (c *Controller) pace(l *poll) {
	w, of := l.w, l.held.launch
	if c.cfg.Measure.Recorded == nil {
		return
	}
	if w.pace == nil && w.looked == 0 && l.run.Recorded == 0 && of.Snapshot.Turns == nil {
		w.pace = &pace{from: of.Snapshot.Launched}
		if l.run.Approvals > 0 { // somebody let it continue a moment ago
			w.pace.from = time.Now()
		}
		if len(of.Limits) > 1 {
			w.pace.released = map[int]time.Time{0: {}}
		}
	}
	w.looked++
	if w.pace != nil && l.sight.Status.Phase == queue.Paused {
		w.pace.paused = time.Now()
	}
}

// release notes that a wave was released.
func (p *pace) release(wave int) {
	if p != nil && p.released != nil {
		p.released[wave] = time.Now()
	}
}

// delay is how long after it was due a job started; false where that is not known.
func (p *pace) delay(l *launch.Launch, ends []int, index int, started time.Time) (time.Duration, bool) {
	if p == nil || started.IsZero() {
		return 0, false
	}
	var released time.Time
	if p.released != nil {
		var ok bool
		if released, ok = p.released[sort.SearchInts(l.Limits, index+1)]; !ok {
			return 0, false
		}
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

// measured reports outcomes that were recorded just now.
func (c *Controller) measured(l *poll) {
	if c.cfg.Measure.Recorded == nil {
		return
	}
	of := l.held.launch
	r := Recorded{Run: l.run.ID, Tenant: of.Run.Tenant, Outcomes: l.outcomes, Results: l.results}
	if l.w.pace != nil {
		ends := segmentEnds(of.Run.Segments)
		for i := range l.results {
			if d, ok := l.w.pace.delay(of, ends, l.results[i].Job.Index, l.results[i].Started); ok {
				r.Delays = append(r.Delays, d)
			}
		}
	}
	c.cfg.Measure.Recorded(r)
}

// Lag returns how long the oldest news of the queue have waited to be recorded; 0 if none wait.
// News that bring no outcome count until the run was checked, because while the ledger is away
// nobody can read whether they bring one.
func (c *Controller) Lag() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var oldest time.Duration
	for _, since := range c.waiting {
		oldest = max(oldest, time.Since(since))
	}
	return oldest
}

// unrecorded notes that runs have news that are not recorded, or that they have none.
func (c *Controller) unrecorded(on bool, runs ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, run := range runs {
		if _, ok := c.waiting[run]; on && !ok {
			c.waiting[run] = time.Now()
		}
		if !on {
			delete(c.waiting, run)
		}
	}
}
