//go:build labs

package controller_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/testparts/servers"
)

// Runs of one host, from accepted to recorded: creates by 64 callers, then what a server and a
// worker make of them.
func BenchmarkRunsOfOneHost(b *testing.B) {
	for name, url := range map[string]func() string{
		"sqlite":     func() string { return "sqlite:" + b.TempDir() + "/ledger.db" },
		"postgresql": func() string { return servers.StartPostgres(b).Database(b) },
	} {
		b.Run(name, func(b *testing.B) { runsOfOneHost(b, url()) })
	}
}

func runsOfOneHost(b *testing.B, url string) {
	store, err := ledger.Open(b.Context(), url, ledger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	l := &lab{TB: b, ledger: store, q: q, ran: map[core.JobID]int{}, leased: map[core.JobID]int{}}
	first := l.launch(spec{id: "first", hosts: 1})
	var ended atomic.Int64
	done := make(chan struct{})
	c, err := controller.New(controller.Config{Name: "s", Ledger: store, Queue: q, Board: q, Types: types, Events: func(e controller.Event) {
		if e.Kind == controller.RunEnded && ended.Add(1) == int64(b.N) {
			close(done)
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		callers.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				one, err := first.Again(fmt.Sprint("r", i), "alice", "", "", time.Now(), nil)
				if err == nil {
					_, _, err = c.Accept(b.Context(), controller.Acceptance{Launch: one, By: "alice"})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	created := b.Elapsed()
	ctx, stop := context.WithCancel(b.Context())
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	parts.Go(func() { _ = c.Run(ctx) })
	parts.Go(func() { ackAll(ctx, b, q, func(core.JobID) {}) })
	<-done
	b.ReportMetric(float64(b.N)/created.Seconds(), "creates/s")
	b.ReportMetric(float64(b.N)/(b.Elapsed()-created).Seconds(), "finished/s")
}

// ackAll is a node on which each job is done immediately.
func ackAll(ctx context.Context, b testing.TB, q encrypted.Backend, leased func(core.JobID)) {
	s, err := q.Open(ctx, "node")
	if err != nil {
		b.Error(err)
		return
	}
	var acks []queue.Ack
	for ctx.Err() == nil {
		res, err := q.Turn(ctx, queue.Turn{Session: s, Acks: acks, Want: 256})
		if err != nil {
			return
		}
		acks = nil
		for _, lease := range res.Leases {
			leased(lease.Job)
			detail, err := launch.EncodeResult(core.Result{Job: lease.Job, Host: lease.Host, Outcome: core.Changed, Attempt: 1, Worker: "node", Started: time.Now()})
			if err != nil {
				b.Error(err)
				return
			}
			acks = append(acks, queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed, Detail: detail})
		}
		if len(res.Leases) == 0 {
			_ = q.Wait(ctx, s, time.Now().Add(time.Second))
		}
	}
}
