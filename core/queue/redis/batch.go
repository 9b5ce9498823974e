package redis

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Bounds of a small run, which is one record and has no keys of its own, and of one call of
// submit.lua.
const (
	smallHosts   = 4        // with more hosts, keys of their own cost less than writing the record again for each job
	smallTargets = 2 << 10  // bytes of the packed targets, their data included
	smallPayload = 256      // a longer payload has a field of its own, so that turns do not read it
	apartPayload = 64 << 10 // the longest payload of a small run
	batchRuns    = 256
	batchBytes   = 256 << 10
)

// small is a run as submit.lua reads it, all but its place among the tenants.
type small struct {
	id, tenant    string
	tenantWeight  int
	weight, limit int
	paused        bool
	due           int64
	hosts         int
	config, fix   []byte
	payload       []byte // nil where it is in fix
}

// asSmall reports whether a run can be one record. The digest is that of p, so that a run is the
// same in both forms.
func (q *Queue) asSmall(r *queue.Run, p *packed) (*small, bool) {
	spans := slices.Concat(p.ready, p.timed)
	if len(r.Targets) > smallHosts || r.PerGroup > 0 || len(r.FinishedJobs) > 0 || len(spans) != 1 || len(r.Payload) > apartPayload {
		return nil, false
	}
	targets := p.chunks[0]
	if len(p.large) > 0 {
		whole := &packed{keepAll: true}
		targets = targets[:0:0]
		for i := range r.Targets {
			targets = whole.target(targets, i, &r.Targets[i], r.Targets[0].Host)
		}
	}
	if len(targets) > smallTargets {
		return nil, false
	}
	s := &small{
		id: r.ID, tenant: r.Tenant, tenantWeight: max(r.TenantWeight, 1), weight: max(r.Weight, 1), limit: limitOf(r),
		paused: r.Paused, due: spans[0].due, hosts: len(r.Targets), config: q.smallConfig(r),
	}
	s.fix = appendText(make([]byte, 0, 64+len(targets)), r.ID)
	s.fix = appendText(appendText(s.fix, targets), p.digest)
	if len(r.Payload) > smallPayload {
		s.payload, s.fix = r.Payload, appendBool(s.fix, true)
	} else {
		s.fix = appendText(s.fix, r.Payload)
	}
	return s, true
}

// smallConfig is the text that class in small.lua reads. Runs that are alike share it there.
func (q *Queue) smallConfig(r *queue.Run) []byte {
	b := appendInt(make([]byte, 0, 32), uint64(queue.MaxPriority-r.Priority))
	for _, n := range []int{r.MaxInFlight, r.StopAfter, r.StopUnreachable} {
		b = appendInt(b, uint64(n))
	}
	b = appendBool(appendBool(b, r.Disruptive), r.OnLost == queue.LostHold)
	b = appendInt(b, queue.MaxCrashes)
	for range 3 { // a delay between crashes, its bound, and how far it is spread: none
		b = appendInt(b, 0)
	}
	return appendInt(b, uint64(q.opt.Keep.Milliseconds()))
}

func (s *small) size() int { return 64 + len(s.id) + len(s.config) + len(s.fix) + len(s.payload) }

// parcel is some runs of one caller that go in one call.
type parcel struct {
	runs    []*small
	bytes   int
	answers []queue.Submission
	done    chan struct{} // closed when answers are there
}

// batcher sends the small runs of a process. Runs that arrive while a call is under way go with the
// next one, so callers at the same time share round trips. Its goroutine lives while there is
// something to send; close joins it.
type batcher struct {
	send func(context.Context, []*small) []queue.Submission

	mu      sync.Mutex
	waiting []*parcel
	sending bool
	sender  sync.WaitGroup
}

// submit sends runs and waits for the answers. If ctx ends before, it leaves: a part that was not
// sent is withdrawn; the result of the rest is unknown.
func (b *batcher) submit(ctx context.Context, runs []*small) []queue.Submission {
	parcels := wrap(runs)
	b.mu.Lock()
	b.waiting = append(b.waiting, parcels...)
	if !b.sending {
		b.sending = true
		b.sender.Go(b.sendAll)
	}
	b.mu.Unlock()
	answers := make([]queue.Submission, 0, len(runs))
	for _, p := range parcels {
		select {
		case <-p.done:
			answers = append(answers, p.answers...)
		case <-ctx.Done():
			answers = append(answers, b.leave(ctx, p)...)
		}
	}
	return answers
}

func wrap(runs []*small) []*parcel {
	var list []*parcel
	for _, r := range runs {
		last := len(list) - 1
		if last < 0 || len(list[last].runs) == batchRuns || list[last].bytes+r.size() > batchBytes {
			list = append(list, &parcel{done: make(chan struct{})})
			last++
		}
		list[last].runs = append(list[last].runs, r)
		list[last].bytes += r.size()
	}
	return list
}

// leave stops waiting for a parcel.
func (b *batcher) leave(ctx context.Context, p *parcel) []queue.Submission {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-p.done: // at the last moment
		return p.answers
	default:
	}
	err := fmt.Errorf("queue: submit: %w: %w", core.ErrUnknown, ctx.Err())
	if i := slices.Index(b.waiting, p); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		err = fmt.Errorf("queue: submit: %w", ctx.Err())
	}
	return failed(len(p.runs), err)
}

func failed(n int, err error) []queue.Submission {
	return slices.Repeat([]queue.Submission{{Err: err}}, n)
}

// sendAll sends until nothing waits. The calls are nobody's in particular: they have no caller's
// context.
func (b *batcher) sendAll() {
	for {
		parcels := b.next()
		if len(parcels) == 0 {
			return
		}
		var runs []*small
		for _, p := range parcels {
			runs = append(runs, p.runs...)
		}
		answers := b.send(context.Background(), runs)
		for _, p := range parcels {
			p.answers, answers = answers[:len(p.runs):len(p.runs)], answers[len(p.runs):]
			close(p.done)
		}
		runtime.Gosched() // so that those who have their answers and submit more are in the next call
	}
}

// next takes what fits one call.
func (b *batcher) next() []*parcel {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, runs, bytes := 0, 0, 0
	for _, p := range b.waiting {
		runs, bytes = runs+len(p.runs), bytes+p.bytes
		if n > 0 && (runs > batchRuns || bytes > batchBytes) {
			break
		}
		n++
	}
	parcels := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.sending = n > 0
	return parcels
}

// close waits until all is sent. No submit may follow.
func (b *batcher) close() { b.sender.Wait() }

// submitSmall is one call of submit.lua.
func (q *Queue) submitSmall(ctx context.Context, runs []*small) []queue.Submission {
	v, err := q.eval(ctx, q.scripts.submit, packSmall(runs))
	letters, ok := v.(string)
	if err == nil && (!ok || len(letters) != len(runs)) {
		err = fmt.Errorf("queue: answer of script submit is %v: %w", v, core.ErrUnknown)
	}
	answers := make([]queue.Submission, len(runs))
	for i, r := range runs {
		switch {
		case err != nil:
			answers[i].Err = fmt.Errorf("submit run %q: %w", r.id, err)
		case letters[i] == 'x':
			answers[i].Err = errOther(r.id)
		default:
			answers[i].Created = letters[i] == 'c'
		}
	}
	return answers
}

// packSmall is the text that submit.lua reads.
func packSmall(runs []*small) []byte {
	places := map[string]int{}
	var tenants []*small // the last run of each decides on its weight
	size := 0
	for _, r := range runs {
		if _, ok := places[r.tenant]; !ok {
			places[r.tenant] = len(tenants) + 1
			tenants = append(tenants, r)
			size += len(r.tenant) + 8
		}
		tenants[places[r.tenant]-1] = r
		size += r.size()
	}
	b := appendList(make([]byte, 0, size), 2*len(tenants))
	for _, r := range tenants {
		b = appendInt(appendText(b, r.tenant), uint64(r.tenantWeight))
	}
	b = appendList(b, 10*len(runs))
	for _, r := range runs {
		b = appendText(b, r.id)
		b = appendInt(b, uint64(places[r.tenant]))
		b = appendInt(appendInt(b, uint64(r.weight)), uint64(r.limit))
		b = appendBool(b, r.paused)
		b = appendInt(appendInt(b, uint64(r.due)), uint64(r.hosts))
		b = appendText(appendText(appendText(b, r.config), r.fix), r.payload)
	}
	return b
}
