//go:build labs

package controller_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

// manyRuns is how many runs of one host the labs of load have.
const manyRuns = 10_000

// load is a server on SQLite with the queue in memory, to create runs on.
type load struct {
	*lab
	*controller.Controller
	ended chan struct{} // closed when so many runs have ended
}

func newLoad(t *testing.T, ends int64) *load {
	t.Helper()
	store, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := memory.New(memory.Options{})
	l := &load{lab: &lab{TB: t, ledger: store, q: q, ran: map[core.JobID]int{}, leased: map[core.JobID]int{}}, ended: make(chan struct{})}
	var ended atomic.Int64
	l.Controller, err = controller.New(controller.Config{Name: "s", Ledger: store, Queue: q, Board: q, Types: types, Events: func(e controller.Event) {
		if e.Kind == controller.RunEnded && ended.Add(1) == ends {
			close(l.ended)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done
		q.Shutdown()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// each calls do for 0 to n-1, by 64 callers.
func (l *load) each(n int, do func(i int) error) {
	l.Helper()
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		callers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					l.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}

// heap samples how large the heap gets until stop, which returns it.
func heap() (stop func() uint64) {
	ctx, cancel := context.WithCancel(context.Background())
	most := make(chan uint64)
	go func() {
		var peak uint64
		for ticker := time.NewTicker(50 * time.Millisecond); ; {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-ctx.Done():
				ticker.Stop()
				most <- peak
				return
			case <-ticker.C:
			}
		}
	}()
	return func() uint64 { cancel(); return <-most }
}

// Runs of one host start soon beside runs of 100,000, and no more than a few of those are in memory
// at the same time.
func TestLabManySmallRunsBesideLargeOnes(t *testing.T) {
	l := newLoad(t, manyRuns)
	first, large := l.launch(spec{id: "first", hosts: 1}), l.launch(spec{id: "large", hosts: 100_000})
	var mu sync.Mutex
	accepted, delays := map[string]time.Time{}, []time.Duration{}
	ctx, stop := context.WithCancel(t.Context())
	var node sync.WaitGroup
	defer node.Wait()
	defer stop()
	node.Go(func() {
		ackAll(ctx, t, l.queue(), func(job core.JobID) {
			mu.Lock()
			defer mu.Unlock()
			if at, ok := accepted[job.Run]; ok {
				delays = append(delays, time.Since(at))
			}
		})
	})
	peak := heap()
	for i := range 4 {
		one, err := large.Again(fmt.Sprint("large", i), "alice", "", "", time.Now(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Accept(t.Context(), controller.Acceptance{Launch: one, By: "alice"}); err != nil {
			t.Fatal(err)
		}
	}
	l.each(manyRuns, func(i int) error {
		one, err := first.Again(fmt.Sprint("r", i), "bob", "", "", time.Now(), nil)
		if err != nil {
			return err
		}
		mu.Lock()
		accepted[one.Run.ID] = time.Now()
		mu.Unlock()
		_, _, err = l.Accept(t.Context(), controller.Acceptance{Launch: one, By: "bob"})
		return err
	})
	<-l.ended
	size := peak()
	mu.Lock()
	defer mu.Unlock()
	slices.Sort(delays)
	p50, p99 := delays[len(delays)/2], delays[len(delays)*99/100]
	t.Logf("from create to start of %d runs of one host: p50 %v, p99 %v, max %v; heap %d MiB at most", len(delays), p50, p99, delays[len(delays)-1], size>>20)
	if len(delays) != manyRuns || p99 > 30*time.Second || size > 2<<30 {
		t.Errorf("expected %d starts, p99 within 30 s, and a heap of at most 2 GiB", manyRuns)
	}
}

// Many runs are cancelled at the same time: each ends, none of their jobs runs.
func TestLabManyCancelsAtOnce(t *testing.T) {
	l := newLoad(t, manyRuns)
	first := l.launch(spec{id: "first", hosts: 1})
	far := time.Now().Add(24 * time.Hour)
	l.each(manyRuns, func(i int) error {
		one, err := first.Again(fmt.Sprint("r", i), "alice", "", "", time.Now(), nil)
		if err == nil {
			one.Run.Segments = []queue.Segment{{Due: far, Count: 1}}
			_, _, err = l.Accept(t.Context(), controller.Acceptance{Launch: one, By: "alice"})
		}
		return err
	})
	l.until("all are in the queue", func() bool { return l.Load().Watched == manyRuns })
	began := time.Now()
	l.each(manyRuns, func(i int) error {
		_, _, err := l.Cancel(t.Context(), ledger.AllTenants(), "bob", fmt.Sprint("r", i), "wrong day")
		return err
	})
	said := time.Since(began)
	<-l.ended
	t.Logf("%d cancels in %v, all ended and recorded after %v", manyRuns, said, time.Since(began))
	for i := range manyRuns {
		if r := l.run(fmt.Sprint("r", i)); !r.Complete() || r.Outcomes[core.Cancelled] != 1 {
			t.Fatalf("%+v", r)
		}
	}
}
