package controller

import (
	"container/heap"
	"time"
)

// watched is one unfinished run of this server's parts. A run of which nothing happens is this and
// nothing else. Its fields belong to the goroutine of Run, except those that the agenda needs.
type watched struct {
	id            string
	version       int64     // of the run in the ledger, when it was last read
	notified      int       // changes of windows that its jobs were notified of, see Controller.changes
	suspendedSeen int       // suspended jobs, when it was last noticed that their number changed
	asked         time.Time // when it was last asked what they wait for
	stallAt       time.Time // when to ask that; zero: no job waits for people
	looked        int       // how often
	failures      int       // looks in a row that failed
	alone         bool      // it is checked without others, see apart
	more          bool      // the queue had more records of it than it gave
	pace          *pace
	seen          int // the last scan that found it

	// Of the agenda, under Controller.mu.
	suspended int       // jobs, when it was last read
	at        time.Time // when to check it although nothing happens; zero: never
	index     int       // in the heap, -1: not in it
	queued    bool      // to be read now
}

// agenda is which runs to check now, and which ones when.
type agenda struct {
	runs  map[string]*watched
	now   []*watched
	later times
}

func newAgenda() *agenda { return &agenda{runs: map[string]*watched{}} }

// touch makes a run due for a check now.
func (a *agenda) touch(id string) *watched {
	w := a.runs[id]
	if w == nil {
		w = &watched{id: id, version: -1, notified: -1, index: -1}
		a.runs[id] = w
	}
	if !w.queued {
		w.queued = true
		a.now = append(a.now, w)
	}
	return w
}

// plan sets the time of its next check, in place of the one that was planned before. Zero is never.
func (a *agenda) plan(w *watched, at time.Time) {
	w.at = at
	switch {
	case at.IsZero() && w.index >= 0:
		heap.Remove(&a.later, w.index)
	case at.IsZero():
	case w.index >= 0:
		heap.Fix(&a.later, w.index)
	default:
		heap.Push(&a.later, w)
	}
}

// take returns runs to check now, n at most, and takes them off the agenda.
func (a *agenda) take(now time.Time, n int) []*watched {
	for len(a.later) > 0 && !a.later[0].at.After(now) {
		a.touch(heap.Pop(&a.later).(*watched).id)
	}
	n = min(n, len(a.now))
	taken := a.now[:n:n]
	if a.now = a.now[n:]; len(a.now) == 0 {
		a.now = nil
	}
	for _, w := range taken {
		w.queued = false
	}
	return taken
}

// next is when there is something to check; zero: nothing is planned.
func (a *agenda) next() time.Time {
	if len(a.later) == 0 {
		return time.Time{}
	}
	return a.later[0].at
}

// drop forgets a run.
func (a *agenda) drop(w *watched) {
	if w.queued { // something happened meanwhile
		return
	}
	a.plan(w, time.Time{})
	delete(a.runs, w.id)
}

// times is a heap of runs by their next check.
type times []*watched

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i]; t[i].index, t[j].index = i, j }

// Push adds a run, for container/heap.
func (t *times) Push(x any) {
	w := x.(*watched)
	w.index = len(*t)
	*t = append(*t, w)
}

// Pop takes off the last one, for container/heap.
func (t *times) Pop() any {
	last := len(*t) - 1
	w := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	w.index = -1
	return w
}
