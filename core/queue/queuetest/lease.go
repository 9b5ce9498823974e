package queuetest

import (
	"errors"
	"slices"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var leaseTests = []test{
	{name: "LeasesCarryTheirTarget", run: leaseCarries},
	{name: "TokensOnlyGrow", run: tokensGrow},
	{name: "AtMostWhatIsWanted", run: wantIsBound},
	{name: "TurnRefusesBadInput", run: turnInvalid},
	{name: "LimitReleasesWaves", run: limitWaves},
	{name: "MaxInFlight", run: maxInFlight},
	{name: "PausedRunLeasesNothing", run: paused},
	{name: "AdjustRefusesBadInput", run: adjustInvalid},
	{name: "LowestIndexFirst", run: lowestFirst},
}

func leaseCarries(f *fixture) {
	r := run("a", 2)
	r.Targets[1].Data = []byte("\x00data\xff")
	f.submit(r)
	s := f.open("n")
	l := f.leaseN(s, 2)
	for i := range l {
		eq(f, "job", l[i].Job, core.JobID{Run: "a", Index: i})
		eq(f, "host", l[i].Host, r.Targets[i].Host)
		eq(f, "data", string(l[i].Data), string(r.Targets[i].Data))
		eq(f, "attempt", l[i].Attempt, 1)
		eq(f, "state", len(l[i].State), 0)
	}
	st := f.status("a")
	eq(f, "in flight", st.InFlight, 2)
	f.ack(s, allDone(l, core.Unchanged)...)
	st = f.status("a")
	eq(f, "complete", st.Complete, true)
	eq(f, "phase", st.Phase, queue.Finished)
}

func tokensGrow(f *fixture) {
	f.submit(run("a", 20))
	f.submit(run("b", 20))
	s, s2 := f.open("n"), f.open("n")
	last := uint64(0)
	for i := range 20 {
		session := s
		if i%2 == 1 {
			session = s2
		}
		for _, l := range f.leaseN(session, 2) {
			if l.Token <= last {
				f.Fatalf("token %d follows %d", l.Token, last)
			}
			last = l.Token
			if i%3 == 0 {
				f.ack(session, giveBack(l))
			} else {
				f.ack(session, done(l, core.Changed))
			}
		}
	}
}

func wantIsBound(f *fixture) {
	f.submit(run("a", 300))
	s := f.open("n")
	eq(f, "leases", len(f.turn(s, 0).Leases), 0)
	res := f.turn(s, 7)
	eq(f, "leases", len(res.Leases), 7)
	eq(f, "More", res.More, true)
	eq(f, "leases", len(f.turn(s, queue.MaxLeasesTurn).Leases), queue.MaxLeasesTurn)
	res = f.turn(s, 100)
	eq(f, "leases", len(res.Leases), 300-7-queue.MaxLeasesTurn)
	eq(f, "More", f.turn(s, 100).More, false)
	eq(f, "in flight", f.status("a").InFlight, 300)
}

func turnInvalid(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	l := f.one(s)
	good := done(l, core.Changed)
	bad := func(change func(*queue.Ack)) queue.Turn {
		a := good
		change(&a)
		return queue.Turn{Session: s, Acks: []queue.Ack{good, a}, Want: 1}
	}
	for name, turn := range map[string]queue.Turn{
		"negative want": {Session: s, Want: -1},
		"big want":      {Session: s, Want: queue.MaxLeasesTurn + 1},
		"many acks":     {Session: s, Acks: slices.Repeat([]queue.Ack{good}, queue.MaxAcksPerTurn+1)},
		"no kind":       bad(func(a *queue.Ack) { a.Kind = "" }),
		"no outcome":    bad(func(a *queue.Ack) { a.Outcome = "" }),
		"bad outcome":   bad(func(a *queue.Ack) { a.Outcome = "great" }),
		"retry without": bad(func(a *queue.Ack) { a.Kind, a.Outcome = queue.AckRetry, "" }),
		"big detail":    bad(func(a *queue.Ack) { a.Detail = make([]byte, queue.MaxDetail+core.EncryptionRoom+1) }),
		"big state":     bad(func(a *queue.Ack) { a.State = make([]byte, queue.MaxDetail+core.EncryptionRoom+1) }),
	} {
		if _, err := f.q.Turn(f.ctx, turn); !errors.Is(err, core.ErrInvalid) {
			f.Errorf("%s: error %v, expected core.ErrInvalid", name, err)
		}
	}
	st := f.status("a")
	eq(f, "in flight after refused turns", st.InFlight, 1)
	eq(f, "pending after refused turns", st.Pending, 1)
	f.ack(s, good)
}

func limitWaves(f *fixture) {
	r := run("a", 10)
	r.Limit = 1
	f.submit(r)
	s := f.open("n")
	limit := func(n int) {
		f.Helper()
		f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: &n}))
	}
	f.ack(s, allDone(f.leaseN(s, 1), core.Changed)...)
	f.none(s, "the first wave is one job")
	st := f.status("a")
	eq(f, "limit", st.Limit, 1)
	eq(f, "pending", st.Pending, 9)
	eq(f, "complete", st.Complete, false)
	limit(4)
	got := f.lease(s, 10)
	eq(f, "second wave", len(got), 3)
	limit(2) // lower: no effect
	eq(f, "limit", f.status("a").Limit, 4)
	f.ack(s, retry(got[0], 0))
	f.ack(s, done(f.one(s), core.Changed)) // a retry is within the limit
	f.ack(s, allDone(got[1:], core.Changed)...)
	f.none(s, "the wave is over")
	limit(0)
	eq(f, "limit", f.status("a").Limit, 10)
	f.ack(s, allDone(f.leaseN(s, 6), core.Changed)...)
	eq(f, "complete", f.status("a").Complete, true)
}

func maxInFlight(f *fixture) {
	r := run("a", 10)
	r.MaxInFlight = 3
	f.submit(r)
	s, s2 := f.open("n"), f.open("n2")
	got := f.lease(s, 10)
	eq(f, "leases", len(got), 3)
	f.none(s2, "three are in flight")
	for left := 7; left > 0; left-- {
		res := f.turn(s, 5, done(got[0], core.Changed))
		eq(f, "leases after one ack, in the same turn", len(res.Leases), 1)
		got = append(got[1:], res.Leases...)
	}
	// A suspended job is not in flight.
	a := suspend(got[0], "e")
	f.ack(s, a, done(got[1], core.Changed), done(got[2], core.Changed))
	n, err := f.q.Signal(f.ctx, "a", "e")
	f.must(err)
	eq(f, "signalled", n, 1)
	f.ack(s, done(f.one(s), core.Changed))
	eq(f, "complete", f.status("a").Complete, true)
}

func paused(f *fixture) {
	f.submit(run("a", 3))
	s := f.open("n")
	first := f.one(s)
	yes, no := true, false
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Paused: &yes}))
	eq(f, "phase", f.status("a").Phase, queue.Paused)
	f.none(s, "the run is paused")
	f.ack(s, retry(first, 0))
	f.none(s, "the run is paused, its retries too")
	f.submit(run("b", 1))
	eq(f, "other run", f.one(s).Job.Run, "b")
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Paused: &no}))
	got := f.leaseN(s, 3)
	eq(f, "the retried job comes first", got[0].Job.Index, 0)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Paused: &yes}))
	f.ack(s, allDone(got, core.Changed)...)
	eq(f, "phase of a paused run whose jobs all ended", f.status("a").Phase, queue.Finished)
}

func adjustInvalid(f *fixture) {
	f.submit(run("a", 1))
	for name, a := range map[string]queue.Adjust{
		"weight 0":       {Weight: new(0)},
		"weight over":    {Weight: new(queue.MaxWeight + 1)},
		"negative limit": {Limit: new(-1)},
	} {
		if err := queue.AdjustOne(f.ctx, f.q, "a", a); !errors.Is(err, core.ErrInvalid) {
			f.Errorf("%s: error %v, expected core.ErrInvalid", name, err)
		}
	}
}

func lowestFirst(f *fixture) {
	f.submit(run("a", 10))
	s := f.open("n")
	got := f.leaseN(s, 5)
	f.ack(s, retry(got[3], 0), giveBack(got[1]), suspend(got[4], "e"), done(got[0], core.Changed), done(got[2], core.Changed))
	if _, err := f.q.Signal(f.ctx, "a", "e"); err != nil {
		f.Fatal(err)
	}
	order := core.Map(f.leaseN(s, 8), func(l queue.Lease) string { return strconv.Itoa(l.Job.Index) })
	if want := []string{"1", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(order, want) {
		f.Fatalf("order %v, expected %v: those that were tried before come first, each kind by index", order, want)
	}
}
