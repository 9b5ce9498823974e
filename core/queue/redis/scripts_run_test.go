package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

func acceptWrites(b bench) {
	due := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	content := func(r *queue.Run) {
		r.Tenant, r.TenantWeight, r.Payload = "ten", 3, []byte("pay")
		r.Segments = []queue.Segment{{Count: 30}, {Due: due, Count: 100}}
		r.Targets[7].Data = make([]byte, 1000)
	}
	no := b.submit("r", 130, content)
	at := strconv.FormatInt(due.UnixMicro(), 10)
	b.has(strconv.FormatInt(no, 10), "hget", b.key("kIDs"), "r")
	b.has("1", "hget", b.key("kTenants"), "ten")
	tenant := b.key("pTenant") + "1"
	b.has("ten 3", "hmget", tenant, "n", "w")
	b.has("1", "sismember", tenant+b.key("xRuns"), no)
	b.has("1", "zcard", tenant+b.key("xReady"))
	b.has("1", "zcard", b.key("kReady"))
	b.has("3", "hlen", b.run(no, "xTargets")) // 64, 64, 2
	b.has("1000", "hstrlen", b.run(no, "xData"), 7)
	b.has("pay", "get", b.run(no, "xPayload"))
	b.has("30:130 "+at, "zrange", b.run(no, "xSegments"), 0, -1, "withscores")
	b.has(strconv.FormatInt(no, 10)+" "+at, "zrange", b.key("kDue"), 0, -1, "withscores")
	b.has("1", "llen", b.key("kMark"))
	// O(segments): nothing a job.
	b.has("0", "exists", b.run(no, "xQueue"), b.run(no, "xJobs"), b.run(no, "xWaiting"), b.run(no, "xRanges"))
	b.unchanged("accept of the same again", func() {
		if again := b.submit("r", 130, content); again != no {
			b.Errorf("the run has number %d now, it had %d", again, no)
		}
	})
}

func acceptRefuses(b bench) {
	b.submit("r", 3)
	b.unchanged("accept of other content", func() {
		r := queue.Run{ID: "r", Targets: []queue.Target{{Host: "other"}}}
		if _, err := queue.SubmitOne(b.Context(), b.q, r); !errors.Is(err, core.ErrConflict) {
			b.Errorf("other content: %v, expected core.ErrConflict", err)
		}
	})
	b.unchanged("accept of a run that is known, with an upload", func() {
		b.returns(b.q.scripts.accept, "[CONFLICT]", "r", "digest", 99, "", 1, "", 0, 0, 0, "")
	})
}

// acceptUploaded: an upload expires unless it is accepted, and is gone when its run was there
// before.
func acceptUploaded(b bench) {
	large := func(r *queue.Run) { r.Payload = make([]byte, 2*inlineBytes) }
	no := b.submit("r", 100, large)
	b.has("-1", "pttl", b.run(no, "xTargets"))
	b.has("-1", "pttl", b.run(no, "xPayload"))
	if again := b.submit("r", 100, large); again != no {
		b.Errorf("the run has number %d now, it had %d", again, no)
	}
	b.has("0", "exists", b.run(no+1, "xTargets"), b.run(no+1, "xPayload"))
	r := queue.Run{ID: "never", Targets: []queue.Target{{Host: "h"}}, Payload: make([]byte, 2*inlineBytes)}
	left, err := b.q.upload(b.Context(), &r, pack(&r))
	b.must(err)
	if ttl, _ := b.do("pttl", b.run(left, "xPayload")).(int64); ttl <= 0 {
		b.Errorf("an upload that nobody accepts lives for ever: %d", ttl)
	}
}

// finishedEvenly finishes n ranges of one target, every other one.
func finishedEvenly(n int) func(*queue.Run) {
	return func(r *queue.Run) {
		for i := range n {
			r.FinishedJobs = append(r.FinishedJobs, queue.FinishedJobs{Index: 2 * i, Count: 1, Outcome: core.Outcomes()[i%2]})
		}
	}
}

// acceptFinished: finished jobs are one text and a few counts; the ranges between are sets, whether
// they came inline or by upload.
func acceptFinished(b bench) {
	no := b.submit("r", 10, func(r *queue.Run) {
		r.FinishedJobs = []queue.FinishedJobs{{Index: 1, Count: 2, Outcome: core.Changed}, {Index: 5, Count: 3, Outcome: core.Cancelled}}
	})
	b.has("\x00\x00\x00\x01\x00\x00\x00\x02\x02\x00\x00\x00\x05\x00\x00\x00\x03\x08", "get", b.run(no, "xFinished"))
	b.has("3:5 3 8:10 8", "zrange", b.run(no, "xRanges"), 0, -1, "withscores")
	for _, ranges := range []int{maxReady - 1, maxReady + 1} { // one more is what is behind the last
		id := "even" + strconv.Itoa(ranges)
		no := b.submit(id, 2*ranges+2, finishedEvenly(ranges))
		b.has(strconv.Itoa(finishedBytes*ranges), "strlen", b.run(no, "xFinished"))
		b.has(strconv.Itoa(ranges-1), "zcard", b.run(no, "xRanges"))
		b.has("-1", "pttl", b.run(no, "xRanges"))
		b.has("-1", "pttl", b.run(no, "xFinished"))
		b.has("0", "exists", b.run(no, "xSegments"), b.run(no, "xJobs"), b.run(no, "xLog"))
		if st := b.status(id); st.Pending != ranges+2 || st.Outcomes[core.Changed] != ranges/2 || st.Deferred != 0 {
			b.Errorf("%d ranges: %+v", ranges, st)
		}
	}
	whole := b.submit("whole", 5, func(r *queue.Run) { r.FinishedJobs = []queue.FinishedJobs{{Count: 5, Outcome: core.Changed}} })
	b.has("1", "exists", b.run(whole, "xFinished"))
	if ttl, _ := b.do("pttl", b.run(whole, "xFinished")).(int64); ttl <= 0 {
		b.Errorf("a run that is complete immediately lives for ever: %d", ttl)
	}
	b.has(strconv.FormatInt(whole, 10), "zrange", b.key("kDone"), 0, -1)
	b.sound()
}

// tidyReadsFinished: Check takes finished jobs for ended, and for lost where that list is gone.
func tidyReadsFinished(b bench) {
	no := b.submit("r", 1000, finishedEvenly(499))
	s := b.open()
	b.ack(s, b.lease(s, 10), nil)
	b.sound()
	b.do("zrem", b.run(no, "xRanges"), "995:996")
	found, err := b.q.Check(b.Context(), true)
	if err != nil || len(found) != 1 || !found[0].Repaired {
		b.Errorf("a range that is gone: %v, %v", found, err)
	}
	b.sound()
	if st := b.status("r"); st.Pending != 491 {
		b.Errorf("after the repair %+v", st)
	}
	b.do("del", b.run(no, "xFinished"))
	if found, err = b.q.Check(b.Context(), true); err != nil || len(found) == 0 {
		b.Errorf("without the list of finished jobs: %v, %v", found, err)
	}
	if st := b.status("r"); st.Phase != queue.Stopped {
		b.Errorf("a job of which nobody knows whether it ended may run: %+v", st)
	}
	b.sound()
}

func acceptForgetsTwo(b bench) {
	s := b.open()
	nos := make([]int64, 5)
	for i := range nos {
		nos[i] = b.submit("old"+strconv.Itoa(i), 1)
	}
	b.ack(s, b.lease(s, len(nos)), nil)
	for _, no := range nos {
		b.do("zadd", b.key("kDone"), "xx", 1, no)
	}
	for i, left := range []string{"4", "3", "3"} { // one came, two, two and the last one went
		b.submit("new"+strconv.Itoa(i), 1)
		b.has(left, "hlen", b.key("kIDs"))
	}
}

// turnReadsTargets submits any targets and leases them all.
func turnReadsTargets(b bench, rt *rapid.T, id string) {
	text := rapid.StringMatching(`[a-c]{1,5}`)
	list := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) queue.Target {
		t := queue.Target{Host: rapid.SampledFrom([]string{"", "fw-", "host.with.a.long.prefix-"}).Draw(rt, "p") + text.Draw(rt, "h") + rapid.SampledFrom([]string{"", ".example.net"}).Draw(rt, "s")}
		if rapid.Bool().Draw(rt, "more") {
			t.HAGroup, t.Group, t.Data = rapid.StringN(0, 9, 100).Draw(rt, "ha"), text.Draw(rt, "g"), rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "d")
		}
		return t
	}), 1, 150).Draw(rt, "targets")
	ctx := context.Background()
	if _, err := queue.SubmitOne(ctx, b.q, queue.Run{ID: id, Targets: list}); err != nil {
		rt.Fatal(err)
	}
	s, err := b.q.Open(ctx, "n")
	if err != nil {
		rt.Fatal(err)
	}
	seen := 0
	for seen < len(list) {
		res, err := b.q.Turn(ctx, queue.Turn{Session: s, Want: 97})
		if err != nil || len(res.Leases) == 0 {
			rt.Fatalf("%d of %d came back: %v", seen, len(list), err)
		}
		var acks []queue.Ack
		for _, l := range res.Leases {
			want := list[l.Job.Index]
			if l.Host != want.Host || string(l.Data) != string(want.Data) {
				rt.Fatalf("job %d came back as %q %q, it was %q %q", l.Job.Index, l.Host, l.Data, want.Host, want.Data)
			}
			acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed})
		}
		seen += len(acks)
		if _, err := b.q.Turn(ctx, queue.Turn{Session: s, Acks: acks}); err != nil {
			rt.Fatal(err)
		}
	}
}

// adjusts calls adjust.lua for runs: of each its id, pause, weight, limit.
func (b bench) adjusts(want string, words ...string) {
	b.Helper()
	list := appendList(nil, len(words)/4*5)
	for i, w := range words {
		if i%4 == 3 {
			list = appendText(list, "") // max in flight
		}
		list = appendText(list, w)
	}
	b.returns(b.q.scripts.adjust, "["+want+"]", list)
}

// adjustShares: many large waves in one call are released in steps, each run's completely or
// partly, and nothing of it is lost.
func adjustShares(b bench) {
	var all []queue.Adjust
	for i := range 6 {
		id := "r" + strconv.Itoa(i)
		b.submit(id, 1500, func(r *queue.Run) {
			r.Limit, r.Paused = 1, true
			for j := range 1500 {
				r.Segments = append(r.Segments, queue.Segment{Due: time.Now().Add(time.Duration(1+j) * time.Hour), Count: 1})
			}
		})
		all = append(all, queue.Adjust{Run: id, Limit: new(0), Paused: new(false), Weight: new(2)})
	}
	for _, err := range b.q.Adjust(b.Context(), all...) {
		b.must(err)
	}
	for i := range all {
		if st := b.status(all[i].Run); st.Limit != 1500 || st.Phase != queue.Active || st.Deferred != 1500 {
			b.Errorf("after adjust of six: %+v", st)
		}
	}
	b.sound()
}

func adjustWaves(b bench) {
	no := b.submit("r", 10, func(r *queue.Run) { r.Limit = 2 })
	tenant := b.key("pTenant") + "1"
	b.adjusts("1", "r", "1", "", "")
	b.has("0", "exists", tenant+b.key("xReady"), b.key("kReady"))
	b.adjusts("1", "r", "0", "7", "5")
	b.has("1", "zcard", tenant+b.key("xReady"))
	if st := b.status("r"); st.Limit != 5 || st.Phase != queue.Active {
		b.Errorf("after adjust: %+v", st)
	}
	b.adjusts("1", "r", "", "", "3") // a wave never shrinks
	if st := b.status("r"); st.Limit != 5 {
		b.Errorf("limit %d, expected 5", st.Limit)
	}
	b.adjusts("1", "r", "", "", "0")
	if st := b.status("r"); st.Limit != 10 {
		b.Errorf("limit %d, expected all 10", st.Limit)
	}
	b.has("0", "exists", b.run(no, "xQueue"))
}

// adjustBounded: a call releases the end of 1024 timed segments at most, and what it counts is
// right at each step.
func adjustBounded(b bench) {
	const n = 3000
	timed := func(r *queue.Run) {
		r.Limit = 10
		for i := range n {
			r.Segments = append(r.Segments, queue.Segment{Due: time.Now().Add(time.Duration(1+i*7%n) * time.Hour), Count: 1})
		}
	}
	no := b.submit("r", n, timed)
	for _, want := range []struct {
		answer string
		limit  int
	}{{"2", 10 + 1024}, {"2", 10 + 2048}, {"1", 2500}} {
		b.adjusts(want.answer, "r", "", "", "2500")
		if st := b.status("r"); st.Limit != want.limit || st.Deferred != want.limit {
			b.Errorf("limit %d, deferred %d, expected %d", st.Limit, st.Deferred, want.limit)
		}
		b.sound()
	}
	b.has("3000", "zcard", b.run(no, "xByIndex"))
	b.adjusts("1", "r", "", "", "0")
	b.has("0", "exists", b.run(no, "xByIndex"))
	b.has("3000", "hget", b.run(no, ""), "l")
	b.sound()
	no = b.submit("all", n, timed, func(r *queue.Run) { r.Limit = 0 }) // all released: nothing to list
	b.has("0", "exists", b.run(no, "xByIndex"))
	no = b.submit("over", n, timed)
	b.must(b.q.Cancel(b.Context(), "over", ""))
	b.has("0", "exists", b.run(no, "xByIndex"), b.run(no, "xSegments"))
	b.has("0", "hget", b.run(no, ""), "l")
}

func adjustRefuses(b bench) {
	b.submit("r", 10)
	b.must(b.q.Cancel(b.Context(), "r", ""))
	b.unchanged("adjust of a run that is over", func() { b.adjusts("0", "r", "1", "2", "3") })
	b.unchanged("adjust of no run", func() { b.adjusts("-1", "none", "1", "", "") })
}

func cancelBounded(b bench) {
	s := b.open()
	no := b.submit("r", 300)
	b.submit("other", 1)
	l := b.lease(s, 301)
	b.ack(s, l[:290], func(a *queue.Ack) {
		if a.Kind, a.After = queue.AckReturn, time.Hour; a.Job.Run == "other" {
			a.Kind = queue.AckDone
		}
	})
	b.returns(b.q.scripts.cancel, "1", "r", "why")
	first := b.status("r").Outcomes[core.Cancelled]
	if first != 128 {
		b.Errorf("the first call ended %d, expected 128", first)
	}
	b.returns(b.q.scripts.cancel, "1", "r", "why")
	b.returns(b.q.scripts.cancel, "0", "r", "why")
	b.has("0", "exists", b.run(no, "xWaiting"), b.run(no, "xQueue"), b.key("kSweep"))
	b.has("1", "sismember", b.key("kCancelled"), no)
	st := b.status("r")
	if st.Phase != queue.Cancelled || st.Reason != "why" || st.InFlight+st.Outcomes[core.Cancelled] != 300 {
		b.Errorf("after cancel: %+v", st)
	}
	if res := b.turn(s, 10); len(res.Leases) != 0 || len(res.Stop) != st.InFlight {
		b.Errorf("leased %v, to stop %d of %d", res.Leases, len(res.Stop), st.InFlight)
	}
	b.sound()
}

func cancelUnknown(b bench) {
	b.unchanged("cancel of no run", func() { b.returns(b.q.scripts.cancel, "-1", "none", "why") })
	s := b.open()
	b.submit("r", 1)
	b.ack(s, b.lease(s, 1), nil)
	b.returns(b.q.scripts.cancel, "0", "r", "late")
	if st := b.status("r"); st.Phase != queue.Finished {
		b.Errorf("a complete run became %s", st.Phase)
	}
}

func eventBounded(b bench) {
	s := b.open()
	no := b.submit("r", 200)
	b.ack(s, b.lease(s, 200), func(a *queue.Ack) {
		if a.Kind, a.Event = queue.AckSuspend, "go"; a.Job.Index == 0 {
			a.Event = "go!" // begins like the other
		}
	})
	b.has("200", "zcard", b.run(no, "xSuspended"))
	b.unchanged("an event that nobody waits for", func() {
		b.returns(b.q.scripts.event, "[-1 -1]", "none", "go", 0)
		b.returns(b.q.scripts.event, "[0 -1]", "r", "g", 0)
		b.returns(b.q.scripts.event, "[0 -1]", "r", "go", 200)
	})
	b.returns(b.q.scripts.event, "[128 129]", "r", "go", 0)
	b.has("72", "zcard", b.run(no, "xEvents"))
	b.has("128", "zcard", b.run(no, "xQueue"))
	b.ack(s, b.lease(s, 1), func(a *queue.Ack) { a.Kind, a.Event = queue.AckSuspend, "go" }) // job 1 waits again
	b.returns(b.q.scripts.event, "[71 -1]", "r", "go", 129)
	b.returns(b.q.scripts.event, "[1 -1]", "r", "go", 0)
	b.returns(b.q.scripts.event, "[0 -1]", "r", "go", 0)
	b.has("1", "zcard", b.run(no, "xSuspended"))
	b.sound()
}

func statusReads(b bench) {
	s := b.open()
	b.submit("r", 20, func(r *queue.Run) { r.Tenant, r.Limit = "ten", 19 })
	l := b.lease(s, 10)
	b.ack(s, l[:2], nil)
	b.ack(s, l[2:5], func(a *queue.Ack) { a.Kind, a.After = queue.AckRetry, time.Hour })
	b.ack(s, l[5:6], func(a *queue.Ack) { a.Kind, a.Event = queue.AckSuspend, "e" })
	b.unchanged("status", func() {
		st := b.status("r")
		st.Served = 0
		want := "{r ten active  false 20 19 10 0 4 3 1 0 map[changed:2] 0s}"
		if got := fmt.Sprint(st); got != want {
			b.Errorf("status %s, expected %s", got, want)
		}
	})
}

// statusByTheClock: what is due is not deferred, though no turn has seen it: nobody turns while all
// nodes are away.
func statusByTheClock(b bench) {
	s := b.open()
	no := b.submit("r", 20, func(r *queue.Run) {
		r.Segments = []queue.Segment{{Count: 10}, {Due: time.Now().Add(time.Hour), Count: 4}, {Due: time.Now().Add(2 * time.Hour), Count: 6}}
		r.Limit = 15
	})
	b.ack(s, b.lease(s, 10), func(a *queue.Ack) {
		if a.Kind, a.After, a.Event = queue.AckSuspend, time.Hour, queue.EventWindow; a.Job.Index < 3 {
			a.Event = "other"
		}
	})
	deferred := func(want int, after string) {
		b.Helper()
		b.unchanged("status", func() {
			if got := b.status("r").Deferred; got != want {
				b.Errorf("after %s %d jobs are deferred, expected %d", after, got, want)
			}
		})
	}
	deferred(5+7, "nothing")
	b.do("zadd", b.run(no, "xSegments"), "xx", 1, "10:14")
	deferred(1+7, "a segment is due")
	b.do("zadd", b.run(no, "xSegments"), "xx", 1, "14:20") // of which one is released
	deferred(7, "another")
	b.do("zadd", b.run(no, "xSuspended"), "xx", 1, 2, 1, 3, 1, 4)
	deferred(5, "two windows and another event")
	b.do("zadd", b.key("kDue"), "xx", 1, no)
	b.turn(s, 0)
	deferred(5, "a turn")
	b.sound()
}

// statusOfAStoppedRun: what a stop has not come round to yet waits for no time any more.
func statusOfAStoppedRun(b bench) {
	s := b.open()
	b.submit("r", 301, func(r *queue.Run) {
		r.StopAfter, r.Segments = 1, []queue.Segment{{Count: 201}, {Due: time.Now().Add(time.Hour), Count: 100}}
	})
	l := b.lease(s, 201)
	b.ack(s, l[1:], func(a *queue.Ack) { a.Kind, a.Event = queue.AckSuspend, queue.EventWindow })
	if st := b.status("r"); st.Deferred != 300 {
		b.Errorf("before the stop: %+v", st)
	}
	b.ack(s, l[:1], func(a *queue.Ack) { a.Outcome = core.Failed })
	if st := b.status("r"); st.Phase != queue.Stopped || st.Suspended == 0 || st.Deferred != 0 {
		b.Errorf("after the stop: %+v", st)
	}
	b.sound()
}

func eventDismisses(b bench) {
	s := b.open()
	no := b.submit("r", 200)
	b.ack(s, b.lease(s, 200), func(a *queue.Ack) { a.Kind, a.Event = queue.AckSuspend, "go" })
	b.returns(b.q.scripts.event, "[128 128]", "r", "go", 0, "why")
	b.has("72", "zcard", b.run(no, "xSuspended"))
	b.has("0", "zcard", b.run(no, "xQueue"))
	b.has("72", "hlen", b.run(no, "xJobs"))
	b.sound()
	b.returns(b.q.scripts.event, "[72 -1]", "r", "go", 128, "why")
	b.has("0", "exists", b.run(no, "xSuspended"), b.run(no, "xEvents"), b.run(no, "xJobs"))
	if st := b.status("r"); !st.Complete || st.Outcomes[core.Cancelled] != 200 || st.Phase != queue.Finished {
		b.Errorf("after all were dismissed: %+v", st)
	}
	b.sound()
}

func awaitedBounded(b bench) {
	s := b.open()
	b.submit("r", 300)
	b.ack(s, b.lease(s, 300), func(a *queue.Ack) {
		if a.Kind, a.Event = queue.AckSuspend, fmt.Sprintf("e%03d", a.Job.Index); a.Job.Index >= 298 {
			a.Event = "e"
		}
	})
	b.unchanged("awaited", func() {
		b.returns(b.q.scripts.awaited, "-1", "none", "")
		b.returns(b.q.scripts.awaited, "[0 e296 1 e297 1]", "r", "e295")
		first := b.call(b.q.scripts.awaited, "r", "").([]any)
		if want := []any{int64(1), "e", int64(2), "e000", int64(1)}; len(first) != 1+2*256 || !slices.Equal(first[:5], want) {
			b.Errorf("awaited begins %v and has %d values, expected %v and 513", first[:5], len(first), want)
		}
	})
}
