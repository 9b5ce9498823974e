package redis_test

import (
	"errors"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A Redis that comes back with an older state gives no token twice, and none that is below one that
// it gave. The counter alone would give the same tokens again.
func TestFaultR6TokensGrowOverARollback(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	client := server.Client()
	defer func() { _ = client.Close() }()
	q := newQueue(t, client, redis.Options{})
	session := mustOpen(t, q)
	if _, err := queue.SubmitOne(t.Context(), q, queue.Run{ID: "r", Targets: targets("h", 60)}); err != nil {
		t.Fatal(err)
	}
	var last uint64
	lease := func(q *redis.Queue) (grows bool) {
		t.Helper()
		res, err := q.Turn(t.Context(), queue.Turn{Session: session, Want: 20})
		if err != nil || len(res.Leases) != 20 {
			t.Fatalf("%d leases, %v", len(res.Leases), err)
		}
		grows = true
		for _, l := range res.Leases {
			grows = grows && l.Token > last
			last = max(last, l.Token)
		}
		return grows
	}
	lease(q)
	if err := client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	before := last
	if !lease(q) {
		t.Error("tokens do not grow")
	}
	server.Kill()
	older := servers.StartRedis(t, "--appendonly", "no", "--dir", server.Dir).Client()
	defer func() { _ = older.Close() }()
	if kept := seqOf(t, older); kept != before || kept >= last {
		t.Fatalf("the counter is %d, expected %d as it was saved, below %d", kept, before, last)
	}
	back := newQueue(t, older, redis.Options{})
	trust(t, back, session)
	if !lease(back) {
		t.Error("tokens of the older queue do not grow")
	}
}

func seqOf(t *testing.T, c *goredis.Client) uint64 {
	t.Helper()
	n, err := c.HGet(t.Context(), "{/0}:meta2", "seq").Uint64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// trust does what a server does that found nothing amiss, once these sessions have called.
func trust(t *testing.T, q *redis.Queue, sessions ...string) {
	t.Helper()
	d, err := q.Doubt(t.Context())
	if err != nil || d.ID == "" {
		t.Fatalf("the queue doubts %+v after a restart, %v", d, err)
	}
	for _, s := range sessions {
		if _, err := q.Beat(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Trust(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// back is a pool on a Redis that restarted from what it had saved, as each of several processes has
// it.
type back struct {
	t      *testing.T
	server *servers.Redis
	old    *goredis.Client
	before *redis.Queue
}

func newBack(t *testing.T) *back {
	t.Helper()
	server := servers.StartRedis(t)
	client := server.Client()
	t.Cleanup(func() { _ = client.Close() })
	return &back{t, server, client, newQueue(t, client, redis.Options{})}
}

func (b *back) save() {
	b.t.Helper()
	if err := b.old.Save(b.t.Context()).Err(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *back) restart(opt redis.Options) (*redis.Queue, *goredis.Client) {
	b.t.Helper()
	b.server.Kill()
	client := servers.StartRedis(b.t, "--appendonly", "no", "--dir", b.server.Dir).Client()
	b.t.Cleanup(func() { _ = client.Close() })
	return newQueue(b.t, client, opt), client
}

func leases(t *testing.T, q *redis.Queue, session string) (n int, doubt bool) {
	t.Helper()
	res, err := q.Turn(t.Context(), queue.Turn{Session: session, Want: 4})
	if err != nil {
		t.Fatal(err)
	}
	return len(res.Leases), res.Doubt
}

// After a restart nothing is leased until a server trusts what Redis has, and each session that
// lives has called. The control: the same pool, trusted, leases to the same session.
func TestFaultR4NothingIsLeasedAfterARestartUntilAServerTrustsIt(t *testing.T) {
	t.Parallel()
	b := newBack(t)
	worker, silent := mustOpen(t, b.before), mustOpen(t, b.before)
	if n, _ := leases(t, b.before, worker); n != 0 {
		t.Fatal("an empty queue leases")
	}
	mustSubmit(t, b.before, "r", "a", "b")
	b.save()
	q, _ := b.restart(redis.Options{})
	if _, err := q.Preflight(t.Context()); err != nil { // each process that starts does that
		t.Fatal(err)
	}
	fresh := mustOpen(t, q)
	for _, s := range []string{worker, fresh} {
		if n, doubt := leases(t, q, s); n != 0 || !doubt {
			t.Fatalf("session %s was leased %d jobs before anybody compared the queue, doubt %t", s, n, doubt)
		}
	}
	d, err := q.Doubt(t.Context())
	if err != nil || d.ID == "" || d.Older {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := q.Trust(t.Context(), queue.Doubt{ID: "another start"}); err != nil {
		t.Fatal(err)
	}
	if err := q.Trust(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if n, _ := leases(t, q, fresh); n != 0 {
		t.Fatalf("%d jobs were leased while a session that lives had not called", n)
	}
	if _, err := q.Beat(t.Context(), silent); err != nil {
		t.Fatal(err)
	}
	if n, _ := leases(t, q, fresh); n != 2 {
		t.Fatalf("%d jobs were leased by a trusted queue, expected 2", n)
	}
	if d, err := q.Doubt(t.Context()); err != nil || d.ID != "" {
		t.Errorf("%+v, %v", d, err)
	}
}

// A process that was given a lease which Redis has lost shows it: then leases wait for as long as
// workers may continue, whatever a server trusts. The control is a session of the same pool without
// such a lease.
func TestFaultR4AForgottenLeaseShowsThatTheQueueIsOlder(t *testing.T) {
	t.Parallel()
	b := newBack(t)
	s := mustOpen(t, b.before)
	mustSubmit(t, b.before, "r", "a", "b")
	b.save()
	if n, _ := leases(t, b.before, s); n != 2 {
		t.Fatal("nothing was leased")
	}
	q, client := b.restart(redis.Options{})
	d, err := q.Doubt(t.Context())
	if err != nil || d.Older {
		t.Fatalf("%+v, %v, before the worker called", d, err)
	}
	if n, _ := leases(t, q, s); n != 0 {
		t.Fatalf("%d jobs were leased in doubt", n)
	}
	if d, err := q.Doubt(t.Context()); err != nil || d.Older {
		t.Fatalf("%+v, %v, though the process that called has no lease", d, err)
	}
	redis.Remember(q, b.before)
	if n, _ := leases(t, q, s); n != 0 {
		t.Fatalf("%d jobs were leased in doubt", n)
	}
	if d, err = q.Doubt(t.Context()); err != nil || !d.Older {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := q.Trust(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if n, _ := leases(t, q, s); n != 0 {
		t.Fatalf("%d jobs were leased immediately by a queue that is known to be older", n)
	}
	// The doubt ends by age, which passes between calls.
	age, err := client.HGet(t.Context(), "{/0}:meta2", "age").Int64()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.HSet(t.Context(), "{/0}:meta2", "until", age).Err(); err != nil {
		t.Fatal(err)
	}
	if n, _ := leases(t, q, s); n != 2 {
		t.Errorf("%d jobs were leased after the doubt ended", n)
	}
}

// A guest that Redis has forgotten enters again before any other, and its fence shows that changes
// were lost, whatever a server trusts. The control is another guest, who enters after it has left.
func TestFaultR4AForgottenGuestComesBackBeforeOthers(t *testing.T) {
	t.Parallel()
	b := newBack(t)
	s := mustOpen(t, b.before)
	mustSubmit(t, b.before, "r", "a", "b")
	res, err := b.before.Turn(t.Context(), queue.Turn{Session: s, Want: 2})
	if err != nil || len(res.Leases) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	b.save()
	first := queue.Guest{Session: s, Job: res.Leases[0].Job, Token: res.Leases[0].Token, Host: "lb"}
	other := queue.Guest{Session: s, Job: res.Leases[1].Job, Token: res.Leases[1].Token, Host: "lb"}
	if first.Fence, err = b.before.Enter(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	q, client := b.restart(redis.Options{})
	if fence, err := q.Enter(t.Context(), other); !errors.Is(err, core.ErrUnavailable) {
		t.Fatalf("another guest after a restart: fence %d, %v", fence, err)
	}
	redis.Remember(q, b.before)
	leases(t, q, s)
	d, err := q.Doubt(t.Context())
	if err != nil || !d.Older {
		t.Fatalf("%+v, %v, though a guest was forgotten", d, err)
	}
	if err := q.Trust(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if fence, err := q.Enter(t.Context(), other); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("another guest of a queue that is older: fence %d, %v", fence, err)
	}
	if fence, err := q.Enter(t.Context(), first); err != nil || fence != first.Fence {
		t.Errorf("the guest again: fence %d, %v", fence, err)
	}
	if err := client.HSet(t.Context(), "{/0}:meta2", "until", 1).Err(); err != nil { // the doubt ends
		t.Fatal(err)
	}
	if fence, err := q.Enter(t.Context(), other); err != nil || fence != 0 {
		t.Errorf("two guests after the doubt: fence %d, %v", fence, err)
	}
	if err := q.Leave(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if fence, err := q.Enter(t.Context(), other); err != nil || fence <= first.Fence {
		t.Errorf("the next guest: fence %d after %d, %v", fence, first.Fence, err)
	}
}

// A session that Redis has forgotten, with its leases, shows that as well. The tokens of a queue
// that was emptied prove nothing of the next one: they may be higher, after the clock was set back.
// Red where seen stays.
func TestFaultR4AForgottenSessionShowsThatTheQueueIsOlder(t *testing.T) {
	t.Parallel()
	b := newBack(t)
	mustSubmit(t, b.before, "r", "a", "b")
	b.save()
	s := mustOpen(t, b.before)
	if n, _ := leases(t, b.before, s); n != 2 {
		t.Fatal("nothing was leased")
	}
	q, client := b.restart(redis.Options{})
	redis.Remember(q, b.before)
	if _, err := q.Turn(t.Context(), queue.Turn{Session: s}); !errors.Is(err, core.ErrSessionGone) {
		t.Fatal(err)
	}
	if d, err := q.Doubt(t.Context()); err != nil || !d.Older {
		t.Fatalf("%+v, %v", d, err)
	}
	redis.Remember(q, b.before)
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Beat(t.Context(), s); !errors.Is(err, core.ErrSessionGone) {
		t.Fatal(err)
	}
	if d, err := q.Doubt(t.Context()); err != nil || d.ID != "" {
		t.Fatalf("an emptied queue: %+v, %v", d, err)
	}
	for _, to := range [][]string{{"127.0.0.1", "1"}, {"NO", "ONE"}} { // it never gets there
		if err := client.ReplicaOf(t.Context(), to[0], to[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	leases(t, q, mustOpen(t, q))
	if d, err := q.Doubt(t.Context()); err != nil || d.ID == "" || d.Older {
		t.Errorf("promoted after it was emptied: %+v, %v", d, err)
	}
}

// A promoted replica is doubted as a restart is, and a user that may not call INFO is not.
func TestFaultR4APromotedReplicaIsDoubted(t *testing.T) {
	t.Parallel()
	b := newBack(t)
	s := mustOpen(t, b.before)
	mustSubmit(t, b.before, "r", "a", "b")
	if n, _ := leases(t, b.before, s); n != 2 {
		t.Fatal("nothing was leased")
	}
	if err := b.old.ReplicaOf(t.Context(), "127.0.0.1", "1").Err(); err != nil { // it never gets there
		t.Fatal(err)
	}
	if err := b.old.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	if d, err := b.before.Doubt(t.Context()); err != nil || d.ID == "" || d.Older {
		t.Errorf("%+v, %v", d, err)
	}
	blind := b.server.Client()
	defer func() { _ = blind.Close() }()
	if err := blind.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">blind", "~*", "+@all", "-info").Err(); err != nil {
		t.Fatal(err)
	}
	opt := *blind.Options()
	opt.Username, opt.Password = "blind", "blind"
	user := goredis.NewClient(&opt)
	defer func() { _ = user.Close() }()
	q := newQueue(t, user, redis.Options{Pool: "other"})
	if _, err := q.Turn(t.Context(), queue.Turn{Session: mustOpen(t, q), Want: 1}); err != nil {
		t.Errorf("without INFO: %v", err)
	}
	if d, err := q.Doubt(t.Context()); err != nil || d.ID != "" {
		t.Errorf("without INFO: %+v, %v", d, err)
	}
}
