// Package queuetest owns the conformance suite of the queue contract. It has every rule of package
// queue as a test for any implementation, the known traps of other queues, and random sequences of
// operations that are compared between two implementations. For tests of rooms that work on runs,
// Drive drives a run through a queue without a ledger.
//
// It must not know how a queue is built; it sees a Subject.
package queuetest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// TB is the part of *testing.T or *rapid.T that opening a queue needs.
type TB interface {
	Helper()
	Cleanup(f func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Subject is an implementation under test.
type Subject struct {
	// Open returns a new, empty queue whose sessions live for ttl. It cleans up with t.Cleanup.
	Open func(t TB, ttl time.Duration) queue.Queue
	// Around wraps every test, as synctest.Test does. Nil means real time.
	Around func(t *testing.T, f func(t *testing.T))
}

// The time that a session lives: it is long if a test is not about expiry, so that a loaded machine
// does not expire one. It is short if it must pass in real time, but no shorter than such a machine
// may take from one turn to the next.
const (
	longTTL  = 10 * time.Minute
	shortTTL = 3 * time.Second
)

type test struct {
	name string
	ttl  time.Duration
	run  func(f *fixture)
}

// Run puts the subject under the whole suite.
func Run(t *testing.T, s Subject) {
	for _, group := range [][]test{submitTests, leaseTests, ackTests, saveTests, guestTests, signalJobTests, lockTests, timeTests, sessionTests, stopTests, cleanupTests, recordTests, orderTests, inspectTests, newsTests, bulkTests, deferredTests, finishedTests, recoveryTests, trapTests} {
		for _, tc := range group {
			t.Run(tc.name, func(t *testing.T) { s.one(t, tc) })
		}
	}
}

func (s Subject) one(t *testing.T, tc test) {
	around := s.Around
	if around == nil {
		around = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	around(t, func(t *testing.T) {
		ttl := cmp.Or(tc.ttl, longTTL)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		f := &fixture{T: t, ctx: ctx, q: s.Open(t, ttl), ttl: ttl}
		tc.run(f)
		if !t.Failed() {
			f.clean()
		}
	})
}

// fixture is one queue under one test.
type fixture struct {
	*testing.T
	ctx context.Context //nolint:containedctx // a fixture lives as long as its test
	q   queue.Queue
	ttl time.Duration
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) open(node string) string {
	f.Helper()
	s, err := f.q.Open(f.ctx, node)
	f.must(err)
	return s
}

func (f *fixture) submit(r queue.Run) {
	f.Helper()
	created, err := queue.SubmitOne(f.ctx, f.q, r)
	f.must(err)
	if !created {
		f.Fatalf("Submit(%q) created nothing", r.ID)
	}
}

func (f *fixture) turn(session string, want int, acks ...queue.Ack) queue.TurnResult {
	f.Helper()
	res, err := f.q.Turn(f.ctx, queue.Turn{Session: session, Acks: acks, Want: want})
	f.must(err)
	if len(res.Leases) > want {
		f.Fatalf("Turn gave %d leases, %d were wanted (rule 10)", len(res.Leases), want)
	}
	if res.Now.IsZero() {
		f.Fatal("Turn did not tell the time")
	}
	return res
}

// ack applies acks and expects that none is stale.
func (f *fixture) ack(session string, acks ...queue.Ack) {
	f.Helper()
	if res := f.turn(session, 0, acks...); len(res.Stale) != 0 {
		f.Fatalf("acks were refused as stale: %v", res.Stale)
	}
}

// lease takes what can be had now, up to want, in as many turns as bounded work needs.
func (f *fixture) lease(session string, want int) []queue.Lease {
	f.Helper()
	var got []queue.Lease
	for range 10_000 {
		res := f.turn(session, min(want-len(got), queue.MaxLeasesTurn))
		got = append(got, res.Leases...)
		if len(got) == want || (len(res.Leases) == 0 && !res.More) {
			return got
		}
	}
	f.Fatal("Turn says More for ever")
	return nil
}

// leaseN waits until exactly n jobs were leased.
func (f *fixture) leaseN(session string, n int) []queue.Lease {
	f.Helper()
	var got []queue.Lease
	f.eventually("jobs to lease", func() bool {
		got = append(got, f.turn(session, min(n-len(got), queue.MaxLeasesTurn)).Leases...)
		return len(got) == n
	})
	return got
}

// one leases exactly one job.
func (f *fixture) one(session string) queue.Lease {
	f.Helper()
	return f.leaseN(session, 1)[0]
}

// none expects that nothing can be leased now.
func (f *fixture) none(session, why string) {
	f.Helper()
	if got := f.lease(session, 1); len(got) != 0 {
		f.Fatalf("leased %v, expected nothing: %s", ids(got), why)
	}
}

// eventually polls a condition; it is generous, because machines are loaded.
func (f *fixture) eventually(what string, ok func() bool) {
	f.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			f.Fatalf("waited a minute for %s", what)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-f.ctx.Done():
			f.Fatal(f.ctx.Err())
		}
	}
}

func (f *fixture) status(run string) queue.Status {
	f.Helper()
	st, err := f.q.Status(f.ctx, run)
	f.must(err)
	sum := st.Pending + st.Blocked + st.InFlight + st.Waiting + st.Suspended
	for _, n := range st.Outcomes {
		sum += n
	}
	if sum != st.Total {
		f.Fatalf("Status(%q) does not add up: %d of %d in %+v", run, sum, st.Total, st)
	}
	return st
}

// completes waits, with turns that lease nothing, until the run is complete.
func (f *fixture) completes(session, run string) queue.Status {
	f.Helper()
	f.eventually("run "+run+" to be complete", func() bool {
		f.turn(session, 0)
		return f.status(run).Complete
	})
	return f.status(run)
}

func (f *fixture) clean() {
	f.Helper()
	findings, err := f.q.Check(f.ctx, false)
	f.must(err)
	for _, finding := range findings {
		f.Errorf("Check: %+v", finding)
	}
}

// records reads all records, few at a time.
func (f *fixture) records(run string) []queue.Record {
	f.Helper()
	var all []queue.Record
	cursor := ""
	for {
		sight := f.q.Poll(f.ctx, 7, queue.Ask{Run: run, Cursor: cursor})[0]
		f.must(sight.Err)
		if len(sight.Records) > 7 {
			f.Fatalf("Look gave %d records, 7 were asked for", len(sight.Records))
		}
		all, cursor = append(all, sight.Records...), sight.Next
		if !sight.More {
			return all
		}
	}
}

// outcomes expands the records of run a and expects every job at most once.
func (f *fixture) outcomes() map[int]core.Outcome {
	f.Helper()
	got := map[int]core.Outcome{}
	for _, r := range f.records("a") {
		for i := r.Index; i < r.Index+r.Count; i++ {
			if old, twice := got[i]; twice {
				f.Fatalf("job a/%d was recorded twice: %s and %s", i, old, r.Outcome)
			}
			got[i] = r.Outcome
		}
	}
	return got
}

func (f *fixture) explain(run string, index int) queue.Explanation {
	f.Helper()
	ex, err := f.q.Explain(f.ctx, core.JobID{Run: run, Index: index})
	f.must(err)
	return ex
}

func (f *fixture) holders(host, haGroup string) []queue.Holder {
	f.Helper()
	all, err := f.q.Holders(f.ctx, host, haGroup)
	f.must(err)
	return all
}

// eq compares, and reports what was checked.
func eq[T comparable](f *fixture, what string, got, want T) {
	f.Helper()
	if got != want {
		f.Fatalf("%s is %v, expected %v", what, got, want)
	}
}

func done(l queue.Lease, o core.Outcome) queue.Ack {
	return queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: o}
}

func retry(l queue.Lease, after time.Duration) queue.Ack {
	return queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckRetry, Outcome: core.Failed, After: after}
}

func suspend(l queue.Lease, event string) queue.Ack {
	return queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckSuspend, Event: event}
}

func giveBack(l queue.Lease) queue.Ack {
	return queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckReturn}
}

func allDone(leases []queue.Lease, o core.Outcome) []queue.Ack {
	return core.Map(leases, func(l queue.Lease) queue.Ack { return done(l, o) })
}

func ids(leases []queue.Lease) []string {
	return core.Map(leases, func(l queue.Lease) string { return l.Job.String() })
}

// run is a run of n targets on hosts of its own.
func run(id string, n int) queue.Run {
	targets := make([]queue.Target, n)
	for i := range targets {
		targets[i] = queue.Target{Host: core.JobID{Run: id, Index: i}.String()}
	}
	return queue.Run{ID: id, Targets: targets}
}

// on is a run over the named hosts.
func on(id string, hosts ...string) queue.Run {
	r := queue.Run{ID: id}
	for _, h := range hosts {
		r.Targets = append(r.Targets, queue.Target{Host: h})
	}
	return r
}
