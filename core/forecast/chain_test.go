package forecast

import (
	"testing"
	"time"
)

// A host that finds no window in the first pass reaches no second one.
func TestAHostThatFinishesNoPassWaitsAtNoBarrier(t *testing.T) {
	first := Input{At: monday, Concurrency: 1, Samples: 10, Hosts: fleet(t, time.Hour, time.Hour, "twice", "twice", "twice", "twice", "twice")}
	second := Input{At: monday, Concurrency: 1, Samples: 10, Hosts: fleet(t, time.Hour, 0, "-", "-", "-", "-", "-")}
	r, err := MakeChain([]Input{first, second})
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Hosts[4]; h.Unfinished != 1 || !h.Begin.IsZero() || !h.Finish.IsZero() {
		t.Errorf("%+v, expected a host that never begins", h)
	}
	for i, h := range r.Hosts {
		for _, hold := range h.Holds {
			if hold.For > 30*24*time.Hour {
				t.Errorf("host %d waits %v for %s", i, hold.For, hold.Cause)
			}
		}
	}
}

// Three hosts, of which one takes long, and a second pass of a minute each: nobody's second pass
// begins before the slow one is done.
func TestChainBeginsAPassWhenAllHaveDoneTheOneBefore(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	pass := func(took ...time.Duration) Input {
		in := Input{At: at, Seed: 1}
		for i, d := range took {
			in.Hosts = append(in.Hosts, Host{Name: string(rune('a' + i)), Work: &Work{Stages: []Stage{{Steps: []Step{{Took: always(d)}}}}}})
		}
		return in
	}
	r, err := MakeChain([]Input{pass(time.Minute, time.Minute, time.Hour), pass(time.Minute, time.Minute, time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if want := at.Add(61 * time.Minute); !r.FinishP50.Equal(want) || !r.FinishP90.Equal(want) {
		t.Errorf("done at %v and %v, expected %v", r.FinishP50, r.FinishP90, want)
	}
	h := r.Hosts[0]
	if !h.Begin.Equal(at) || !h.Finish.Equal(at.Add(61*time.Minute)) || len(h.Runs) != 2 {
		t.Errorf("%+v", h)
	}
	if n := len(h.Holds); n == 0 || h.Holds[n-1] != (Hold{Cause: ByBarrier, For: 59 * time.Minute}) {
		t.Errorf("holds %+v, expected the barrier's 59m last", h.Holds)
	}
}
