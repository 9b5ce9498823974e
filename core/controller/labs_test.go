//go:build labs

package controller_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/testparts/servers"
)

// Servers and nodes are killed, Redis is emptied twice: nothing that was accepted is lost, each job
// has one outcome.
func TestLabKillsOverRedisAndPostgreSQL(t *testing.T) {
	r := overReal(t, servers.StartRedisTLS(t))
	c, stop1 := r.server("s1", r.open())
	_, stop2 := r.server("s2", r.open())
	defer func() { stop1(); stop2() }()
	node1, node2 := r.node(r.open(), 8), r.node(r.open(), 8)
	defer func() { node1(); node2() }()
	const hosts = 20
	runs := ids("r", 12)
	for _, id := range runs {
		r.accept(c, spec{id: id, hosts: hosts, more: "strategy: {waves: [2, 100%]}\n"})
	}
	total := len(runs) * hosts
	reach := func(share int) {
		r.until("a part is recorded", func() bool { return r.recorded(runs) >= total*share/100 })
	}
	reach(15)
	r.flush()
	reach(30)
	stop2()
	node2()
	_, stop2 = r.server("s2", r.open())
	reach(45)
	r.flush()
	node2 = r.node(r.open(), 8)
	reach(60)
	stop1()
	_, stop1 = r.server("s3", r.open())
	r.done(runs, hosts)
	if len(r.said(controller.QueueLost)) == 0 {
		t.Error("that the queue was lost was not reported")
	}
}

// Redis comes back with what it had some time ago: jobs run again, their outcomes count once, and
// that is reported. Runs that must not be repeated are paused, and those that ended by the record
// do not begin again.
func TestLabRedisComesBackOlder(t *testing.T) {
	first, second := servers.StartRedisTCP(t), servers.StartRedisTCP(t)
	r := overReal(t, first)
	replica := second.Client()
	defer func() { _ = replica.Close() }()
	host, port, err := net.SplitHostPort(first.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := replica.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	r.until("the copy keeps up", func() bool {
		info, err := replica.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
	c, stop := r.server("s1", r.open())
	defer stop()
	node := r.node(r.open(), 4)
	defer func() { node() }()
	runs := ids("r", 2)
	for _, id := range runs {
		r.accept(c, spec{id: id, hosts: 60})
	}
	r.accept(c, spec{id: "once", hosts: 60, uses: "flash"})
	r.accept(c, spec{id: "over", hosts: 20})
	r.until("a part is recorded", func() bool { return r.recorded(runs) >= 10 && r.run("once").Recorded >= 5 })
	client := first.Client()
	defer func() { _ = client.Close() }()
	if n, err := client.Wait(t.Context(), 1, time.Minute).Result(); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if err := replica.ReplicaOf(t.Context(), "no", "one").Err(); err != nil {
		t.Fatal(err)
	}
	at, once := r.recorded(runs), r.run("once").Recorded
	r.until("more is recorded, which the copy has not", func() bool { return r.recorded(runs) >= at+10 && r.run("once").Recorded >= once+5 })
	r.complete("over")
	node()
	_, ran := r.times("over")
	r.redis.Store(second)
	first.Kill()
	r.until("the run that is over is held", func() bool {
		s, err := r.queue().Status(t.Context(), "over")
		return err == nil && s.Phase != queue.Active
	})
	r.until("the run that must not be repeated is held", func() bool {
		return r.run("once").Phase == ledger.PhasePaused
	})
	node = r.node(r.open(), 4)
	r.complete(runs...)
	if len(r.said(controller.RunRepeated)) == 0 {
		t.Error("that jobs ran twice was not reported")
	}
	// Jobs that were running in the copy are lost, which may have stopped the run.
	if _, _, err := c.Resume(t.Context(), ledger.AllTenants(), "bob", "once", "looked"); err != nil && !errors.Is(err, core.ErrConflict) {
		t.Fatal(err)
	}
	r.complete("once")
	r.until("the run that is over has ended", func() bool {
		s, err := r.queue().Status(t.Context(), "over")
		return err == nil && s.Complete
	})
	if _, again := r.times("over"); again != ran {
		t.Errorf("%d jobs of a run that is over ran again", again-ran)
	}
	r.done(runs, 60)
}

// How many runs and schedules rest, and for how long it is measured; docs/benchmarks.md has the
// long form.
var (
	waitingRuns    = flag.Int("resting.runs", 300, "runs that rest")
	waitingMeasure = flag.Duration("resting.measure", 5*time.Second, "how long it is measured; with the sweep of all runs from 1m on")
)

// Runs in which nothing happens, and schedules that are not due, cost a few requests of the queue
// and next to no CPU, however many they are.
func TestLabWaitingRunsCostNextToNothing(t *testing.T) {
	server := servers.StartRedisTCP(t)
	r := overReal(t, server)
	c, stop := r.server("s1", r.open())
	defer stop()
	n := *waitingRuns
	far := time.Now().Add(24 * time.Hour)
	first := r.launch(spec{id: "first", hosts: 2, more: "strategy: {waves: [1, 100%]}\n"})
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		callers.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				one, err := first.Again(fmt.Sprint("r", i), "alice", "", "", time.Now(), nil)
				if err != nil {
					t.Error(err)
					return
				}
				one.Run.Segments = []queue.Segment{{Due: far, Count: 2}}
				if _, _, err := c.Accept(t.Context(), controller.Acceptance{Launch: one, By: "alice"}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	waiting := make([]schedule.Imported, n)
	for i := range waiting {
		waiting[i].By, waiting[i].State.Since = "alice", time.Now()
		waiting[i].Definition = schedule.Definition{ID: schedule.ID{Tenant: "acme", Name: fmt.Sprint("nightly-", i)}, At: far.Truncate(time.Second)}
	}
	for part := range slices.Chunk(waiting, ledger.MaxPage) {
		if err := schedule.NewControl(r.ledger).Import(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	var engine sync.WaitGroup
	defer engine.Wait()
	defer end()
	engine.Go(func() { schedule.NewEngine(r.ledger, nil, func(schedule.Event) {}).Run(ctx) })
	quiet := time.Now()
	for polls := c.Load().Polls; time.Since(quiet) < 2*time.Second || c.Load().Watched < n; <-time.After(100 * time.Millisecond) {
		if now := c.Load().Polls; now != polls {
			polls, quiet = now, time.Now()
		}
	}
	client := server.Client()
	defer func() { _ = client.Close() }()
	asked := func() (reads int) {
		text, err := client.Info(t.Context(), "stats").Result()
		_, rest, ok := strings.Cut(text, "total_reads_processed:")
		if _, scan := fmt.Sscanf(rest, "%d", &reads); err != nil || !ok || scan != nil {
			t.Fatal(err, scan)
		}
		return reads
	}
	// Requests count in each window. CPU time counts in the cheapest: what else the machine does makes
	// the same work take more of it, and a steady cost has no cheap window.
	cheapest := 1.0
	for window := 0; window < 12 && cheapest > 0.02; window++ {
		before, polls, used, began := asked(), c.Load().Polls, cpu(t), time.Now()
		<-time.After(*waitingMeasure)
		seconds := time.Since(began).Seconds()
		requests, core := float64(asked()-before)/seconds, (cpu(t)-used).Seconds()/seconds
		t.Logf("%d runs and as many schedules: %.1f requests to Redis a second, %.2f %% of a core", n, requests, 100*core)
		if requests > 20 || c.Load().Polls != polls {
			t.Errorf("expected at most 20 requests a second; %d looks", c.Load().Polls-polls)
		}
		cheapest = min(cheapest, core)
	}
	if cheapest > 0.02 {
		t.Error("expected at most 2 % of a core")
	}
}

// cpu returns the time that this process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
