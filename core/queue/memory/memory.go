// Package memory implements the contracts of queue and board in plain Go: the embedded default, and
// the reference model that the Redis implementation is compared with.
//
// It owns its state behind one mutex. Every operation is O(log n) in the number of ready runs and
// of timed or retried jobs; only the release of a wave counts the segments that are not due. It
// keeps the target slices that it was given, and a job has no state before it is leased or blocked.
// It must not know what a job's bytes mean. It starts no goroutine of its own: a timer, stopped by
// Shutdown, notifies waiters when something becomes due.
//
// States are the states of a queue's jobs on disk, so that the progress of a job outlives the
// process.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue"
)

// Options of a queue. The zero value is right for production.
type Options struct {
	SessionTTL time.Duration    // queue.SessionTTL when zero
	Retain     time.Duration    // how long a complete run is remembered; 7 days when zero
	Now        func() time.Time // clock of a simulation: Wait then starts no timers; nil is the real one
	Remains    Remains          // of the queue before this one; its runs continue there once they are submitted
	Suspended  []Begun          // jobs of runs that are not among those: they wait on for what they were suspended for
}

// Bounds of the work that one call does beside its acks and leases.
const (
	reapBatch     = 256
	activateBatch = 4096
	blockBatch    = 1024
	sweepBatch    = 4096
	forgetBatch   = 8
	signalBatch   = 4096
)

// Queue is the queue in memory. All methods are safe for concurrent use.
type Queue struct {
	opt Options

	mu        sync.Mutex
	last      time.Time // the clock, held monotone
	runs      map[string]*run
	tenants   map[string]*tenant
	ready     heap[*tenant] // tenants with a ready flow
	v         int64         // tag of the last dispatched tenant
	timed     heap[*run]    // runs with something timed, by when it is due
	hosts     locks
	haGroups  locks
	guests    map[string]guest // by host; some have left with their lease
	sweeping  []*run           // stopped or cancelled, with jobs still to end
	closing   heap[*job]       // of runs that have ended, by when they are due for their cleanup
	complete  []*run           // in order of completion, for the retention
	sessions  map[string]*session
	expiry    heap[*session]
	heldUntil time.Time // no job is leased before
	token     uint64
	seq       uint64 // of runs, tenants, blocks and sessions
	inFlight  int
	stats     queue.Stats // counters only
	board     map[string]document
	posts     uint64 // version of the last one
	feed      *feed
	news      newsLog
	faults    []queue.Finding
	carried   map[string][]Begun // by run: what Submit continues from
	suspended map[string][]Begun // of other runs

	waiters []*waiter
	timer   *time.Timer
	armed   time.Time
	closed  bool

	freeJobs  []*job
	freeLocks []*lock
}

var (
	_ queue.Queue = (*Queue)(nil)
	_ board.Store = (*Queue)(nil)
)

// New returns an empty queue.
func New(opt Options) *Queue {
	if opt.SessionTTL <= 0 {
		opt.SessionTTL = queue.SessionTTL
	}
	if opt.Retain <= 0 {
		opt.Retain = 7 * 24 * time.Hour
	}
	return &Queue{
		opt:       opt,
		runs:      map[string]*run{},
		tenants:   map[string]*tenant{},
		hosts:     locks{},
		haGroups:  locks{},
		guests:    map[string]guest{},
		sessions:  map[string]*session{},
		board:     map[string]document{},
		feed:      newFeed(opt.Now),
		news:      newNews(),
		carried:   carriedBy(opt.Remains),
		suspended: byRun(opt.Suspended),
		ready:     heap[*tenant]{less: tenantLess, place: func(t *tenant, i int) { t.place = i }},
		closing:   heap[*job]{less: closingLess, place: placeJob},
		timed:     heap[*run]{less: func(a, b *run) bool { return a.nextDue.Before(b.nextDue) }, place: func(r *run, i int) { r.timedPlace = i }},
		expiry:    heap[*session]{less: func(a, b *session) bool { return a.until.Before(b.until) }, place: func(s *session, i int) { s.place = i }},
	}
}

// Shutdown stops the timer and lets every Wait return. The queue stays readable.
func (q *Queue) Shutdown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if q.timer != nil {
		q.timer.Stop()
	}
	for len(q.waiters) > 0 {
		q.signalOne()
	}
}

// now is the queue's clock: it never goes back. Its monotonic reading is what leases and delays go
// by, its wall clock what is due at a time of day goes by. Where the two have parted, the places of
// timed runs are worked out again.
func (q *Queue) now() time.Time {
	read := q.opt.Now
	if read == nil {
		read = time.Now
	}
	if t := read(); t.After(q.last) {
		leap := t.Round(0).Sub(q.last.Round(0)) - t.Sub(q.last)
		q.last = t
		if leap.Abs() > time.Millisecond {
			q.replace()
		}
	}
	return q.last
}

// replace works out when each timed run next has something due, which is kept by the monotonic
// clock.
func (q *Queue) replace() {
	for _, r := range slices.Clone(q.timed.items) {
		q.retime(r)
	}
}

func (q *Queue) next() uint64 {
	q.seq++
	return q.seq
}

// find returns a run, or an error that wraps core.ErrNotFound.
func (q *Queue) find(id string) (*run, error) {
	if r := q.runs[id]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("run %q: %w in the queue", id, core.ErrNotFound)
}

// Submit accepts runs. It keeps their slices, which must not be changed afterwards.
func (q *Queue) Submit(ctx context.Context, runs ...queue.Run) []queue.Submission {
	return queue.SubmitEach(runs, func(r queue.Run) (bool, error) { return q.submit(ctx, r) })
}

func (q *Queue) submit(ctx context.Context, spec queue.Run) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := spec.Validate(); err != nil {
		return false, err
	}
	defaults(&spec)
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.forget(now)
	if old := q.runs[spec.ID]; old != nil {
		if !sameContent(&old.submitted, &spec) {
			return false, fmt.Errorf("run %q was submitted before with other content: %w", spec.ID, core.ErrConflict)
		}
		return false, nil
	}
	t := q.tenant(spec.Tenant)
	t.weight = spec.TenantWeight
	t.open++
	t.known++
	r := newRun(spec, t, q.next())
	q.runs[spec.ID] = r
	begun := q.begun(&spec)
	r.plan(now, apart(spec, begun))
	q.adoptFinished(r)
	q.resume(r, begun, now)
	q.update(r)
	q.report(r)
	q.syncTenant(t)
	q.arm()
	return true, nil
}

func defaults(r *queue.Run) {
	r.TenantWeight = cmp.Or(r.TenantWeight, 1)
	r.Weight = cmp.Or(r.Weight, 1)
	r.OnLost = cmp.Or(r.OnLost, queue.LostRetry)
}

// sameContent compares by value, times as instants. Finished jobs, and whether it starts paused,
// are no content.
func sameContent(a, b *queue.Run) bool {
	if len(a.Segments) != len(b.Segments) || len(a.Targets) != len(b.Targets) {
		return false
	}
	for i := range a.Segments {
		if a.Segments[i].Count != b.Segments[i].Count || !a.Segments[i].Due.Equal(b.Segments[i].Due) {
			return false
		}
	}
	for i := range a.Targets {
		x, y := &a.Targets[i], &b.Targets[i]
		if x.Host != y.Host || x.HAGroup != y.HAGroup || x.Group != y.Group || string(x.Data) != string(y.Data) {
			return false
		}
	}
	x, y := *a, *b
	x.Targets, y.Targets, x.Segments, y.Segments = nil, nil, nil, nil
	x.FinishedJobs, y.FinishedJobs, x.Paused, y.Paused = nil, nil, false, false
	if string(x.Payload) != string(y.Payload) {
		return false
	}
	x.Payload, y.Payload = nil, nil
	return reflect.DeepEqual(x, y)
}

// tenant returns the tenant of that name, made where it is new.
func (q *Queue) tenant(name string) *tenant {
	t := q.tenants[name]
	if t == nil {
		t = newTenant(name, q.next())
		q.tenants[name] = t
	}
	return t
}

// forget drops runs that were complete for the retention.
func (q *Queue) forget(now time.Time) {
	for range forgetBatch {
		if len(q.complete) == 0 {
			return
		}
		r := q.complete[0]
		if now.Sub(r.doneAt) < q.opt.Retain {
			return
		}
		q.complete = q.complete[1:]
		if q.runs[r.id] == r { // else it was dropped, and its id submitted again
			delete(q.runs, r.id)
		}
		if r.tenant.known--; r.tenant.known == 0 {
			delete(q.tenants, r.tenant.name)
		}
	}
}
