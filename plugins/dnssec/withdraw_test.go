package dnssec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// The zone becomes bogus hours after the old DS went: the next poll has the DS come back.
func TestBogusZoneIsSeenByTheNextPoll(t *testing.T) {
	w := newWorld(t)
	var since, back time.Time
	gone := 0
	got := follow(t, w, func(_ *plugintest.Result, s *plugintest.State) *plugintest.State {
		old := w.dsOf(w.keys[0])
		if !w.gone[old].IsZero() {
			gone++
		}
		if _, there := w.ds[old]; there && !since.IsZero() && back.IsZero() {
			back, w.servfail = w.now, 0
		}
		if gone == 2 {
			since, w.servfail = w.now, 1000
		}
		return s
	})
	if got.Outcome != "rolled_back" || len(w.ds) != 2 || len(w.reported) > 0 {
		t.Fatalf("%s: %s; DS %v, reported %v", got.Outcome, got.Reason, w.ds, w.reported)
	}
	if took := back.Sub(since); took > 10*time.Hour {
		t.Errorf("it was bogus for %v", took)
	}
}

// While the old DS may be remembered, a validator that fails once delays nothing. Control: a
// parent that has the old DS once more begins the wait again.
func TestFaultOfOnePollBeginsNoWaitAgain(t *testing.T) {
	for _, returns := range []bool{false, true} {
		w := newWorld(t)
		gone := 0
		var last time.Time
		got := follow(t, w, func(_ *plugintest.Result, s *plugintest.State) *plugintest.State {
			old := w.dsOf(w.keys[0])
			if !w.gone[old].IsZero() {
				gone++
			}
			w.insecure = gone == 5
			if gone == 4 {
				w.servfail = 1
			}
			if returns && gone == 5 {
				w.ds[old] = w.now
			} else if returns && gone == 6 {
				delete(w.ds, old)
				last = w.now
			}
			return s
		})
		w.check(t, got)
		remember := time.Duration(factor * float64(dsTTL+parentTime))
		told := w.keys[2].dsPublish
		if begun := w.gone[w.dsOf(w.keys[0])]; !returns && told.Sub(begun) > remember+30*time.Hour {
			t.Errorf("the wait of %v took %v", remember, told.Sub(begun))
		}
		if returns && told.Sub(last) < remember {
			t.Errorf("the old DS was back until %v before the signer got the report", told.Sub(last))
		}
	}
}

// rememberedUntil returns the end of the wait after the old DS went, or zero in another wait.
func rememberedUntil(t *testing.T, reason string) (end time.Time) {
	t.Helper()
	_, after, ok := strings.Cut(reason, "may be remembered until 2")
	if !ok {
		return end
	}
	text, _, _ := strings.Cut("2"+after, ";")
	end, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// At the end of the wait a validator fails once, and the parent has the old DS again before the
// second look: the signer gets no report until it is gone for the whole time once more.
func TestSecondLookDecides(t *testing.T) {
	w := newWorld(t)
	returned := false
	got := follow(t, w, func(r *plugintest.Result, s *plugintest.State) *plugintest.State {
		old := w.dsOf(w.keys[0])
		end := rememberedUntil(t, r.Reason)
		if want := "expected from " + end.Format(time.DateTime); !end.IsZero() && !strings.Contains(r.Reason, want) {
			t.Errorf("%s: expected %q", r.Reason, want)
		}
		if !returned && !end.IsZero() && !w.now.Add(r.ResumeAfter).Before(end) {
			returned, w.servfail = true, 1
			w.looked = func() {
				if w.servfail == 0 {
					w.ds[old], w.looked = w.now, nil
				}
			}
		}
		return s
	})
	w.check(t, got)
	if !returned || w.looked != nil {
		t.Error("the old DS did not return")
	}
}

// A key directory that is empty once shows nothing of the roll: no phase is left out for it.
func TestEmptyKeyDirectoryIsNoEndOfTheRoll(t *testing.T) {
	for _, phase := range []string{"K2 publish", "K5 withdraw"} {
		w := newWorld(t)
		empty := 0
		got := follow(t, w, func(r *plugintest.Result, s *plugintest.State) *plugintest.State {
			if w.keyless && !strings.Contains(r.Reason, "is not on the signer any more") {
				t.Errorf("%s: suspended for %s", phase, r.Reason)
			}
			w.keyless = phaseOf(s) == phase && empty == 0
			if w.keyless {
				empty++
			}
			return s
		})
		w.check(t, got)
		if empty == 0 {
			t.Errorf("%s: it was never empty", phase)
		}
	}
}
