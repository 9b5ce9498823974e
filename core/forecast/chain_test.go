package forecast

import (
	"testing"
	"time"
)

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
