package controller

import (
	"context"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// batches are writes of one kind to the ledger that share transactions: those that arrive while one
// is written go into the next one together. One of the callers writes it, so that there is no
// goroutine to own.
type batches[In, Out any] struct {
	write func(ctx context.Context, all ...In) ([]Out, error)
	size  func(In) int // what one counts of batchSize

	mu      sync.Mutex
	waiting []*entry[In, Out]
	writing bool
}

type entry[In, Out any] struct {
	in   In
	lead chan struct{} // closed when the caller is to write what waits
	done chan struct{} // closed when out and err are there
	answer[Out]
}

// answer is that of the write which an entry went into.
type answer[Out any] struct {
	out Out
	err error // of the transaction: nothing of it was written
}

const (
	batchRuns = 256              // of one transaction
	batchSize = 16 << 20         // of one, beside its first entry
	batchFor  = 30 * time.Second // a transaction may take; its callers do not end it, because it is not theirs alone
)

// do returns when all have their answers, in their order.
func (b *batches[In, Out]) do(ctx context.Context, ins ...In) []answer[Out] {
	out := make([]answer[Out], len(ins))
	if err := ctx.Err(); err != nil {
		for i := range out {
			out[i].err = err
		}
		return out
	}
	all := core.Map(ins, func(in In) *entry[In, Out] {
		return &entry[In, Out]{in: in, lead: make(chan struct{}), done: make(chan struct{})}
	})
	b.mu.Lock()
	b.waiting = append(b.waiting, all...)
	if !b.writing && len(all) > 0 {
		b.writing = true
		close(all[0].lead)
	}
	b.mu.Unlock()
	for i, one := range all { // in the order in which they wait: the one that is to lead comes before those that are not done
		select {
		case <-one.done:
		case <-one.lead:
			b.writeWaiting(ctx)
		}
		out[i] = one.answer
	}
	return out
}

// writeWaiting writes what waits, the caller's own among it, and has one of those that came
// meanwhile continue.
func (b *batches[In, Out]) writeWaiting(ctx context.Context) {
	b.mu.Lock()
	n, size := 0, 0
	for n < min(len(b.waiting), batchRuns) {
		if size += b.size(b.waiting[n].in); n > 0 && size > batchSize {
			break
		}
		n++
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.mu.Unlock()
	ins := core.Map(batch, func(one *entry[In, Out]) In { return one.in })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchFor)
	defer cancel()
	out, err := b.write(ctx, ins...)
	for i, one := range batch {
		if one.err = err; err == nil {
			one.out = out[i]
		}
		close(one.done)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writing = len(b.waiting) > 0; b.writing {
		close(b.waiting[0].lead)
	}
}
