package memory

import (
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// tenant is the first level of fairness.
type tenant struct {
	name     string
	seq      uint64
	weight   int
	open     int // runs that are not complete
	known    int // runs that are not forgotten
	inFlight int
	tag      int64 // µs of served worker time by weight, raised when idle
	v        int64 // tag of its last dispatched flow
	rank     int64
	flows    heap[*run] // ready ones
	place    int        // in Queue.ready; -1 when no flow is ready
}

func newTenant(name string, seq uint64) *tenant {
	return &tenant{
		name: name, seq: seq, weight: 1, place: -1,
		flows: heap[*run]{less: flowLess, place: func(r *run, i int) { r.place = i }},
	}
}

func tenantLess(a, b *tenant) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return a.seq < b.seq
}

// span is a range of targets that no job state exists for yet.
type span struct {
	lo, hi int
	due    time.Time
}

// run is one flow.
type run struct {
	id          string
	submitted   queue.Run // for the idempotency of Submit, and the slices
	seq         uint64
	tenant      *tenant
	weight      int
	limit       int // always between 1 and the number of targets
	phase       queue.Phase
	reason      core.Reason
	maxInFlight int

	fresh   heap[span] // due, by index
	later   heap[span] // not yet due, by due time
	late    int        // released targets in later
	left    int        // targets in fresh and later
	jobs    map[int]*job
	ready   heap[*job] // due again, by index
	timers  heap[*job] // retries and suspensions with a time
	events  map[string]map[*job]struct{}
	groups  locks
	offered int // jobs in ready that a lock's place is kept for
	count   struct{ blocked, leased, waiting, suspended int }

	started bool  // was ready before
	tag     int64 // µs of served worker time by weight: a time.Duration ends after 292 years of that
	rank    int64
	place   int // in tenant.flows; -1 when not ready

	nextDue    time.Time
	timedPlace int // in Queue.timed; -1 when nothing is timed

	served   time.Duration
	outcomes [8]int // by position in core.Outcomes
	ended    int
	records  []record
	reported int64 // number behind the run's last hint in Queue.news
	sweeping bool
	complete bool
	doneAt   time.Time
}

// job is the state of one job that was leased or blocked and has not ended.
type job struct {
	r     *run
	index int
	state core.State
	place int // in the one heap that the job is in: ready, timers, a lock's waiters, or Queue.closing

	attempts int // made
	crashes  int
	unheard  string // the node that crashed with it, if no worker has reported since what the host saw
	data     []byte // of the last Suspend or Retry
	cleanup  bool   // of that: it is leased once more if its run ends
	closing  bool   // its run has ended, and it is leased for its cleanup only
	due      time.Time
	event    string

	token      uint64
	saved      uint64 // Seq of the last Save of this lease
	session    *session
	leasedAt   time.Time
	prev, next *job // in the session's list

	held     [3]*lock
	keeps    bool   // suspended with its locks
	blockSeq uint64 // place in every lock's order; 0 when it never blocked
	on       *lock  // blocked on
	offer    *lock  // a place is kept for it
}

// record is queue.Record, packed.
type record struct {
	index, count, attempt int32
	outcome               uint8
	reason                core.Reason
	detail                []byte // of a record with a reason, the job's state
}

func newRun(spec queue.Run, t *tenant, seq uint64) *run {
	r := &run{
		id: spec.ID, submitted: spec, seq: seq, tenant: t, weight: spec.Weight, maxInFlight: spec.MaxInFlight,
		limit: spec.Limit, phase: queue.Active,
		jobs: map[int]*job{}, groups: locks{}, place: -1, timedPlace: -1,
		ready:  heap[*job]{less: func(a, b *job) bool { return a.index < b.index }, place: placeJob},
		timers: heap[*job]{less: jobDueLess, place: placeJob},
		fresh:  heap[span]{less: func(a, b span) bool { return a.lo < b.lo }, place: func(span, int) {}},
		later:  heap[span]{less: func(a, b span) bool { return a.due.Before(b.due) }, place: func(span, int) {}},
	}
	r.limit = r.released(r.limit)
	if spec.Paused {
		r.phase = queue.Paused
	}
	return r
}

func placeJob(j *job, i int) { j.place = i }

func jobDueLess(a, b *job) bool {
	if !a.due.Equal(b.due) {
		return a.due.Before(b.due)
	}
	return a.index < b.index
}

func flowLess(a, b *run) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	if a.submitted.Priority != b.submitted.Priority {
		return a.submitted.Priority > b.submitted.Priority
	}
	return a.seq < b.seq
}

// plan lays out the unfinished targets of spec as spans, in O(segments + finished).
func (r *run) plan(now time.Time, spec queue.Run) {
	var due, later []span
	spec.Unfinished(func(at time.Time, from, to int) {
		r.left += to - from
		part := span{from, to, at}
		switch {
		case at.After(now):
			later = append(later, part)
		case len(due) > 0 && due[len(due)-1].hi == part.lo:
			due[len(due)-1].hi = part.hi
		default:
			if at.IsZero() {
				part.due = now
			}
			due = append(due, part)
		}
	})
	r.fresh.build(due)
	r.later.build(later)
	r.late = r.releasedOf(later)
}

// releasedOf counts the released targets of spans.
func (r *run) releasedOf(spans []span) int {
	n := 0
	for _, s := range spans {
		n += max(0, min(s.hi, r.limit)-s.lo)
	}
	return n
}

// deferred counts the released jobs that wait for a time when they may start: all that are on
// record as such, except those that are due and that no turn has seen yet.
func (r *run) deferred(now time.Time) int {
	if r.over() {
		return 0
	}
	n := r.late + len(r.events[queue.EventWindow])
	r.later.each(func(s span) bool {
		due := !s.due.After(now)
		if due {
			n -= r.releasedOf([]span{s})
		}
		return due
	})
	r.timers.each(func(j *job) bool {
		due := !j.due.After(now)
		if due && j.event == queue.EventWindow {
			n--
		}
		return due
	})
	return n
}

// open reports whether the run may lease at all now.
func (r *run) open() bool {
	return r.phase == queue.Active && (r.maxInFlight == 0 || r.count.leased < r.maxInFlight)
}

// hasWork reports whether a job could be tried now.
func (r *run) hasWork() bool {
	return r.ready.len() > 0 || (r.fresh.len() > 0 && r.fresh.top().lo < r.limit)
}

func (r *run) over() bool { return r.phase == queue.Stopped || r.phase == queue.Cancelled }

// sync puts the run where it belongs in the heaps, after any change to it.
func (q *Queue) sync(r *run) {
	t := r.tenant
	if !r.open() && r.offered > 0 {
		q.withdrawAll(r)
	}
	can := r.open() && r.hasWork()
	switch {
	case !can && r.place >= 0:
		t.flows.remove(r.place)
	case can && r.place < 0:
		if r.started {
			r.tag = max(r.tag, t.v)
		} else {
			r.started = true
			r.tag = t.v - queue.HeadStart(r.submitted.Priority)*tagUnit
		}
		r.rerank()
		t.flows.push(r)
		q.signalOne()
	case can:
		if old := r.rank; r.rerank() != old {
			t.flows.fix(r.place)
		}
	}
	q.syncTenant(t)
}

func (q *Queue) syncTenant(t *tenant) {
	can := t.flows.len() > 0
	switch {
	case !can && t.place >= 0:
		q.ready.remove(t.place)
	case can && t.place < 0:
		t.tag = max(t.tag, q.v)
		t.rerank()
		q.ready.push(t)
	case can:
		if old := t.rank; t.rerank() != old {
			q.ready.fix(t.place)
		}
	}
}

const tagUnit = int64(queue.TagUnit / time.Microsecond)

func (r *run) rerank() int64 {
	r.rank = queue.Rank(r.count.leased, r.weight, r.tag/tagUnit)
	return r.rank
}

func (t *tenant) rerank() int64 {
	t.rank = queue.Rank(t.inFlight, t.weight, t.tag/tagUnit)
	return t.rank
}

// retime puts the run where it belongs among those with something timed.
func (q *Queue) retime(r *run) {
	var due time.Time
	if r.later.len() > 0 { // a time of day
		due = q.last.Add(r.later.top().due.Sub(q.last.Round(0)))
	}
	if r.timers.len() > 0 && (due.IsZero() || r.timers.top().due.Before(due)) {
		due = r.timers.top().due
	}
	r.nextDue = due
	switch {
	case due.IsZero() && r.timedPlace >= 0:
		q.timed.remove(r.timedPlace)
	case !due.IsZero() && r.timedPlace < 0:
		q.timed.push(r)
	case !due.IsZero():
		q.timed.fix(r.timedPlace)
	}
}

// activate moves what is due to where it can be leased, at most threshold items;
// it returns false when some are left.
func (q *Queue) activate(now time.Time, threshold int) bool {
	for q.timed.len() > 0 && !q.timed.top().nextDue.After(now) {
		r := q.timed.top()
		for threshold > 0 && r.later.len() > 0 && !r.later.top().due.After(now) {
			s := r.later.pop()
			r.late -= r.releasedOf([]span{s})
			r.fresh.push(s)
			threshold--
		}
		for threshold > 0 && r.timers.len() > 0 && !r.timers.top().due.After(now) {
			q.signalJob(r.timers.top())
			threshold--
		}
		q.retime(r)
		q.sync(r)
		if threshold == 0 {
			return false
		}
	}
	return true
}

// signalJob makes a retried or suspended job ready; the caller syncs the run.
func (q *Queue) signalJob(j *job) {
	r := j.r
	q.endWait(j)
	q.move(j, core.EvDue)
	r.ready.push(j)
}

// endWait takes a retried or suspended job out of timers and events.
func (q *Queue) endWait(j *job) {
	r := j.r
	if j.place >= 0 {
		r.timers.remove(j.place)
	}
	if j.event != "" {
		delete(r.events[j.event], j)
		if len(r.events[j.event]) == 0 {
			delete(r.events, j.event)
		}
		j.event = ""
	}
}

// move applies the transition table and keeps the counts.
func (q *Queue) move(j *job, e core.Event) {
	next, ok := j.state.Next(e)
	if !ok {
		q.faults = append(q.faults, queue.Finding{What: "job " + j.id().String() + " in state " + string(j.state) + " met event " + string(e), Run: j.r.id})
		return
	}
	if c := j.r.counter(j.state); c != nil {
		*c--
	}
	if j.state == core.Suspended || next == core.Suspended {
		q.report(j.r)
	}
	j.state = next
	if c := j.r.counter(j.state); c != nil {
		*c++
	}
}

func (r *run) counter(s core.State) *int {
	switch s {
	case core.Blocked:
		return &r.count.blocked
	case core.Leased:
		return &r.count.leased
	case core.Retrying:
		return &r.count.waiting
	case core.Suspended:
		return &r.count.suspended
	}
	return nil
}

func (j *job) id() core.JobID { return core.JobID{Run: j.r.id, Index: j.index} }

func (j *job) target() *queue.Target { return &j.r.submitted.Targets[j.index] }
