//go:build labs

package controller_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
)

// real is a lab over Redis and PostgreSQL, where Redis can be exchanged behind everybody's back.
type real struct {
	*lab
	redis atomic.Pointer[servers.Redis]
	ttl   time.Duration // of nodes' sessions; queue.SessionTTL when zero
}

func overReal(t *testing.T, server *servers.Redis) *real {
	t.Helper()
	start := servers.StartPostgres
	if server.Guard.Secure() {
		start = servers.StartPostgresTLS
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
func (r *real) open() encrypted.Backend {
	r.Helper()
	client := goredis.NewClient(&goredis.Options{
		MaxRetries: -1, DialTimeout: time.Second, Username: servers.RedisUser, Password: servers.Password,
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
	c, err := controller.New(controller.Config{Name: "doctor", Ledger: r.ledger, Queue: r.open(), Board: r.open(), Types: types})
	if err != nil {
		r.Fatal(err)
	}
	if found, err := c.Check(r.Context(), false); err != nil || len(found) > 0 {
		r.Errorf("doctor: %+v, %v", found, err)
	}
}

// Any number of servers find an emptied queue at the same time: each run is in it once.
func TestLabManyServersRebuildAtOnce(t *testing.T) {
	r := overReal(t, servers.StartRedisTCP(t))
	r.ttl = 15 * time.Second // a node that is slow is none that died, whose jobs would run again; as long nothing starts in an emptied queue
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
