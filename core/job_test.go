package core_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
)

var (
	states = []core.State{core.Pending, core.Blocked, core.Leased, core.Retrying, core.Suspended, core.Done}
	events = []core.Event{core.EvLease, core.EvBlock, core.EvUnblock, core.EvReturn, core.EvRetry, core.EvSuspend, core.EvDue, core.EvFinish, core.EvCancel}
)

// TestTransitions spells the whole table out: what is not listed is not allowed.
func TestTransitions(t *testing.T) {
	allowed := map[core.State]map[core.Event]core.State{
		core.Pending:   {core.EvLease: core.Leased, core.EvBlock: core.Blocked, core.EvCancel: core.Done},
		core.Blocked:   {core.EvUnblock: core.Pending, core.EvCancel: core.Done},
		core.Leased:    {core.EvReturn: core.Retrying, core.EvRetry: core.Retrying, core.EvSuspend: core.Suspended, core.EvFinish: core.Done, core.EvCancel: core.Done},
		core.Retrying:  {core.EvDue: core.Pending, core.EvCancel: core.Done},
		core.Suspended: {core.EvDue: core.Pending, core.EvCancel: core.Done},
		core.Done:      {},
	}
	for _, s := range states {
		for _, e := range events {
			want, ok := allowed[s][e]
			if got, gotOK := s.Next(e); got != want || gotOK != ok {
				t.Errorf("%s in %s: %q, %t, expected %q, %t", e, s, got, gotOK, want, ok)
			}
		}
	}
	if _, ok := core.State("nowhere").Next(core.EvLease); ok {
		t.Error("an unknown state allows an event")
	}
}

// Every state is reached from pending, and from every state a job can still end.
func TestEveryStateIsReachedAndEnds(t *testing.T) {
	reach := func(from core.State) map[core.State]bool {
		seen := map[core.State]bool{from: true}
		for todo := []core.State{from}; len(todo) > 0; todo = todo[1:] {
			for _, e := range events {
				if next, ok := todo[0].Next(e); ok && !seen[next] {
					seen[next] = true
					todo = append(todo, next)
				}
			}
		}
		return seen
	}
	fromPending := reach(core.Pending)
	for _, s := range states {
		if !fromPending[s] {
			t.Errorf("%s is never reached", s)
		}
		if !reach(s)[core.Done] {
			t.Errorf("a job in %s cannot end", s)
		}
	}
}

func TestJobIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := core.JobID{
			Run:   rapid.StringMatching(`[a-z0-9{}:-]{1,20}`).Draw(t, "run"),
			Index: rapid.IntRange(0, 1<<30).Draw(t, "index"),
		}
		if got, err := core.ParseJobID(id.String()); err != nil || got != id {
			t.Fatalf("ParseJobID(%q) is %v, %v", id.String(), got, err)
		}
	})
	for _, bad := range []string{"", "run", "/1", "run/", "run/x", "run/-1", "run/1.5"} {
		if id, err := core.ParseJobID(bad); err == nil {
			t.Errorf("ParseJobID(%q) is %v, expected an error", bad, id)
		}
	}
}

func FuzzParseJobID(f *testing.F) {
	for _, seed := range []string{"run/1", "a/b/2", "/", "x/99999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := core.ParseJobID(s)
		if err != nil {
			return
		}
		if again, err := core.ParseJobID(id.String()); err != nil || again != id {
			t.Errorf("%q reads as %v, which reads as %v, %v", s, id, again, err)
		}
	})
}

func TestOutcomes(t *testing.T) {
	all := core.Outcomes()
	seen := map[core.Outcome]bool{}
	for _, o := range all {
		if seen[o] || !o.Valid() {
			t.Errorf("%q is listed twice or not valid", o)
		}
		seen[o] = true
		if o.Good() && o.CountsAsFailure() {
			t.Errorf("%q is good and counts for the failure threshold", o)
		}
	}
	for _, o := range []core.Outcome{"", "great", "Failed"} {
		if o.Valid() {
			t.Errorf("%q is valid", o)
		}
	}
	for _, o := range []core.Outcome{core.Failed, core.RolledBack, core.Lost} {
		if !o.CountsAsFailure() {
			t.Errorf("%q does not count for the failure threshold", o)
		}
	}
	for _, o := range []core.Outcome{core.Unreachable, core.Cancelled} {
		if o.CountsAsFailure() || o.Good() {
			t.Errorf("%q counts for the failure threshold, or is good", o)
		}
	}
}
