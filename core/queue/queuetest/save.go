package queuetest

import (
	"bytes"
	"errors"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var saveTests = []test{
	{name: "SaveOutlivesItsNode", ttl: shortTTL, run: saveCrash},
	{name: "SaveIsOfTheLease", run: saveLease},
	{name: "SaveIsReplacedByAcks", run: saveAcks},
	{name: "SaveIsDroppedAtTheEnd", run: saveEnd},
	{name: "SaveIsInTheRecordOfACancelledJob", run: saveCancelled},
	{name: "SaveIsInTheRecordOfALostJob", ttl: shortTTL, run: saveLost},
	{name: "SaveRefuses", run: saveRefuses},
	{name: "SaveIsAllowedInARunThatIsOver", run: saveOver},
	{name: "TrapLateSaveDoesNotUndoALaterOne", run: saveLate},
	{name: "TrapStaleFenceCannotSave", ttl: shortTTL, run: saveFence},
}

func save(session string, l queue.Lease, seq uint64, state string) queue.Save {
	return queue.Save{Session: session, Job: l.Job, Token: l.Token, Seq: seq, State: []byte(state)}
}

func (f *fixture) save(session string, l queue.Lease, seq uint64, state string) {
	f.Helper()
	f.must(f.q.Save(f.ctx, save(session, l, seq, state)))
}

func saveCrash(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	leases := f.leaseN(s, 2)
	f.save(s, leases[0], 1, "one")
	f.save(s, leases[0], 2, "two")
	held, err := f.q.Adopt(f.ctx, s)
	f.must(err)
	eq(f, "state in Adopt", string(held[0].State), "two")
	eq(f, "jobs in flight", f.status("a").InFlight, 2)
	f.clean()
	s = f.expire(s)
	for _, l := range f.leaseN(s, 2) {
		want := map[int]string{0: "two", 1: ""}[l.Job.Index]
		eq(f, "state of "+l.Job.String(), string(l.State), want)
		eq(f, "attempt", l.Attempt, 2)
		f.ack(s, done(l, core.Changed))
	}
	f.completes(s, "a")
}

func saveLease(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	state := []byte("one")
	f.must(f.q.Save(f.ctx, queue.Save{Session: s, Job: l.Job, Token: l.Token, Seq: 7, State: state}))
	state[0] = 'X' // the caller's slice is the caller's again
	f.ack(s, giveBack(l))
	l = f.one(s)
	eq(f, "state after Return", string(l.State), "one")
	eq(f, "attempt after Return", l.Attempt, 1)
	f.save(s, l, 1, "two") // numbers begin again with each lease
	f.must(f.q.Close(f.ctx, s))
	s = f.open("n")
	eq(f, "state after Close", string(f.one(s).State), "two")
}

// states are the last states in the records of a run, by index; a worker's own record has none.
func (f *fixture) states(run string) map[int]string {
	f.Helper()
	out := map[int]string{}
	for _, r := range f.records(run) {
		out[r.Index] = string(r.State)
		if len(r.State) > 0 && (len(r.Detail) > 0 || r.Reason == "" || r.Count != 1) {
			f.Errorf("record %+v: only records of one job that the queue ended have a state", r)
		}
	}
	return out
}

func saveCancelled(f *fixture) {
	f.submit(run("a", 6))
	s := f.open("n")
	l := f.leaseN(s, 5)
	f.save(s, l[0], 1, "saved")
	f.save(s, l[1], 1, "saved")
	f.save(s, l[3], 1, "saved")
	suspend := func(l queue.Lease, state string) queue.Ack {
		return queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckSuspend, Event: "e", State: []byte(state)}
	}
	f.ack(s, suspend(l[0], "suspended"))
	f.must(f.q.Cancel(f.ctx, "a", "enough"))
	f.ack(s, suspend(l[1], "too late"))
	f.ack(s, done(l[2], core.Changed))
	f.ack(s, giveBack(l[3]))
	f.ack(s, giveBack(l[4]))
	f.completes(s, "a")
	for index, want := range map[int]string{0: "suspended", 1: "too late", 2: "", 3: "saved", 4: "", 5: ""} {
		eq(f, "state in the record", f.states("a")[index], want)
	}
}

func saveLost(f *fixture) {
	r := run("a", 2)
	r.OnLost = queue.LostHold
	f.submit(r)
	s := f.open("n")
	l := f.leaseN(s, 2)
	f.save(s, l[0], 1, "saved")
	s = f.expire(s)
	f.completes(s, "a")
	eq(f, "state in the record", f.states("a")[0], "saved")
	eq(f, "state of one that saved none", f.states("a")[1], "")
}

func saveAcks(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	f.save(s, l, 1, "saved")
	a := retry(l, 0)
	a.State = []byte("retried")
	f.ack(s, a)
	l = f.one(s)
	eq(f, "state after Retry", string(l.State), "retried")
	eq(f, "attempt after Retry", l.Attempt, 2)
	f.save(s, l, 1, "saved again")
	a = suspend(l, "e")
	f.ack(s, a)
	if n, err := f.q.Signal(f.ctx, "a", "e"); n != 1 || err != nil {
		f.Fatalf("Signal: %d, %v", n, err)
	}
	l = f.one(s)
	eq(f, "state after a Suspend without one", string(l.State), "")
	eq(f, "attempt after Suspend", l.Attempt, 2)
}

func saveEnd(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	leases := f.leaseN(s, 2)
	f.save(s, leases[0], 1, "x")
	f.save(s, leases[1], 1, "x")
	f.ack(s, done(leases[0], core.Changed), done(leases[1], core.Failed))
	st := f.completes(s, "a")
	eq(f, "changed", st.Outcomes[core.Changed], 1)
	eq(f, "records", len(f.records("a")), 2)
}

func saveRefuses(f *fixture) {
	f.submit(run("a", 2))
	s, other := f.open("n"), f.open("m")
	l := f.one(s)
	for name, c := range map[string]struct {
		save queue.Save
		want error
	}{
		"another token":   {func() queue.Save { x := save(s, l, 1, "x"); x.Token++; return x }(), core.ErrConflict},
		"a huge token":    {func() queue.Save { x := save(s, l, 1, "x"); x.Token = 1 << 60; return x }(), core.ErrConflict},
		"another session": {save(other, l, 1, "x"), core.ErrConflict},
		"no session":      {save("nobody", l, 1, "x"), core.ErrSessionGone},
		"not leased":      {func() queue.Save { x := save(s, l, 1, "x"); x.Job.Index = 1; return x }(), core.ErrConflict},
		"no such job":     {func() queue.Save { x := save(s, l, 1, "x"); x.Job.Index = -1; return x }(), core.ErrConflict},
		"no such run":     {func() queue.Save { x := save(s, l, 1, "x"); x.Job.Run = "b"; return x }(), core.ErrConflict},
		"no number":       {save(s, l, 0, "x"), core.ErrInvalid},
		"too large": {func() queue.Save {
			x := save(s, l, 1, "")
			x.State = make([]byte, queue.MaxDetail+core.EncryptionRoom+1)
			return x
		}(), core.ErrInvalid},
	} {
		if err := f.q.Save(f.ctx, c.save); !errors.Is(err, c.want) {
			f.Errorf("%s: got %v, expected %v", name, err, c.want)
		}
	}
	large := bytes.Repeat([]byte{0, 0xff}, queue.MaxDetail/2)
	f.must(f.q.Save(f.ctx, queue.Save{Session: s, Job: l.Job, Token: l.Token, Seq: 1, State: large}))
	f.ack(s, giveBack(l))
	if got := f.one(s).State; !bytes.Equal(got, large) {
		f.Errorf("a state of %d bytes came back as %d", len(large), len(got))
	}
}

func saveOver(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	f.must(f.q.Cancel(f.ctx, "a", "because"))
	f.save(s, l, 1, "reverting")
	f.ack(s, done(l, core.RolledBack))
	f.completes(s, "a")
}

// A save whose answer was lost is sent again; the first of the two may arrive last.
func saveLate(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	f.save(s, l, 2, "two")
	f.save(s, l, 1, "one")
	f.save(s, l, 2, "two, twice")
	f.ack(s, giveBack(l))
	eq(f, "state", string(f.one(s).State), "two")
}

// A worker that was cut off and comes back must not overwrite what the next one has reached.
func saveFence(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	old := f.one(s)
	f.save(s, old, 1, "one")
	next := f.expire(s)
	l := f.one(next)
	eq(f, "state", string(l.State), "one")
	f.save(next, l, 1, "two")
	if err := f.q.Save(f.ctx, save(s, old, 2, "stale")); !errors.Is(err, core.ErrSessionGone) {
		f.Errorf("Save of a session that has ended: %v", err)
	}
	if err := f.q.Save(f.ctx, save(next, old, 2, "stale")); !errors.Is(err, core.ErrConflict) {
		f.Errorf("Save with the token of an older lease: %v", err)
	}
	f.ack(next, giveBack(l))
	eq(f, "state", string(f.one(next).State), "two")
}
