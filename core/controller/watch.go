package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// Runs of which something happens are followed closely: each by a goroutine, with its hosts in memory. Thousands of runs that wait
// days for their windows must not cost that: such a run is a few hundred bytes here, and its status is asked for now and then.
const (
	maxFollowed = 256              // runs followed closely at once
	quietAfter  = 5 * time.Second  // a run is left to rest after nothing has happened for so long
	restFirst   = time.Second      // until a resting run is looked at again; growing by half each time
	restMost    = 15 * time.Second // the longest
	restAsking  = 5 * time.Second  // the longest of one that waits for a person
	lookers     = 8                // resting runs looked at at once
)

// watched is one unfinished run of this server. Its fields are under Controller.mu.
type watched struct {
	id          string
	incarnation string       // of the queue
	phase       ledger.Phase // as the ledger was last seen
	follow      *follower    // nil while it rests, or waits for a place
	rest        launch.Rest
	status      *queue.Status // when it was left to rest; nil: it is to be followed
	at          time.Time     // when to look
	wait        time.Duration // the last rest
	woken       int           // windows that its jobs were told of, see Controller.wakes
	due         []time.Time   // when some of its hosts may start; sorted
	pace        pace
	parked      int       // suspended jobs, when it was last asked what they wait for
	asked       time.Time // when that was
}

// shareOut follows what is this server's by now, and leaves what is not.
func (c *Controller) shareOut(mine map[string]ledger.Run, incarnation string) {
	c.leave(func(f *follower) bool { _, ok := mine[f.id]; return !ok || f.incarnation != incarnation })
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.watched, func(id string, w *watched) bool {
		_, ok := mine[id]
		return w.follow == nil && (!ok || w.incarnation != incarnation)
	})
	for id, run := range mine {
		w := c.watched[id]
		if w == nil {
			w = &watched{id: id, incarnation: incarnation, woken: -1, rest: launch.Rest{Asked: -1, Paused: -1}}
			c.watched[id] = w
		}
		if w.phase != run.Phase {
			w.phase, w.status = run.Phase, nil
		}
	}
}

// Load is how much a controller has to do.
type Load struct {
	Watched  int   // unfinished runs that are this server's
	Followed int   // of them, followed closely
	Looks    int64 // at resting runs, since the start
}

// Load tells.
func (c *Controller) Load() Load {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Load{Watched: len(c.watched), Followed: len(c.followers), Looks: c.looks}
}

// attend starts followers for runs that need one, in no order, and looks at those that rest and are due, the longest due first.
func (c *Controller) attend(ctx context.Context) {
	now := time.Now()
	var due []*watched
	c.mu.Lock()
	for _, w := range c.watched {
		switch {
		case w.follow != nil:
		case w.status == nil && len(c.followers) < maxFollowed:
			c.followLocked(w)
		case w.status != nil && (!now.Before(w.at) || w.woken != c.wakes && w.status.Suspended > 0):
			due = append(due, w)
		}
	}
	c.looks += int64(len(due))
	c.mu.Unlock()
	slices.SortFunc(due, func(a, b *watched) int { return a.at.Compare(b.at) })
	var wg sync.WaitGroup
	next := make(chan *watched)
	for range min(lookers, len(due)) {
		wg.Go(func() {
			for w := range next {
				c.look(ctx, w)
			}
		})
	}
	for _, w := range due {
		if ctx.Err() != nil {
			break
		}
		next <- w
	}
	close(next)
	wg.Wait()
}

// look asks how a resting run is, and has it followed if anything has changed.
func (c *Controller) look(ctx context.Context, w *watched) {
	status, err := c.cfg.Queue.Status(ctx, w.id)
	if errors.Is(err, core.ErrNotFound) {
		c.forgotten(ctx, w.id, w.incarnation)
		return
	}
	if err != nil {
		return // tick tells that the queue is away
	}
	decided := w.rest.Asked >= 0 && c.decided(ctx, w.id, w.rest.Asked) != undecided
	c.wakeJobs(ctx, w, status)
	c.stalls(ctx, w, status)
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.status == nil || w.follow != nil {
		return
	}
	if decided || !same(*w.status, status) || !w.rest.Until.IsZero() && !time.Now().Before(w.rest.Until) {
		w.status, w.wait = nil, 0
		c.Poke()
		return
	}
	w.again(time.Now())
}

// again says when to look next.
func (w *watched) again(now time.Time) {
	most := restMost
	if w.rest.Asked >= 0 {
		most = restAsking
	}
	w.wait = min(max(restFirst, w.wait+w.wait/2), most)
	w.at = now.Add(w.wait)
	for len(w.due) > 0 && !w.due[0].After(now) {
		w.due = w.due[1:]
	}
	if len(w.due) > 0 && w.due[0].Add(restFirst).Before(w.at) {
		w.at = w.due[0].Add(restFirst)
	}
	if until := w.rest.Until; !until.IsZero() && until.Before(w.at) {
		w.at = until
	}
}

// same tells whether nothing has happened between two looks.
func same(a, b queue.Status) bool {
	return a.Phase == b.Phase && a.Complete == b.Complete && a.Limit == b.Limit && a.Pending == b.Pending && a.Blocked == b.Blocked && a.InFlight == b.InFlight &&
		a.Waiting == b.Waiting && a.Suspended == b.Suspended && a.Deferred == b.Deferred && a.Dead == b.Dead && maps.Equal(a.Outcomes, b.Outcomes)
}

// How often it is asked what the suspended jobs of a run wait for: soon after their number has changed, and while they wait.
const (
	stallsSoon  = 5 * time.Second
	stallsAgain = 2 * time.Minute
)

// stalls tells of jobs that wait for people: that are suspended until an event that people send.
func (c *Controller) stalls(ctx context.Context, w *watched, s queue.Status) {
	now := time.Now()
	c.mu.Lock()
	since := now.Sub(w.asked)
	ask := s.Suspended > 0 && (s.Suspended != w.parked && since > stallsSoon || since > stallsAgain)
	if ask {
		w.parked, w.asked = s.Suspended, now
	}
	c.mu.Unlock()
	if !ask {
		return
	}
	jobs, _, err := c.cfg.Queue.Awaited(ctx, w.id)
	if err != nil {
		return // again at the next look
	}
	for event, n := range jobs {
		if n > 0 && event != "" && queue.ForPeople(event) {
			c.say(Event{Kind: StepStalled, Run: w.id, Count: n, Reason: event})
		}
	}
}

// wakeJobs tells the jobs of a run that windows have changed, once for each change.
func (c *Controller) wakeJobs(ctx context.Context, w *watched, s queue.Status) {
	c.mu.Lock()
	wakes, known := c.wakes, w.woken
	c.mu.Unlock()
	if wakes == known {
		return
	}
	if s.Suspended > 0 {
		if _, err := c.cfg.Queue.Wake(ctx, w.id, queue.EventWindow); err != nil && !errors.Is(err, core.ErrNotFound) {
			return // again at the next look
		}
	}
	c.mu.Lock()
	w.woken = wakes
	c.mu.Unlock()
}

// idle is asked by a follower for which nothing has happened for a while: whether to leave the run to rest.
func (c *Controller) idle(id string, l *launch.Launch, quiet time.Duration, s queue.Status, rest launch.Rest) bool {
	if quiet < quietAfter || s.InFlight > 0 || s.Complete {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watched[id]
	if w == nil {
		return true
	}
	if w.phase == ledger.PhaseActive && s.Phase == queue.Paused { // it is to be let go on
		return false
	}
	w.rest, w.status, w.wait = rest, &s, 0
	if w.due == nil {
		for _, seg := range l.Run.Segments {
			if !seg.Due.IsZero() {
				w.due = append(w.due, seg.Due)
			}
		}
		slices.SortFunc(w.due, time.Time.Compare)
		w.due = slices.CompactFunc(w.due, time.Time.Equal)
	}
	w.again(time.Now())
	return true
}

// attention has a run looked at now: somebody decided on it, paused it, or let it go on.
func (c *Controller) attention(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watched[id]
	if w == nil {
		return
	}
	if w.follow == nil {
		w.status = nil
		c.Poke()
		return
	}
	select {
	case w.follow.poke <- struct{}{}:
	default:
	}
}

// forgotten gives free a run that the queue does not have, though the ledger says so.
func (c *Controller) forgotten(ctx context.Context, id, incarnation string) {
	if err := c.cfg.Ledger.Unqueue(ctx, id, incarnation); err != nil {
		c.cfg.Log.Warn("a run that the queue has lost was not given free", "run", id, "error", err)
		return
	}
	c.mu.Lock()
	if w := c.watched[id]; w != nil && w.follow == nil {
		delete(c.watched, id)
	}
	c.mu.Unlock()
	c.Poke()
}
