package controller_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/ledger/pgtest"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/queue/redis/redistest"
)

// real is a lab over Redis and PostgreSQL, where Redis can be exchanged behind everybody's back.
type real struct {
	*lab
	redis atomic.Pointer[redistest.Server]
	ttl   time.Duration // of nodes' sessions; queue.SessionTTL when zero
}

func overReal(t *testing.T, server *redistest.Server) *real {
	t.Helper()
	start := pgtest.Start
	if server.Guard.Secure() {
		start = pgtest.StartTLS
	}
	store, err := ledger.Open(t.Context(), start(t).Database(t), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &real{}
	r.redis.Store(server)
	r.lab = &lab{TB: t, ledger: store, took: 100 * time.Millisecond, ran: map[core.JobID]int{}, leased: map[core.JobID]int{}}
	r.q = r.open()
	return r
}

// open is a queue with connections of its own, as each process has.
func (r *real) open() queue.Queue {
	r.Helper()
	client := goredis.NewClient(&goredis.Options{
		MaxRetries: -1, DialTimeout: time.Second, Username: redistest.User, Password: redistest.Password,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.redis.Load().Open(ctx) },
	})
	r.Cleanup(func() { _ = client.Close() })
	q, err := redis.New(client, redis.Options{SessionTTL: r.ttl})
	if err != nil {
		r.Fatal(err)
	}
	return q
}

func (r *real) flush() {
	r.Helper()
	client := r.redis.Load().Client()
	defer func() { _ = client.Close() }()
	if err := client.FlushAll(r.Context()).Err(); err != nil {
		r.Fatal(err)
	}
}

func (r *real) recorded(ids []string) (n int) {
	for _, id := range ids {
		n += r.run(id).Recorded
	}
	return n
}

// done checks that every job has one outcome, and that the doctor finds nothing.
func (r *real) done(runs []string, hosts int) {
	r.Helper()
	r.complete(runs...)
	for _, id := range runs {
		if got := r.run(id); got.Outcomes[core.Changed] != hosts || got.Recorded != hosts {
			r.Errorf("run %s: %+v", id, got)
		}
	}
	c, err := controller.New(controller.Config{Name: "doctor", Ledger: r.ledger, Queue: r.open(), Types: types})
	if err != nil {
		r.Fatal(err)
	}
	if found, err := c.Check(r.Context(), false); err != nil || len(found) > 0 {
		r.Errorf("doctor: %+v, %v", found, err)
	}
}

// Servers and nodes are killed, Redis is emptied twice: nothing that was accepted is lost, each job has one outcome.
func TestKillsOverRedisAndPostgreSQL(t *testing.T) {
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
func TestRedisComesBackOlder(t *testing.T) {
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
	if _, err := c.Resume(t.Context(), ledger.AllTenants(), "bob", "once", "looked"); err != nil && !errors.Is(err, core.ErrConflict) {
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

// Any number of servers find an emptied queue at once: each run is in it once.
func TestManyServersRebuildAtOnce(t *testing.T) {
	r := overReal(t, redistest.StartTCP(t))
	r.ttl = time.Hour // a node that is slow is none that died, whose jobs would run again
	var stops []func()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	var c *controller.Controller
	for i := range 4 {
		one, stop := r.server("s"+string(rune('0'+i)), r.open())
		c, stops = one, append(stops, stop)
	}
	runs := ids("r", 40)
	for _, id := range runs {
		r.accept(c, spec{id: id, hosts: 1 + rand.IntN(3)})
	}
	active := func() bool {
		for _, id := range runs {
			if s, err := r.queue().Status(t.Context(), id); err != nil || s.Phase != queue.Active {
				return false
			}
		}
		return true
	}
	r.until("all are queued", active)
	r.flush()
	r.until("all are queued again", active)
	if s, err := r.queue().Stats(t.Context()); err != nil || s.Runs != len(runs) {
		t.Errorf("%+v, %v", s, err)
	}
	defer r.node(r.open(), 50)()
	r.complete(runs...)
	for _, id := range runs {
		if most, _ := r.times(id); most != 1 {
			t.Errorf("a job of run %s ran %d times", id, most)
		}
	}
	r.sound()
}
