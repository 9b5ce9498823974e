package controller

import (
	"context"
	"sync"
	"time"

	"github.com/turnus/turnus/core/ledger"
)

// creates are runs that are accepted at the same time: what arrives while one transaction is
// written goes into the next one together. One of the callers writes it, so that there is no
// goroutine to own.
type creates struct {
	mu      sync.Mutex
	waiting []*create
	writing bool
}

type create struct {
	run  ledger.NewRun
	lead chan struct{} // closed when the caller is to write what waits
	done chan struct{} // closed when out and err are there
	out  ledger.Accepted
	err  error
}

const (
	createRuns = 256              // of one transaction
	createSize = 16 << 20         // bytes and 64 times hosts of one, beside its first run
	createFor  = 30 * time.Second // a transaction may take; its callers do not end it, because it is not theirs alone
)

// accept returns when all runs have their answers. Each has its own.
func (c *creates) accept(ctx context.Context, l *ledger.Ledger, runs []ledger.NewRun) []ledger.Accepted {
	out := make([]ledger.Accepted, len(runs))
	if err := ctx.Err(); err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	all := make([]*create, len(runs))
	for i := range runs {
		all[i] = &create{run: runs[i], lead: make(chan struct{}), done: make(chan struct{})}
	}
	c.mu.Lock()
	c.waiting = append(c.waiting, all...)
	if !c.writing && len(all) > 0 {
		c.writing = true
		close(all[0].lead)
	}
	c.mu.Unlock()
	for i, one := range all { // in the order in which they wait: the one that is to lead comes before those that are not done
		select {
		case <-one.done:
		case <-one.lead:
			c.write(ctx, l)
		}
		if out[i] = one.out; one.err != nil {
			out[i].Err = one.err
		}
	}
	return out
}

// write accepts what waits, the caller's own among it, and has one of those that came meanwhile go
// on.
func (c *creates) write(ctx context.Context, l *ledger.Ledger) {
	c.mu.Lock()
	n, size := 0, 0
	for n < min(len(c.waiting), createRuns) {
		run := &c.waiting[n].run
		if size += len(run.Snapshot) + len(run.Queue) + 64*len(run.Jobs); n > 0 && size > createSize {
			break
		}
		n++
	}
	batch := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	c.mu.Unlock()
	runs := make([]ledger.NewRun, n)
	for i, one := range batch {
		runs[i] = one.run
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createFor)
	defer cancel()
	out, err := l.AcceptAll(ctx, runs...)
	for i, one := range batch {
		if one.err = err; err == nil {
			one.out = out[i]
		}
		close(one.done)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing = len(c.waiting) > 0; c.writing {
		close(c.waiting[0].lead)
	}
}
