package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/testparts/servers"
)

// one is a run of one host.
func one(id string, change ...func(*queue.Run)) queue.Run {
	r := queue.Run{ID: id, Targets: []queue.Target{{Host: id}}}
	for _, f := range change {
		f(&r)
	}
	return r
}

func (b bench) submitAll(runs ...queue.Run) {
	b.Helper()
	for i, a := range b.q.Submit(b.Context(), runs...) {
		if a.Err != nil || !a.Created {
			b.Fatalf("run %s: %+v", runs[i].ID, a)
		}
	}
}

func (b bench) ready(tenant int) string {
	return b.key("pTenant") + strconv.Itoa(tenant) + b.key("xReady")
}

// ownKeys are the keys of single runs.
func (b bench) ownKeys() (list []string) {
	b.Helper()
	for k := range b.keys() {
		if rest := strings.TrimPrefix(k, b.key("pRun")); rest != k && rest[0] >= '0' && rest[0] <= '9' {
			list = append(list, k)
		}
	}
	return list
}

func submitWrites(b bench) {
	due := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	b.submitAll(one("a"), one("b"), one("late", func(r *queue.Run) { r.Segments = []queue.Segment{{Due: due, Count: 1}} }),
		one("held", func(r *queue.Run) { r.Paused = true }), one("c"), one("high", func(r *queue.Run) { r.Priority = 2 }), one("other", func(r *queue.Run) { r.Tenant = "t" }))
	b.has("7", "hlen", b.key("kIDs"))
	b.has("7", "hlen", b.key("kSmall"))
	b.has("5", "hget", b.key("kIDs"), "c")
	b.has("08"+fmt.Sprintf("%014d:%d", 6, 7)+" 10"+fmt.Sprintf("%014d:%d", 1, 3)+" 10"+fmt.Sprintf("%014d:%d", 5, 6), "zrange", b.ready(1), 0, -1)
	b.has("6", "hget", b.key("pTenant")+"1", "c")
	b.has("3 "+strconv.FormatInt(due.UnixMicro(), 10), "zrange", b.key("kDue"), 0, -1, "withscores")
	b.has("1", "llen", b.key("kMark"))
	if own := b.ownKeys(); len(own) > 0 {
		b.Errorf("small runs have keys of their own: %v", own)
	}
	b.sound()
	b.unchanged("submit of the same again, and of other content", func() {
		answers := b.q.Submit(b.Context(), one("a"), one("b", func(r *queue.Run) { r.Weight = 2 }))
		if answers[0].Created || answers[0].Err != nil || !errors.Is(answers[1].Err, core.ErrConflict) {
			b.Errorf("%+v", answers)
		}
	})
	b.must(queue.AdjustOne(b.Context(), b.q, "held", queue.Adjust{Paused: new(false)})) // number 4: it has a place of its own
	b.submitAll(one("d", func(r *queue.Run) { r.Tenant = "t" }), one("e", func(r *queue.Run) { r.Tenant = "t" }))
	b.has("10"+fmt.Sprintf("%014d:%d", 7, 10), "zrange", b.ready(2), 0, -1) // the last span continued
	s := b.open()
	order := map[string]string{}
	for range 3 {
		for _, l := range b.turn(s, 3).Leases {
			tenant := b.status(l.Job.Run).Tenant
			order[tenant] += l.Job.Run + " "
		}
	}
	if order[""] != "high a b held c " || order["t"] != "other d e " {
		b.Errorf("leased in the order %v", order)
	}
	b.has("0", "exists", b.ready(1), b.ready(2), b.key("kReady"))
	b.sound()
}

// submitSpans: what is not ready any more is passed over, and a span that is used up in parts stays
// whole.
func submitSpans(b bench) {
	var runs []queue.Run
	for i := range 40 {
		runs = append(runs, one(fmt.Sprintf("r%02d", i)))
	}
	b.submitAll(runs...)
	for _, i := range []int{0, 3, 39} {
		b.must(queue.AdjustOne(b.Context(), b.q, runs[i].ID, queue.Adjust{Paused: new(true)}))
	}
	b.must(b.q.Cancel(b.Context(), "r05", ""))
	s := b.open()
	var leases []queue.Lease
	for _, want := range []int{1, 3, 20} {
		leases = append(leases, b.turn(s, want).Leases...)
		b.sound()
	}
	if first := leases[0].Job.Run + leases[2].Job.Run + leases[4].Job.Run; first != "r01r04r07" {
		b.Errorf("leased %v", leases)
	}
	b.must(queue.AdjustOne(b.Context(), b.q, "r03", queue.Adjust{Paused: new(false)}))
	leases = append(leases, b.lease(s, 40-3-len(leases))...)
	if more := b.turn(s, 9).Leases; len(more) > 0 {
		b.Errorf("leased %v", more)
	}
	b.has("0", "exists", b.ready(1), b.key("kReady"))
	b.ack(s, leases, nil)
	b.sound()
	if own := b.ownKeys(); len(own) > 0 {
		b.Errorf("small runs that were only leased and done have keys of their own: %v", own)
	}
}

// submitPassesBounded: a turn passes over 1024 runs that are not ready any more, and the next one
// continues behind them.
func submitPassesBounded(b bench) {
	var runs []queue.Run
	for i := range 1500 {
		runs = append(runs, one(fmt.Sprintf("r%04d", i)))
	}
	b.submitAll(runs[:750]...)
	b.submitAll(runs[750:]...)
	var pauses []queue.Adjust
	for _, r := range runs[:1400] {
		pauses = append(pauses, queue.Adjust{Run: r.ID, Paused: new(true)})
	}
	for page := range slices.Chunk(pauses, 700) {
		b.must(errors.Join(b.q.Adjust(b.Context(), page...)...))
	}
	s := b.open()
	if res := b.turn(s, 5); len(res.Leases) != 0 || !res.More {
		b.Errorf("the first turn: %+v", res)
	}
	b.has(fmt.Sprintf("10%014d:%d", 1025, 1501), "zrange", b.ready(1), 0, -1)
	b.sound()
	if l := b.turn(s, 5).Leases; len(l) != 5 || l[0].Job.Run != "r1400" {
		b.Errorf("the second turn leased %v", l)
	}
	b.sound()
}

// submitGrows: what happens to a job beside lease and outcome gives its run keys of its own, and
// changes nothing else.
func submitGrows(b bench) {
	for name, happen := range map[string]func(s string, l queue.Lease){
		"retry": func(s string, l queue.Lease) {
			b.ack(s, []queue.Lease{l}, func(a *queue.Ack) { a.Kind = queue.AckRetry })
		},
		"return": func(s string, l queue.Lease) {
			b.ack(s, []queue.Lease{l}, func(a *queue.Ack) { a.Kind = queue.AckReturn })
		},
		"suspend": func(s string, l queue.Lease) {
			b.ack(s, []queue.Lease{l}, func(a *queue.Ack) { a.Kind = queue.AckSuspend })
		},
		"save": func(s string, l queue.Lease) {
			b.must(b.q.Save(b.Context(), queue.Save{Session: s, Job: l.Job, Token: l.Token, Seq: 1, State: []byte("x")}))
			b.must(b.q.Close(b.Context(), s))
		},
		"crash": func(s string, _ queue.Lease) { b.expire(s) },
	} {
		payload := strings.Repeat("p", 300)
		b.submitAll(one(name, func(r *queue.Run) {
			r.Targets = append(r.Targets, queue.Target{Host: name + "2", Data: make([]byte, 500)})
			r.Payload = []byte(payload)
		}))
		s, other := b.open(), b.open()
		first, second := b.lease(s, 1)[0], b.lease(other, 1)[0]
		b.ack(other, []queue.Lease{second}, func(a *queue.Ack) { a.Detail = []byte("detail") })
		seen := b.poll(name, "")
		if seen.Err != nil || len(seen.Records) != 1 || string(seen.Records[0].Detail) != "detail" {
			b.Fatalf("%s: %+v", name, seen)
		}
		no, err := b.c.HGet(b.Context(), b.key("kIDs"), name).Int64()
		b.must(err)
		b.has("0", "exists", b.run(no, ""))
		happen(s, first)
		again := b.lease(other, 1)[0]
		b.has("2", "exists", b.run(no, ""), b.run(no, "xTargets"))
		b.has("0", "hexists", b.key("kSmall"), no)
		b.has("0", "hexists", b.key("kPayloads"), no)
		b.ack(other, []queue.Lease{again}, nil)
		if behind := b.poll(name, seen.Next); behind.Err != nil || len(behind.Records) != 1 || behind.Records[0].Index != 0 {
			b.Errorf("%s: behind %s: %+v", name, seen.Next, behind)
		}
		if p, err := b.q.Payload(b.Context(), name); err != nil || string(p) != payload {
			b.Errorf("%s: payload %q, %v", name, p, err)
		}
		b.sound()
	}
}

func submitForgets(b bench) {
	s := b.open()
	for i := range 5 {
		b.submitAll(one("old"+strconv.Itoa(i), func(r *queue.Run) { r.Tenant, r.Payload = "gone", make([]byte, 300) }))
	}
	b.ack(s, b.lease(s, 5), nil)
	for i := range 5 {
		b.do("zadd", b.key("kDone"), "xx", 1, i+1)
	}
	b.submitAll(one("new1"), one("new2"))
	b.has("3", "hlen", b.key("kIDs"))
	_, err := b.q.Beat(b.Context(), s)
	b.must(err)
	b.has("2", "hlen", b.key("kSmall"))
	b.has("0", "exists", b.key("kPayloads"), b.key("kDone"), b.key("pTenant")+"1")
	b.has("0", "hexists", b.key("kTenants"), "gone")
	b.sound()
}

// pollOfSmall: the records of a run with keys of its own continue behind those that it kept as a
// small one.
func pollOfSmall(b bench) {
	no := b.submit("r", 2)
	s := b.open()
	l := b.lease(s, 2)
	b.ack(s, l[:1], nil)
	first := b.poll("r", "")
	b.ack(s, l[1:], func(a *queue.Ack) { a.Kind = queue.AckRetry })
	b.ack(s, b.lease(s, 1), nil) // it has a stream now
	b.has("2", "xlen", b.run(no, "xLog"))
	if all, rest := b.poll("r", ""), b.poll("r", first.Next); len(first.Records) != 1 || len(all.Records) != 2 || len(rest.Records) != 1 {
		b.Errorf("records %+v, then %+v, %+v behind the first", first, all, rest)
	}
	if seen := b.poll("r", "0-0+9"); !errors.Is(seen.Err, core.ErrInvalid) {
		b.Errorf("a cursor that was not given out: %v", seen.Err)
	}
	b.submitAll(one("long"))
	b.ack(s, b.lease(s, 1), func(a *queue.Ack) { a.Detail = make([]byte, 5000) })
	b.has("1", "xlen", b.run(no+1, "xLog")) // turns do not carry it along
	b.sound()
}

func payloadOfSmall(b bench) {
	b.returns(b.q.scripts.payload, "-1", "none")
	b.submitAll(one("short", func(r *queue.Run) { r.Payload = []byte("pay") }), one("long", func(r *queue.Run) { r.Payload = []byte(strings.Repeat("p", 300)) }))
	b.returns(b.q.scripts.payload, "[1 pay]", "short")
	b.has("1", "hlen", b.key("kPayloads"))
	b.returns(b.q.scripts.payload, "[2 "+strings.Repeat("p", 300)+"]", "long")
	b.submit("many", 9)
	b.returns(b.q.scripts.payload, "[3]", "many")
}

// tidyMendsSmall: damage to a small run is found, and mended.
func tidyMendsSmall(b bench) {
	s := b.open()
	late := func(r *queue.Run) { r.Segments = []queue.Segment{{Due: time.Now().Add(time.Hour), Count: 1}} }
	for i, damage := range [][]any{
		{"del", b.ready(1)},
		{"del", b.key("kReady")},
		{"del", b.key("kDue")},
		{"hset", b.key("pTenant") + "1", "c", 77},
		{"hdel", b.key("kIDs"), "now4"},
	} {
		b.submitAll(one(fmt.Sprint("now", i)), one(fmt.Sprint("late", i), late))
		b.sound()
		b.do(damage...)
		if found, err := b.q.Check(b.Context(), false); err != nil || len(found) == 0 {
			b.Errorf("%v: Check: %v, %v", damage, found, err)
		}
		for range 2 {
			_, err := b.q.Check(b.Context(), true)
			b.must(err)
		}
		b.sound()
		b.ack(s, b.lease(s, 1), nil)
		b.sound()
	}
}

// TestRunsOfTheLastVersion: that version gave each run keys of its own. They continue, beside small
// runs.
func TestRunsOfTheLastVersion(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	c := server.Client()
	t.Cleanup(func() { _ = c.Close() })
	q, err := New(server.User(t), Options{SessionTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b := bench{t, q, c}
	ctx := context.Background()
	fill := func(r queue.Run) {
		t.Helper()
		if created, err := q.submitLarge(ctx, &r, pack(&r)); err != nil || !created {
			t.Fatal(created, err)
		}
		no, err := c.HGet(ctx, b.key("kIDs"), r.ID).Int64()
		b.must(err)
		b.do("hset", b.run(no, ""), "at", time.Now().UnixMicro())
		b.do("hdel", b.key("pTenant")+"1", "c", "e")
	}
	fill(one("old1"))
	fill(one("old2", func(r *queue.Run) { r.Segments = []queue.Segment{{Due: time.Now().Add(time.Hour), Count: 1}} }))
	fill(one("old3", func(r *queue.Run) { r.Payload = []byte("pay") }))
	b.sound()
	b.submitAll(one("new1"), one("new2"))
	if a := q.Submit(ctx, one("old1"), one("new1"), one("old3")); a[0].Created || a[0].Err != nil || a[1].Created || a[1].Err != nil || !errors.Is(a[2].Err, core.ErrConflict) {
		t.Errorf("submitted again: %+v", a)
	}
	if p, err := q.Payload(ctx, "old3"); err != nil || string(p) != "pay" {
		t.Errorf("payload %q, %v", p, err)
	}
	s := b.open()
	leases := b.lease(s, 4)
	for i, want := range []string{"old1", "old3", "new1", "new2"} {
		if leases[i].Job.Run != want {
			t.Errorf("lease %d is of %s, expected %s", i, leases[i].Job.Run, want)
		}
	}
	b.ack(s, leases, nil)
	for _, id := range []string{"old1", "old3", "new1", "new2"} {
		if s := b.poll(id, ""); s.Err != nil || len(s.Records) != 1 || !s.Status.Complete {
			t.Errorf("%s: %+v", id, s)
		}
	}
	if st := b.status("old2"); st.Deferred != 1 {
		t.Errorf("%+v", st)
	}
	b.must(q.Cancel(ctx, "old2", ""))
	b.sound()
	for no := range 5 {
		b.do("zadd", b.key("kDone"), "xx", 1, no+1)
	}
	_, err = q.Beat(ctx, s)
	b.must(err)
	b.has("0", "exists", b.key("kIDs"), b.key("kSmall"), b.key("pTenant")+"1", b.key("kTenants"))
}
