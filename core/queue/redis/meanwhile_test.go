package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/testparts/servers"
)

// meanwhile calls do before each command that has word as an argument.
type meanwhile struct {
	word string
	do   func()
}

func (m *meanwhile) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (m *meanwhile) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if m.do != nil && slices.Contains(cmd.Args(), any(m.word)) {
			m.do()
		}
		return next(ctx, cmd)
	}
}

func (m *meanwhile) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// watched is a bench, and a hook that acts before commands of its queue.
func watched(t *testing.T) (bench, *meanwhile) {
	t.Helper()
	server := servers.StartRedis(t)
	c, user, m := server.Client(), server.User(t), &meanwhile{}
	t.Cleanup(func() { _ = c.Close() })
	user.AddHook(m)
	q, err := New(user, Options{SessionTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return bench{t, q, c}, m
}

// TestCheckWhileWorkersEndJobs: jobs that end between the calls of a check are not taken for lost.
func TestCheckWhileWorkersEndJobs(t *testing.T) {
	t.Parallel()
	b, m := watched(t)
	s := b.open()
	for id, hosts := range map[string]int{"small": 3, "large": 9} {
		b.submit(id, hosts)
		leases, calls := b.lease(s, hosts), 0
		m.word, m.do = id, func() {
			if calls++; calls > 1 && len(leases) > 1 {
				l := leases[:1]
				leases = leases[1:]
				b.ack(s, l, nil)
			}
		}
		found, err := b.q.Check(b.Context(), true)
		m.do = nil
		b.must(err)
		if len(found) > 0 || len(leases) != 1 {
			b.Errorf("run %s, with %d jobs that did not end meanwhile: Check: %v", id, len(leases), found)
		}
		if st := b.status(id); st.Phase != queue.Active || st.InFlight != 1 {
			b.Errorf("after the check: %+v", st)
		}
	}
	b.sound()
}

// TestCheckOfARunThatIsSubmittedAgain: the log of the run before does not count for the new one.
func TestCheckOfARunThatIsSubmittedAgain(t *testing.T) {
	t.Parallel()
	b, m := watched(t)
	s, calls := b.open(), 0
	b.submit("r", 9)
	b.ack(s, b.lease(s, 5), nil)
	m.word, m.do = "r", func() {
		if calls++; calls != 2 { // the first call asks for the log
			return
		}
		m.do = nil
		b.must(queue.AdjustOne(b.Context(), b.q, "r", queue.Adjust{Paused: new(true)}))
		if gone, err := b.q.Drop(b.Context(), "r", 7); err != nil || !gone {
			b.Fatal("the run was not dropped", err)
		}
		b.submit("r", 9, func(r *queue.Run) { r.FinishedJobs = []queue.FinishedJobs{{Count: 7, Outcome: core.Changed}} })
	}
	found, err := b.q.Check(b.Context(), true)
	m.do = nil
	if err != nil || len(found) > 0 || calls != 2 {
		b.Errorf("after %d calls: %v, %v", calls, found, err)
	}
	if st := b.status("r"); st.Phase != queue.Active || st.Pending != 2 {
		b.Errorf("after the check: %+v", st)
	}
	b.sound()
}

// TestUploadThatExpired: a run of which a part has expired before it is accepted is refused, and
// may be submitted again.
func TestUploadThatExpired(t *testing.T) {
	t.Parallel()
	b, m := watched(t)
	for _, gone := range []func(no int64){
		func(no int64) { b.do("del", b.run(no, "xTargets")) },
		func(no int64) { b.do("hdel", b.run(no, "xTargets"), 0) },
	} {
		r := queue.Run{ID: "r", Tenant: "ten", Payload: make([]byte, 2*inlineBytes)}
		for i := range 100 {
			r.Targets = append(r.Targets, queue.Target{Host: strconv.Itoa(i)})
		}
		var no int64
		m.word, m.do = r.ID, func() {
			no, _ = b.c.HGet(b.Context(), b.key("kMeta"), "run").Int64()
			gone(no)
		}
		_, err := queue.SubmitOne(b.Context(), b.q, r)
		m.do = nil
		if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "may be submitted again") {
			b.Errorf("a run whose upload expired: %v", err)
		}
		b.has("0", "exists", b.run(no, ""), b.run(no, "xTargets"), b.run(no, "xPayload"), b.key("kIDs"), b.key("kTenants"))
	}
	b.submit("r", 100, func(r *queue.Run) { r.Payload = make([]byte, 2*inlineBytes) })
	if n := len(b.lease(b.open(), 100)); n != 100 {
		b.Errorf("%d jobs were leased", n)
	}
	b.sound()
}
