//go:build labs

package controller_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis/redistest"
)

// Servers and nodes are killed, Redis is emptied twice: nothing that was accepted is lost, each job has one outcome.
func TestLabKillsOverRedisAndPostgreSQL(t *testing.T) {
	r := overReal(t, redistest.StartTLS(t))
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
		t.Error("that the queue was lost was not said")
	}
}

// Redis comes back with what it had some time ago: jobs run again, their outcomes count once, and it is told. What must not be
// repeated is held, and what is over by the record is not begun again.
func TestLabRedisComesBackOlder(t *testing.T) {
	first, second := redistest.StartTCP(t), redistest.StartTCP(t)
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
		t.Error("that jobs ran twice was not said")
	}
	// Jobs that were running in the copy are lost, which may have stopped the run by now.
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

// Runs in which nothing happens cost the queue a few requests a second, however many they are.
func TestLabRestingRunsAskNothingOfTheQueue(t *testing.T) {
	server := redistest.StartTCP(t)
	r := overReal(t, server)
	c, stop := r.server("s1", r.open())
	defer stop()
	const n = 300
	far := time.Now().Add(24 * time.Hour)
	for _, id := range ids("r", n) {
		one := r.launch(spec{id: id, hosts: 2, more: "strategy: {waves: [1, 100%]}\n"})
		one.Run.Segments = []queue.Segment{{Due: far, Count: 2}}
		r.put(c, one)
	}
	r.until("all are in the queue", func() bool { return len(r.said(controller.RunEnqueued)) == n })
	client := server.Client()
	defer func() { _ = client.Close() }()
	quiet := time.Now()
	for looks := c.Load().Looks; time.Since(quiet) < 2*time.Second; <-time.After(100 * time.Millisecond) {
		if now := c.Load().Looks; now != looks {
			looks, quiet = now, time.Now()
		}
	}
	asked := func() (calls int) {
		text, err := client.Info(t.Context(), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			name, rest, _ := strings.Cut(line, ":calls=")
			var count int
			if _, err := fmt.Sscanf(rest, "%d,", &count); err == nil && (strings.HasPrefix(name, "cmdstat_eval") || strings.HasPrefix(name, "cmdstat_fcall") || name == "cmdstat_xread" || name == "cmdstat_blpop") {
				calls += count
			}
		}
		return calls
	}
	const seconds = 5
	before, looks := asked(), c.Load().Looks
	<-time.After(seconds * time.Second)
	if calls := asked() - before; calls > 20*seconds || c.Load().Looks != looks {
		t.Errorf("%d requests and %d looks in %d s", calls, c.Load().Looks-looks, seconds)
	} else {
		t.Logf("%.1f requests a second", float64(calls)/seconds)
	}
}
