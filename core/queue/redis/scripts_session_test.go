package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

func openOnce(b bench) {
	b.returns(b.q.scripts.open, "1", "ID", "node", 1000000)
	b.has("node", "hget", b.key("kNodes"), "ID")
	b.has("1", "zcard", b.key("kSessions"))
	b.has("hashtable", "object", "encoding", b.leases("ID")) // look-ups of leases do not scan
	b.unchanged("open with an id that is taken", func() { b.returns(b.q.scripts.open, "0", "ID", "other", 1000000) })
}

func beatMoves(b bench) {
	s := b.open()
	b.do("zadd", b.key("kSessions"), "9e15", s) // far ahead, so that the new deadline shows
	got := b.call(b.q.scripts.beat, s, 5_000_000).([]any)
	if got[1].(int64)-got[0].(int64) != 5_000_000 || len(got[2].([]any)) != 0 {
		b.Errorf("beat returns %v, expected a deadline 5 s from now and no job to stop", got)
	}
	b.has(strconv.FormatInt(got[1].(int64), 10), "zscore", b.key("kSessions"), s)

	b.submit("r", 300)
	b.lease(s, 300)
	b.call(b.q.scripts.cancel, "r", "enough")
	if stop := b.call(b.q.scripts.beat, s, 5_000_000).([]any)[2].([]any); len(stop) != 512 {
		b.Errorf("beat lists %d jobs to stop, expected the bound, 256", len(stop)/2)
	}
	b.expire(s)
	b.unchanged("beat of a session that is gone", func() { b.returns(b.q.scripts.beat, "[GONE]", s, 5_000_000) })
}

func saveWrites(b bench) {
	s := b.open()
	no := b.submit("r", 3)
	l := b.lease(s, 2)[1]
	b.has("0", "exists", b.run(no, "xJobs"))
	b.returns(b.q.scripts.save, "[1]", s, "r", 1, l.Token, 2, "two")
	b.has("1", "hlen", b.run(no, "xJobs")) // the other lease has no state
	b.has("3", "hlen", b.leases(s))        // two leases and the padding: none came or went
	b.unchanged("a save that arrives late", func() { b.returns(b.q.scripts.save, "[1]", s, "r", 1, l.Token, 1, "one") })
	b.ack(s, []queue.Lease{l}, nil)
	b.has("0", "exists", b.run(no, "xJobs"))
	b.unchanged("a save after the ack", func() { b.returns(b.q.scripts.save, "[0]", s, "r", 1, l.Token, 3, "three") })
}

func saveRefuses(b bench) {
	s, other := b.open(), b.open()
	b.submit("r", 2)
	l := b.lease(s, 1)[0]
	b.unchanged("a save that has no right", func() {
		b.returns(b.q.scripts.save, "[0]", s, "r", 0, l.Token+1, 1, "x")
		b.returns(b.q.scripts.save, "[0]", other, "r", 0, l.Token, 1, "x")
		b.returns(b.q.scripts.save, "[0]", s, "r", 1, l.Token, 1, "x")
		b.returns(b.q.scripts.save, "[0]", s, "r", -1, l.Token, 1, "x")
		b.returns(b.q.scripts.save, "[0]", s, "unknown", 0, l.Token, 1, "x")
		b.returns(b.q.scripts.save, "[GONE]", "nobody", "r", 0, l.Token, 1, "x")
	})
	b.expire(s)
	b.unchanged("a save of a session that is gone", func() { b.returns(b.q.scripts.save, "[GONE]", s, "r", 0, l.Token, 1, "x") })
}

// guestAlone: one field of one hash for the host, and the number that leases count with.
func guestAlone(b bench) {
	s, other := b.open(), b.open()
	b.submit("r", 2)
	first, second := b.lease(s, 1)[0], b.lease(other, 1)[0]
	enter := func(session string, l queue.Lease) int64 {
		return b.call(b.q.scripts.guest, session, "r", l.Job.Index, l.Token, "lb", "", 0, 0).([]any)[0].(int64)
	}
	b.unchanged("a guest that comes", func() {
		if fence := enter(s, first); fence <= int64(second.Token) {
			b.Errorf("fence %d is not above the last lease's %d", fence, second.Token)
		}
	}, b.key("kGuests"), b.key("kMeta"))
	b.unchanged("a guest that finds another", func() {
		if fence := enter(other, second); fence != 0 {
			b.Errorf("two guests: fence %d", fence)
		}
		b.returns(b.q.scripts.guest, "[0]", other, "r", second.Job.Index, second.Token, "lb", "1", 0, 0)
	})
	b.returns(b.q.scripts.guest, "[0]", s, "r", first.Job.Index, first.Token, "lb", "1", 0, 0)
	b.has("0", "exists", b.key("kGuests"))
	enter(s, first)
	b.ack(s, []queue.Lease{first}, nil)
	if fence := enter(other, second); fence == 0 {
		b.Error("a guest whose lease has ended still blocks the next one")
	}
}

// guestEntersAgain: after a failover that lost who entered, or who left, the last one is the guest.
func guestEntersAgain(b bench) {
	s := b.open()
	b.submit("r", 3)
	l := b.lease(s, 3)
	enter := func(l queue.Lease, fence, seen int64) int64 {
		return b.call(b.q.scripts.guest, s, "r", l.Job.Index, l.Token, "lb", "", fence, seen).([]any)[0].(int64)
	}
	before := enter(l[0], 0, 0)
	lost := before + 10
	b.do("hset", b.key("kMeta"), "trusted", "another start")
	if got := enter(l[2], 0, 0); got != -2 {
		b.Errorf("a new guest of a queue that lost changes: %d", got)
	}
	if d, err := b.q.Doubt(b.Context()); err != nil || d.ID == "" || d.Older {
		b.Errorf("%+v, %v", d, err)
	}
	if got := enter(l[1], lost, lost); got != lost {
		b.Errorf("the guest after the one that the queue knows: %d, expected %d", got, lost)
	}
	if d, err := b.q.Doubt(b.Context()); err != nil || !d.Older {
		b.Errorf("a fence that the queue has forgotten: %+v, %v", d, err)
	}
	if got := enter(l[0], before, before); got != 0 {
		b.Errorf("the guest before the last one is one again: %d", got)
	}
	b.do("hset", b.key("kMeta"), "until", 1)
	if got := enter(l[2], 0, 0); got != 0 {
		b.Errorf("two guests after the doubt: %d", got)
	}
	b.returns(b.q.scripts.guest, "[0]", s, "r", l[1].Job.Index, l[1].Token, "lb", "1", lost, lost)
	if got := enter(l[2], 0, 0); got <= lost {
		b.Errorf("the next guest has fence %d, the one before had %d", got, lost)
	}
}

func guestRefuses(b bench) {
	s, other := b.open(), b.open()
	b.submit("r", 2)
	l := b.lease(s, 1)[0]
	b.unchanged("a guest that has no right", func() {
		b.returns(b.q.scripts.guest, "[-1]", s, "r", 0, l.Token+1, "lb", "", 0, 0)
		b.returns(b.q.scripts.guest, "[-1]", other, "r", 0, l.Token, "lb", "", 0, 0)
		b.returns(b.q.scripts.guest, "[-1]", s, "r", 1, l.Token, "lb", "", 0, 0)
		b.returns(b.q.scripts.guest, "[-1]", s, "unknown", 0, l.Token, "lb", "", 0, 0)
		b.returns(b.q.scripts.guest, "[GONE]", "nobody", "r", 0, l.Token, "lb", "", 0, 0)
	})
	b.expire(s)
	b.unchanged("a guest of a session that is gone", func() { b.returns(b.q.scripts.guest, "[GONE]", s, "r", 0, l.Token, "lb", "", 0, 0) })
}

func signalJobOnce(b bench) {
	s := b.open()
	no := b.submit("r", 2)
	b.ack(s, b.lease(s, 2), func(a *queue.Ack) { a.Kind, a.Event = queue.AckSuspend, "e" })
	b.unchanged("a wake that has no job", func() {
		b.returns(b.q.scripts.signaljob, "-1", "unknown", 0, "e")
		b.returns(b.q.scripts.signaljob, "2", "r", 2, "e")
		b.returns(b.q.scripts.signaljob, "0", "r", 0, "f")
	})
	b.returns(b.q.scripts.signaljob, "1", "r", 1, "e")
	b.has("1", "zcard", b.run(no, "xSuspended"))
	b.has("1", "zcard", b.run(no, "xEvents"))
	b.has("1", "zcard", b.run(no, "xQueue"))
	b.unchanged("a second wake", func() { b.returns(b.q.scripts.signaljob, "0", "r", 1, "e") })
}

// old completes n runs and ends their retention.
func (b bench) old(s string, n int) {
	b.Helper()
	for i := range n {
		no := b.submit("old"+strconv.Itoa(i), 1, func(r *queue.Run) { r.Tenant = "old" })
		b.ack(s, b.lease(s, 1), nil)
		b.do("zadd", b.key("kDone"), "xx", 1, no)
	}
}

func beatForgetsEight(b bench) {
	s := b.open()
	b.old(s, 1)
	b.call(b.q.scripts.beat, s, 5_000_000)
	if names := b.do("keys", "*old*"); fmt.Sprint(names) != "[]" {
		b.Errorf("left of a forgotten run: %v", names)
	}
	for _, k := range []string{"kIDs", "kTenants", "kDone"} {
		b.has("0", "exists", b.key(k))
	}
	nos := make([]int64, 20)
	for i := range nos {
		nos[i] = b.submit("r"+strconv.Itoa(i), 1)
	}
	b.ack(s, b.lease(s, len(nos)), nil)
	for _, no := range nos {
		b.do("zadd", b.key("kDone"), "xx", 1, no)
	}
	for _, left := range []string{"12", "4", "0"} {
		b.call(b.q.scripts.beat, s, 5_000_000)
		b.has(left, "hlen", b.key("kIDs"))
	}
	b.has("0", "exists", b.run(nos[0], ""), b.run(nos[0], "xTargets"), b.run(nos[0], "xLog"))
}

func adoptPages(b bench) {
	s := b.open()
	b.submit("r", 400, func(r *queue.Run) { r.Targets[3].Data = []byte("data") })
	want := map[string]uint64{}
	for _, l := range b.lease(s, 400) {
		want[l.Job.String()] = l.Token
	}
	b.unchanged("adopt", func() {
		page := b.call(b.q.scripts.adopt, s, "0").([]any)
		if n := len(page[1].([]any)) / 7; n < 100 || n > 250 {
			b.Errorf("a page has %d leases, expected about 128", n)
		}
		got, err := b.q.Adopt(b.Context(), s)
		b.must(err)
		for _, l := range got {
			if want[l.Job.String()] != l.Token || (l.Job.Index == 3) != (string(l.Data) == "data") || l.Host != "r-"+strconv.Itoa(l.Job.Index) {
				b.Errorf("adopted %+v", l)
			}
		}
		if len(got) != len(want) {
			b.Errorf("%d leases adopted, expected %d", len(got), len(want))
		}
	}, b.key("kMeta")) // it writes the times
	b.expire(s)
	b.returns(b.q.scripts.adopt, "[GONE]", s, "0")
}

func leasedPages(b bench) {
	sessions := []string{b.open(), b.open(), b.open()}
	b.submit("other", 300)
	b.lease(sessions[0], 300)
	b.submit("r", 1900)
	want := map[int]bool{}
	for _, s := range sessions {
		for _, l := range b.lease(s, 600) {
			want[l.Job.Index] = true
		}
	}
	b.unchanged("leased", func() {
		b.returns(b.q.scripts.leased, "-1", "none", "", "0")
		page := b.call(b.q.scripts.leased, "r", "", "0").([]any)
		if n := (len(page) - 2) / 3; n < 600 || n > 1600 || page[0] == "" {
			b.Errorf("a page has %d leases and continues at %q, expected about 1000 of 2100, and a session", n, page[0])
		}
		got, err := b.q.Leased(b.Context(), "r")
		b.must(err)
		for _, l := range got {
			if !want[l.Index] || l.Node == "" || l.Since.IsZero() {
				b.Errorf("leased: %+v", l)
			}
			delete(want, l.Index)
		}
		if len(got) != 1800 || len(want) != 0 {
			b.Errorf("%d jobs are leased, expected 1800; %d are missing", len(got), len(want))
		}
	})
}

func closeBounded(b bench) {
	s := b.open()
	no := b.submit("r", 300)
	b.lease(s, 300)
	for _, want := range []struct{ left, queued string }{{"[172]", "128"}, {"[44]", "256"}, {"[0]", "300"}} {
		b.returns(b.q.scripts.shut, want.left, s)
		b.has(want.queued, "zcard", b.run(no, "xQueue"))
	}
	b.has("0", "exists", b.leases(s), b.key("kSessions"), b.key("kNodes"))
	b.has("1", "hlen", b.key("kLocks")) // the entry that keeps it a hash table
	if st := b.status("r"); st.Pending != 300 || st.InFlight != 0 {
		b.Errorf("after close: %+v", st)
	}
	b.sound()
	b.unchanged("close of a session that is gone", func() { b.returns(b.q.scripts.shut, "[GONE]", s) })
}

func waitKeepsTime(b bench) {
	s, other := b.open(), b.open()
	b.do("del", b.key("kMark"))
	b.unchanged("wait with nothing to come", func() {
		if got := b.call(b.q.scripts.wait, s, 1_000_000).([]any); got[1] != int64(0) || got[2] != int64(-1) {
			b.Errorf("wait returns %v, expected no work and no time", got)
		}
	})
	due := time.Now().Add(time.Hour)
	b.submit("timed", 1, func(r *queue.Run) { r.Segments = []queue.Segment{{Due: due, Count: 1}} })
	got := b.call(b.q.scripts.wait, s, 1_000_000).([]any)
	if got[1] != int64(0) || got[2].(int64)-got[0].(int64) != 1_000_000 {
		b.Errorf("wait returns %v, expected it to end at the backstop", got)
	}
	b.has(s, "hget", b.key("kMeta"), "tks")
	b.unchanged("wait while another keeps the time", func() {
		if got := b.call(b.q.scripts.wait, other, 1_000_000).([]any); got[2] != int64(-1) {
			b.Errorf("two keep the time: %v", got)
		}
	})
	b.submit("now", 1)
	b.unchanged("wait with work", func() {
		if got := b.call(b.q.scripts.wait, other, 1_000_000).([]any); got[1] != int64(1) {
			b.Errorf("wait returns %v, expected work", got)
		}
	})
}

func explainReads(b bench) {
	s := b.open()
	b.submit("r", 6, func(r *queue.Run) { r.Limit = 5 })
	l := b.lease(s, 3)
	b.ack(s, l[:1], nil)
	b.ack(s, l[1:2], func(a *queue.Ack) { a.Kind, a.After = queue.AckRetry, time.Hour })
	b.submit("same", 1, func(r *queue.Run) { r.Targets[0].Host = "r-2" })
	if res := b.turn(s, 1); len(res.Leases) != 1 || res.Leases[0].Job.Run != "r" { // "same" meets the lock of r/2
		b.Fatalf("leased %v", res.Leases)
	}
	b.unchanged("explain", func() {
		for _, tc := range []struct {
			run   string
			index int
			state core.State
			says  string
			code  core.ReasonCode
		}{
			{"r", 0, core.Done, "ended as changed", ""},
			{"r", 1, core.Retrying, "waits for its next attempt, 1 made so far", core.NextAttempt},
			{"r", 2, core.Leased, "leased by node for ", ""},
			{"r", 4, core.Pending, "waits for its turn: its run has 2 jobs in flight, its tenant 2", core.NoSlot},
			{"r", 5, core.Pending, "waits for its wave: 5 hosts of the run may start so far", core.WaveClosed},
			{"same", 0, core.Blocked, "waits for host r-2, held by another job", core.LockHeld},
		} {
			ex, err := b.q.Explain(b.Context(), core.JobID{Run: tc.run, Index: tc.index})
			if err != nil || ex.State != tc.state || ex.Reason.Code() != tc.code || !strings.HasPrefix(ex.Reason.Text(), tc.says) { // seconds follow "since"
				b.Errorf("%s/%d: %+v, %v, expected %s: %s", tc.run, tc.index, ex, err, tc.state, tc.says)
			}
		}
		b.returns(b.q.scripts.explain, "[NONE]", "none", 0)
		b.returns(b.q.scripts.explain, "[RANGE 6]", "r", 6)
	})
}

func holdersReads(b bench) {
	s := b.open()
	b.submit("r", 2, func(r *queue.Run) {
		r.Disruptive = true
		for i := range r.Targets {
			r.Targets[i].HAGroup = "pair"
		}
	})
	l := b.lease(s, 1)
	if res := b.turn(s, 1); len(res.Leases) != 0 {
		b.Fatalf("leased %v beside a member of its HA group", res.Leases)
	}
	b.unchanged("holders", func() {
		held, err := b.q.Holders(b.Context(), "r-0", "pair")
		if err != nil || len(held) != 2 || held[0].HAGroup || !held[1].HAGroup || held[1].Job.String() != "r/0" || held[1].Kept || held[1].Since.IsZero() {
			b.Errorf("%+v, %v, expected that r/0 holds both", held, err)
		}
		b.returns(b.q.scripts.holders, "[]", "none", "")
	})
	b.ack(s, l, nil)
	held, err := b.q.Holders(b.Context(), "r-1", "pair")
	if err != nil || len(held) != 1 || !held[0].Kept || held[0].Job.String() != "r/1" || !held[0].Since.IsZero() {
		b.Errorf("%+v, %v, expected that the lock of the HA group is kept for r/1", held, err)
	}
}
