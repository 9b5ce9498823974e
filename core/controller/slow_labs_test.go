//go:build labs

package controller_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
)

// slowCommits has each transaction that writes take so long, and counts them. It is of the whole
// process, so a test that uses it runs alone.
var slowCommits = sync.OnceValue(func() *commits {
	c := &commits{}
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
		conn.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			c.made.Add(1)
			<-time.After(time.Duration(c.take.Load()))
			return 0
		})
		return nil
	})
	return c
})

type commits struct {
	take, made atomic.Int64
}

// Each transaction of the ledger takes 200 ms. Creates and results share transactions, so runs are
// accepted and end far faster than one each, each job once.
func TestLabALedgerWithSlowTransactions(t *testing.T) {
	const runs, slow = 1000, 200 * time.Millisecond
	c := slowCommits()
	l := newLoad(t, runs)
	first := l.launch(spec{id: "first", hosts: 1})
	var mu sync.Mutex
	leased := map[core.JobID]int{}
	ctx, stop := context.WithCancel(t.Context())
	var node sync.WaitGroup
	defer node.Wait()
	defer stop()
	node.Go(func() {
		ackAll(ctx, t, l.queue(), func(job core.JobID) {
			mu.Lock()
			defer mu.Unlock()
			leased[job]++
		})
	})
	c.take.Store(int64(slow))
	defer c.take.Store(0)
	c.made.Store(0)
	began := time.Now()
	l.each(runs, func(i int) error {
		one, err := first.Again(fmt.Sprint("r", i), "alice", "", "", time.Now(), nil)
		if err == nil {
			_, _, err = l.Accept(t.Context(), controller.Acceptance{Launch: one, By: "alice"})
		}
		return err
	})
	created := time.Since(began)
	<-l.ended
	t.Logf("%d runs created in %v and recorded after %v, with %d transactions of %v", runs, created, time.Since(began), c.made.Load(), slow)
	if made := c.made.Load(); made == 0 || made > runs/4 {
		t.Errorf("%d transactions for %d runs", made, runs)
	}
	c.take.Store(0)
	mu.Lock()
	defer mu.Unlock()
	for i := range runs {
		job := core.JobID{Run: fmt.Sprint("r", i)}
		if r := l.run(job.Run); !r.Complete() || r.Outcomes[core.Changed] != 1 || leased[job] != 1 {
			t.Fatalf("leased %d times: %+v", leased[job], r)
		}
	}
}
