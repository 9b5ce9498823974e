package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts/servers"
)

func turnLeases(b bench) {
	s := b.open()
	no := b.submit("r", 10, func(r *queue.Run) { r.Tenant = "ten" })
	res := b.turn(s, 4)
	if len(res.Leases) != 4 || !res.More || res.Leases[3].Token != res.Leases[0].Token+3 || res.Now.IsZero() || !res.Next.IsZero() {
		b.Fatalf("turn: %+v", res)
	}
	job := strconv.FormatInt(no, 10) + "/"
	b.has("1", "hexists", b.leases(s), job+"0")
	b.has("5", "hlen", b.leases(s)) // and the entry that keeps it a hash table
	b.has(job+"0", "hget", b.key("kLocks"), "h\x03r-0")
	b.has("4", "hget", b.key("pTenant")+"1", "i")
	if st := b.status("r"); st.InFlight != 4 {
		b.Errorf("in flight %d, expected 4", st.InFlight)
	}
	late := res.Leases[0]
	late.Token--
	stale := b.turn(s, 0, done(late), done(res.Leases[1]), done(res.Leases[1]), done(queue.Lease{Job: core.JobID{Run: "none"}}),
		done(queue.Lease{Job: core.JobID{Run: "r", Index: -1}}), done(queue.Lease{Job: core.JobID{Run: "r", Index: 9}}))
	if got := fmt.Sprint(stale.Stale); got != "[r/0 r/1 none/0 r/-1 r/9]" {
		b.Errorf("stale: %s", got)
	}
	b.has("0", "hexists", b.leases(s), job+"1")
	b.has("4", "hlen", b.key("kLocks")) // three, and the entry that keeps it a hash table
	b.has("1", "xlen", b.run(no, "xLog"))
	b.has("0", "exists", b.run(no, "xJobs"))
	b.sound()
}

func done(l queue.Lease) queue.Ack {
	return queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed}
}

func turnRefuses(b bench) {
	s := b.open()
	b.submit("r", 10)
	l := b.lease(s, 1)[0]
	b.expire(s)
	b.unchanged("turn of a session that is gone", func() {
		b.returns(b.q.scripts.turn, "GONE", s, 5, 1000000, packAcks([]queue.Ack{done(l)}))
		if _, err := b.q.Turn(b.Context(), queue.Turn{Session: "never", Want: 1}); !errors.Is(err, core.ErrSessionGone) {
			b.Errorf("a session that never was: %v", err)
		}
	})
}

func turnReapsBounded(b bench) {
	dead, s := b.open(), b.open()
	no := b.submit("r", 100)
	b.lease(dead, 100)
	b.expire(dead)
	for _, left := range []int{68, 36, 4} {
		b.turn(s, 0)
		if n := b.status("r").InFlight; n != left {
			b.Errorf("in flight %d, expected %d", n, left)
		}
	}
	b.turn(s, 0)
	b.has("100", "hlen", b.run(no, "xJobs"))
	b.has("0", "exists", b.leases(dead))
	b.has("1", "zcard", b.key("kSessions"))
	b.has("1", "hget", b.key("kMeta"), "reaped")
	b.sound()
}

func turnSweepsBounded(b bench) {
	s := b.open()
	no := b.submit("r", 202, func(r *queue.Run) { r.StopAfter = 1 })
	l := b.lease(s, 202)
	b.ack(s, l[:200], func(a *queue.Ack) { a.Kind, a.After = queue.AckReturn, time.Hour })
	b.ack(s, l[200:201], func(a *queue.Ack) { a.Outcome = core.Failed })
	for _, want := range []int{64, 128, 192, 200, 200} {
		if got := b.status("r").Outcomes[core.Cancelled]; got != want {
			b.Errorf("%d were cancelled, expected %d", got, want)
		}
		b.turn(s, 0)
	}
	b.has("0", "exists", b.key("kSweep"), b.run(no, "xWaiting"))
	b.sound()
}

func turnActivatesBounded(b bench) {
	s := b.open()
	no := b.submit("r", 200)
	b.ack(s, b.lease(s, 200), func(a *queue.Ack) { a.Kind, a.After = queue.AckReturn, time.Hour })
	for i := range 200 {
		b.do("zadd", b.run(no, "xWaiting"), "xx", 1, i)
	}
	b.do("zadd", b.key("kDue"), "xx", 1, no)
	for _, want := range []string{"64", "128", "192", "200"} {
		res := b.turn(s, 0)
		b.has(want, "zcard", b.run(no, "xQueue"))
		if !res.More {
			b.Errorf("a turn that left work did not report that")
		}
	}
	b.has("0", "exists", b.run(no, "xWaiting"), b.key("kDue"))
	b.sound()
}

func turnLocks(b bench) {
	s := b.open()
	first := b.submit("a", 2, func(r *queue.Run) {
		r.Disruptive, r.PerGroup = true, 1
		r.Targets[0].HAGroup, r.Targets[1].HAGroup, r.Targets[0].Group = "pair", "pair", "site"
	})
	l := b.lease(s, 1)
	job := strconv.FormatInt(first, 10) + "/0"
	b.has(job, "hget", b.key("kLocks"), "h\x03a-0")
	b.has(job, "hget", b.key("kLocks"), "g\x04pair")
	b.has("1", "zcard", b.run(first, "xPlaces"))
	if res := b.turn(s, 1); len(res.Leases) != 0 {
		b.Fatalf("leased %v in a group that is taken", res.Leases)
	}
	b.has("1", "zcard", b.key("kWait"))
	b.has("1", "hlen", b.run(first, "xBlocked"))
	b.ack(s, l, nil)
	b.has("0", "exists", b.key("kWait"), b.run(first, "xBlocked"), b.run(first, "xPlaces"))
	b.has("1", "hlen", b.run(first, "xHeirs"))
	b.has(strconv.FormatInt(first, 10)+"/1", "hget", b.key("kLocks"), "g\x04pair")
	b.ack(s, b.lease(s, 1), nil)
	b.has("1", "hlen", b.key("kLocks"))
	b.sound()
}

// turnFairAfterYears: runs of a tenant that had years of worker time take turns like any others.
func turnFairAfterYears(b bench) {
	b.submit("old", 9)
	s := b.open()
	b.ack(s, b.lease(s, 9), nil)
	b.do("hset", b.key("pTenant")+"1", "v", (1000 * 24 * time.Hour).Microseconds())
	b.submit("a", 9)
	b.submit("b", 9)
	b.submit("c", 9)
	order := ""
	for range 9 {
		l := b.lease(s, 1)
		order += l[0].Job.Run
		b.do("hincrby", b.key("kMeta"), "age", (10 * time.Minute).Microseconds())
		b.ack(s, l, nil)
	}
	if order != "abcabcabc" {
		b.Errorf("leased in the order %s, expected each run in its turn", order)
	}
	b.sound()
}

// TestRankOfScripts: the scripts rank as queue.Rank does.
func TestRankOfScripts(t *testing.T) {
	t.Parallel()
	q, err := New(servers.StartRedis(t).User(t), Options{SessionTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	bench{t, q, nil}.must(q.takeOver(t.Context()))
	names := luaNames(time.Hour)
	var text [2]string
	for i, name := range []string{"head", "base"} {
		if text[i], err = luaFile(name); err != nil {
			t.Fatal(err)
		}
	}
	base := split(text[1], names)
	writeOut(base, names)
	rank := redisconn.NewScript("rank", assemble(text[0], "return format('%d', rank(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])))\n", names, base))
	rapid.Check(t, func(rt *rapid.T) {
		inFlight := rapid.IntRange(0, 1_000_000).Draw(rt, "in flight")
		weight := rapid.IntRange(1, queue.MaxWeight).Draw(rt, "weight")
		tag := rapid.Int64Range(-1<<20, 1<<rapid.IntRange(1, 39).Draw(rt, "bits")).Draw(rt, "tag")
		got, err := q.eval(context.Background(), rank, inFlight, weight, tag*queue.TagUnit.Microseconds()+rapid.Int64Range(0, 9999).Draw(rt, "µs"))
		if want := strconv.FormatInt(queue.Rank(inFlight, weight, tag), 10); err != nil || got != want {
			rt.Fatalf("rank(%d, %d, %d) is %v, %v, expected %s", inFlight, weight, tag, got, err, want)
		}
	})
}

func poolMends(b bench) {
	s := b.open()
	b.submit("r", 3)
	b.lease(s, 1)
	b.sound()
	b.do("hset", b.key("kLocks"), "h\x05ghost", "99/1")
	b.do("hset", b.key("pTenant")+"1", "i", 7)
	b.do("hset", b.key("kMeta"), "run", 0)
	b.unchanged("pool without repair", func() {
		if got := b.call(b.q.scripts.pool, 0, 0, 1).([]any); len(got) != 3 {
			b.Errorf("pool finds %q, expected 3 things", got)
		}
	})
	b.call(b.q.scripts.pool, 1, 0, 1)
	b.returns(b.q.scripts.pool, "[]", 0, 0, 1)
	b.has("0", "hexists", b.key("kLocks"), "h\x05ghost")
	b.has("1", "hget", b.key("pTenant")+"1", "i")
	b.has("1", "hget", b.key("kMeta"), "run")
	b.sound()
}

// poolFindsNewRuns: a run that is submitted while Check reads which runs there are is not taken for
// one whose record is gone.
func poolFindsNewRuns(b bench) {
	old := b.submit("old", 3)
	b.submit("small", 3)
	b.submit("large", 9)
	b.returns(b.q.scripts.pool, "[]", 1, 0, old)
	if st := b.status("large"); st.Pending != 9 {
		b.Errorf("after the repair: %+v", st)
	}
	b.sound()
}

func tidyMends(b bench) {
	s := b.open()
	no := b.submit("r", 8)
	l := b.lease(s, 4)
	b.ack(s, l[:1], nil)
	b.sound()
	b.do("hdel", b.key("kLocks"), "h\x03r-1")
	b.do("hdel", b.leases(s), strconv.FormatInt(no, 10)+"/2") // a lease that is nowhere
	b.do("zrem", b.key("pTenant")+"1"+b.key("xReady"), fmt.Sprintf("10%014d", no))
	b.unchanged("Check without repair", func() {
		found, err := b.q.Check(b.Context(), false)
		if err != nil || len(found) < 4 {
			b.Errorf("Check: %v, %v", found, err)
		}
	})
	for range 3 {
		_, err := b.q.Check(b.Context(), true)
		b.must(err)
	}
	b.sound()
	if st := b.status("r"); st.InFlight != 2 || st.Pending != 5 {
		b.Errorf("after repair: %+v", st)
	}
	if res := b.turn(s, 0, done(l[2])); len(res.Stale) != 1 {
		b.Errorf("the ack of a lease that was lost is not stale")
	}
	if n := len(b.lease(s, 5)); n != 5 {
		b.Errorf("%d leased", n)
	}
}

// tidyMendsDeferred is the negative control of Check for the deferred: each damage is found, and
// mended so that the count is right and every job is signalled.
func tidyMendsDeferred(b bench) {
	s := b.open()
	no := b.submit("r", 20, func(r *queue.Run) {
		r.Segments, r.Limit = []queue.Segment{{Count: 4}, {Due: time.Now().Add(time.Hour), Count: 8}, {Due: time.Now().Add(2 * time.Hour), Count: 8}}, 14
	})
	b.ack(s, b.lease(s, 4), func(a *queue.Ack) {
		if a.Kind, a.Event = queue.AckSuspend, queue.EventWindow; a.Job.Index == 0 {
			a.Event = "e"
		}
	})
	window := func(idx byte) string { return "\x06" + queue.EventWindow + "\x00\x00\x00" + string(rune(idx)) }
	events, late := b.run(no, "xEvents"), []any{"hincrby", b.run(no, ""), "l"}
	for _, tc := range []struct {
		what   string
		damage []any
		left   int // deferred after the repair
	}{
		{"a count too high", append(late, 3), 13},
		{"a count too low", append(late, -20), 13},
		{"no count", []any{"hdel", b.run(no, ""), "l"}, 13},
		{"a segment not listed by index", []any{"zrem", b.run(no, "xByIndex"), "12:20"}, 13},
		{"no list by index", []any{"del", b.run(no, "xByIndex")}, 13},
		{"a list by index with a stranger", []any{"zadd", b.run(no, "xByIndex"), 3, "3:4"}, 13},
		{"a job not listed for its event", []any{"zrem", events, window(2)}, 13},
		{"no job listed for its event", []any{"del", events}, 13},
		{"a job listed for an event that is not suspended", []any{"zadd", events, 0, window(9)}, 13},
		{"a job listed for an event that is not its own", []any{"zadd", events, 0, window(0)}, 13},
		{"a job that waits for nothing", []any{"eval", "redis.call('hdel', KEYS[1], 3); return redis.call('zrem', KEYS[2], ARGV[1])", 2, b.run(no, "xJobs"), events, window(3)}, 12},
	} {
		b.sound()
		b.do(tc.damage...)
		if found, err := b.q.Check(b.Context(), false); err != nil || len(found) == 0 {
			b.Errorf("%s: Check: %v, %v", tc.what, found, err)
		}
		_, err := b.q.Check(b.Context(), true)
		b.must(err)
		b.sound()
		if got := b.status("r").Deferred; got != tc.left {
			b.Errorf("%s: after the repair %d are deferred, expected %d", tc.what, got, tc.left)
		}
	}
	n, err := b.q.Signal(b.Context(), "r", queue.EventWindow)
	b.must(err)
	if got := b.status("r"); n != 2 || got.Deferred != 10 || got.Suspended != 1 {
		b.Errorf("signalled %d, then %+v", n, got)
	}
	b.must(queue.AdjustOne(b.Context(), b.q, "r", queue.Adjust{Limit: new(0)}))
	if got := b.status("r").Deferred; got != 16 {
		b.Errorf("all released, %d are deferred, expected 16", got)
	}
	b.sound()
}

// TestPackedTargetsComeBack: Lua reads every target as Go packed it.
func TestPackedTargetsComeBack(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	c := server.Client()
	t.Cleanup(func() { _ = c.Close() })
	q, err := New(server.User(t), Options{SessionTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		turnReadsTargets(bench{t, q, c}, rt, "run"+strconv.Itoa(n))
	})
}

// TestTrapClientClockIsNeverSent // db-scheduler#433: no argument of a turn, a beat or a wait is a
// time of the client.
func TestTrapClientClockIsNeverSent(t *testing.T) {
	t.Parallel()
	c := servers.StartRedis(t).User(t)
	watch := &sent{}
	c.AddHook(watch)
	q, err := New(c, Options{SessionTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	watch.q = q
	b := bench{t, q, c}
	s := b.open()
	b.submit("r", 5)
	l := b.lease(s, 5)
	b.ack(s, l, func(a *queue.Ack) { a.Kind, a.After = queue.AckReturn, time.Hour })
	_, err = q.Beat(t.Context(), s)
	b.must(err)
	b.must(q.Wait(t.Context(), s, time.Now().Add(time.Millisecond)))
	b.must(q.Cancel(t.Context(), "r", ""))
	b.must(q.Close(t.Context(), s))
	if watch.times > 0 || watch.n == 0 {
		t.Errorf("%d of %d arguments are times of the client's clock", watch.times, watch.n)
	}
	// Negative control: a due time, which the user gives, is found.
	b.submit("timed", 9, func(r *queue.Run) { r.Segments = []queue.Segment{{Due: time.Now().Add(time.Hour), Count: 9}} })
	if watch.times == 0 {
		t.Errorf("the search finds no time where there is one")
	}
}

// sent counts arguments that could be a time of about now, in any unit.
type sent struct {
	n, times int
	q        *Queue // its token comes from the queue's clock
}

func (s *sent) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (s *sent) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		s.poll(cmd.Args())
		return next(ctx, cmd)
	}
}

func (s *sent) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

func (s *sent) poll(args []any) {
	now := float64(time.Now().UnixNano())
	for _, a := range args {
		if s.n++; s.q != nil && a == s.q.seen.Load() {
			continue
		}
		v, err := strconv.ParseFloat(fmt.Sprint(a), 64)
		for _, unit := range []float64{1, 1e3, 1e6, 1e9} {
			if err == nil && v*unit > 0.99*now && v*unit < 1.01*now {
				s.times++
			}
		}
	}
}
