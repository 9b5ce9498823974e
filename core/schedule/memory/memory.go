// Package memory owns the schedule store in plain Go: for one process, for tests, and as the
// model that other stores are compared with.
//
// It must not know what a record's data means.
package memory

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

// Store keeps schedules in memory. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu      sync.Mutex
	version uint64
	records map[schedule.ID]*record
	queue   dueQueue
	order   []schedule.ID // of all records, by tenant and name; nil: to be made anew
	changed chan struct{} // closed, and made anew, when the earliest due time becomes earlier
}

var _ schedule.Store = (*Store)(nil)

type record struct {
	id      schedule.ID
	version uint64
	due     int64 // Unix milliseconds, while it is in the queue
	index   int   // in the queue; -1: not in it
	data    []byte
}

// New makes an empty store whose clock is the process's, or the given one. Waiting is by the process's timers,
// so that a given clock has to run as fast as they do.
func New(clock ...func() time.Time) *Store {
	s := &Store{now: time.Now, records: map[schedule.ID]*record{}, changed: make(chan struct{})}
	if len(clock) > 0 {
		s.now = clock[0]
	}
	return s
}

// Take implements schedule.Store.
func (s *Store) Take(ctx context.Context, most int, hold time.Duration) (schedule.Taken, error) {
	if err := schedule.ValidateTake(most, hold); err != nil {
		return schedule.Taken{}, err
	}
	if err := ctx.Err(); err != nil {
		return schedule.Taken{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UTC()
	out := schedule.Taken{Now: now}
	var taken []*record
	for len(taken) < most && len(s.queue) > 0 && s.queue[0].due <= now.UnixMilli() {
		r, _ := heap.Pop(&s.queue).(*record)
		taken = append(taken, r)
	}
	if len(s.queue) > 0 {
		out.Next = time.UnixMilli(s.queue[0].due).UTC()
		out.More = s.queue[0].due <= now.UnixMilli()
	}
	for _, r := range taken {
		r.version = s.stamp()
		s.schedule(r, now.Add(hold))
		out.Records = append(out.Records, r.copy())
	}
	return out, nil
}

// Write implements schedule.Store.
func (s *Store) Write(ctx context.Context, changes []schedule.Change) ([]uint64, error) {
	if err := schedule.ValidateWrite(changes); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UTC()
	versions := make([]uint64, len(changes))
	for i, c := range changes {
		versions[i] = s.apply(c, now)
	}
	return versions, nil
}

func (s *Store) apply(c schedule.Change, now time.Time) (version uint64) {
	r := s.records[c.ID]
	switch {
	case r == nil && c.Version != 0, r != nil && r.version != c.Version:
		return 0
	case c.Delete:
		if r.index >= 0 {
			heap.Remove(&s.queue, r.index)
		}
		delete(s.records, c.ID)
		s.order = nil
		return s.stamp()
	case r == nil:
		r = &record{id: c.ID, index: -1}
		s.records[c.ID] = r
		s.order = nil
	}
	r.version = s.stamp()
	if !c.Keep {
		r.data = slices.Clone(c.Data)
	}
	due := c.Due
	if c.Hold > 0 {
		due = now.Add(c.Hold)
	}
	s.schedule(r, due)
	return r.version
}

func (s *Store) stamp() uint64 {
	s.version++
	return s.version
}

// schedule sets when a record is due, and wakes who waits if it is the next one.
func (s *Store) schedule(r *record, due time.Time) {
	if r.index >= 0 {
		heap.Remove(&s.queue, r.index)
	}
	if due.IsZero() {
		return
	}
	r.due = schedule.DueMilli(due)
	heap.Push(&s.queue, r)
	if s.queue[0] == r {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// Get implements schedule.Store.
func (s *Store) Get(ctx context.Context, ids []schedule.ID) (schedule.Read, error) {
	if err := schedule.ValidateIDs(ids); err != nil {
		return schedule.Read{}, err
	}
	if err := ctx.Err(); err != nil {
		return schedule.Read{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := schedule.Read{Now: s.now().UTC()}
	for _, id := range ids {
		if r := s.records[id]; r != nil {
			out.Records = append(out.Records, r.copy())
		}
	}
	return out, nil
}

// List implements schedule.Store. Pages are in the order of tenant and name.
func (s *Store) List(ctx context.Context, p schedule.Page) (schedule.Listed, error) {
	if err := p.Validate(); err != nil {
		return schedule.Listed{}, err
	}
	after, err := cursorID(p.Cursor)
	if err != nil {
		return schedule.Listed{}, err
	}
	if err := ctx.Err(); err != nil {
		return schedule.Listed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := schedule.Listed{Now: s.now().UTC()}
	from := 0
	if p.Cursor != "" {
		var found bool
		if from, found = slices.BinarySearchFunc(s.sorted(), after, compare); found {
			from++
		}
	} else if !p.All {
		from, _ = slices.BinarySearchFunc(s.sorted(), schedule.ID{Tenant: p.Tenant}, compare)
	}
	for _, id := range s.sorted()[from:] {
		if !p.All && id.Tenant != p.Tenant {
			break
		}
		if len(out.Records) == p.Limit {
			last := out.Records[p.Limit-1].ID
			out.Next = last.Tenant + ":" + last.Name
			break
		}
		out.Records = append(out.Records, s.records[id].copy())
	}
	return out, nil
}

// sorted is every id in the order of List.
func (s *Store) sorted() []schedule.ID {
	if s.order == nil {
		s.order = slices.SortedFunc(maps.Keys(s.records), compare)
	}
	return s.order
}

func cursorID(cursor string) (schedule.ID, error) {
	if cursor == "" {
		return schedule.ID{}, nil
	}
	tenant, name, ok := strings.Cut(cursor, ":")
	id := schedule.ID{Tenant: tenant, Name: name}
	if !ok || id.Validate() != nil {
		return id, fmt.Errorf("cursor %q was not given out by a list: %w", cursor, core.ErrInvalid)
	}
	return id, nil
}

func compare(a, b schedule.ID) int {
	return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Name, b.Name))
}

// Wait implements schedule.Store.
func (s *Store) Wait(ctx context.Context, until time.Time) error {
	for {
		s.mu.Lock()
		now, changed := s.now(), s.changed
		due := len(s.queue) > 0 && time.UnixMilli(s.queue[0].due).Before(until)
		s.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if due || !now.Before(until) {
			return nil
		}
		timer := time.NewTimer(until.Sub(now))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (r *record) copy() schedule.Record {
	out := schedule.Record{ID: r.id, Version: r.version, Data: r.data}
	if r.index >= 0 {
		out.Due = time.UnixMilli(r.due).UTC()
	}
	return out
}

// dueQueue is a heap of records by when they are due.
type dueQueue []*record

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *dueQueue) Push(x any) {
	r, _ := x.(*record)
	r.index = len(*q)
	*q = append(*q, r)
}

// Pop implements heap.Interface.
func (q *dueQueue) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.index = -1
	return r
}
