package queuebench

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

// policy decides which run's job starts next.
type policy interface {
	name() string
	submit(now time.Duration, run int, t Run) error
	// turn removes finished jobs, and returns jobs for the free places.
	turn(now time.Duration, finished []handle, free int) ([]handle, error)
	touched() int
}

// handle is a job that was started.
type handle struct {
	run   int
	lease queue.Lease // of the queue of Turnus
}

// firstCome is first come, first served: overdue jobs in order of their due time.
type firstCome struct{ waiting []int }

func newFirstCome() (policy, error) { return &firstCome{}, nil }

func (*firstCome) name() string { return "first come first served" }
func (*firstCome) touched() int { return 0 }

func (p *firstCome) submit(_ time.Duration, run int, t Run) error {
	for range t.Jobs {
		p.waiting = append(p.waiting, run)
	}
	return nil
}

func (p *firstCome) turn(_ time.Duration, _ []handle, free int) ([]handle, error) {
	free = min(free, len(p.waiting))
	started := make([]handle, free)
	for i := range started {
		started[i].run = p.waiting[i]
	}
	p.waiting = p.waiting[free:]
	return started, nil
}

// reorderChunk is how many overdue entries one pass of the classic reordering reads.
const reorderChunk = 1000

// reordering is the classic pass over one sorted set, before every lease: a
// chunk of the overdue part is walked backwards, and the first job of each run in
// it is put to the front. It sees nothing behind its chunk, and counts jobs, not time.
type reordering struct {
	firstCome
	moved int
}

func newReordering() (policy, error) { return &reordering{}, nil }

func (*reordering) name() string   { return "classic reordering pass" }
func (p *reordering) touched() int { return p.moved }

func (p *reordering) turn(now time.Duration, finished []handle, free int) ([]handle, error) {
	var started []handle
	// One pass brings one job of each run to the front: it is due again when those are taken.
	for len(started) < free && len(p.waiting) > 0 {
		front := p.reorder()
		got, err := p.firstCome.turn(now, finished, min(front, free-len(started)))
		if err != nil {
			return nil, err
		}
		started = append(started, got...)
	}
	return started, nil
}

// reorder is one pass; it returns how many jobs it brought to the front.
func (p *reordering) reorder() int {
	chunk := p.waiting[:min(len(p.waiting), reorderChunk)]
	first := map[int]int{} // of each run, its first position
	for i, c := range slices.Backward(chunk) {
		first[c] = i
	}
	front := make([]int, 0, len(chunk))
	for i, run := range chunk {
		if first[run] == i {
			front = append(front, run)
		}
	}
	brought := len(front)
	for i, run := range chunk {
		if first[run] != i {
			front = append(front, run)
		}
	}
	copy(chunk, front)
	p.moved += brought
	return brought
}

// turnus is the real queue in memory, its clock the simulation's.
type turnus struct {
	q       *memory.Queue
	session string
	now     time.Time
}

func newTurnus() (policy, error) {
	p := &turnus{now: time.Unix(0, 0)}
	p.q = memory.New(memory.Options{SessionTTL: 1000 * time.Hour, Now: func() time.Time { return p.now }})
	var err error
	if p.session, err = p.q.Open(context.Background(), "simulation"); err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return p, nil
}

func (*turnus) name() string { return "turnus" }
func (*turnus) touched() int { return 0 }

func (p *turnus) submit(now time.Duration, run int, t Run) error {
	p.now = time.Unix(0, 0).Add(now)
	r := bulk(strconv.Itoa(run), t.Jobs)
	r.Tenant = t.Tenant
	if _, err := queue.SubmitOne(context.Background(), p.q, r); err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	return nil
}

func (p *turnus) turn(now time.Duration, finished []handle, free int) ([]handle, error) {
	p.now = time.Unix(0, 0).Add(now)
	turn := queue.Turn{Session: p.session, Want: free}
	for _, h := range finished {
		turn.Acks = append(turn.Acks, queue.Ack{Job: h.lease.Job, Token: h.lease.Token, Kind: queue.AckDone, Outcome: core.Unchanged})
	}
	res, err := p.q.Turn(context.Background(), turn)
	if err != nil {
		return nil, fmt.Errorf("turn: %w", err)
	}
	if len(res.Stale) > 0 {
		return nil, fmt.Errorf("acks refused: %v", res.Stale)
	}
	started := make([]handle, len(res.Leases))
	for i, l := range res.Leases {
		run, err := strconv.Atoi(l.Job.Run)
		if err != nil {
			return nil, fmt.Errorf("lease of run %q: %w", l.Job.Run, err)
		}
		started[i] = handle{run: run, lease: l}
	}
	return started, nil
}
