package worker

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/windows"
)

var (
	scenarios = flag.Int("scenarios", proofScenarios, "how many random scenarios TestNoStepOutsideItsWindow plays")
	firstSeed = flag.Uint64("seed", 1, "of its first scenario")
)

// The proof of invariant 4: no disruptive step starts outside a window in which it fits, nor in a
// freeze, nor without its approval. Real launch, drive, queue and worker play random scenarios on
// fake time; at the instant at which a plugin starts, an oracle that shares nothing with package
// windows checks the definitions that are in force. All 100,000:
//
//	go test ./core/worker -run TestNoStepOutsideItsWindow -scenarios 100000 -timeout 3h
func TestNoStepOutsideItsWindow(t *testing.T) { playScenarios(t, *scenarios) }

// playScenarios returns how often each thing happened that the proof has to see.
func playScenarios(t *testing.T, count int) map[string]int {
	t.Helper()
	var next atomic.Uint64
	var mu sync.Mutex
	seen := map[string]int{}
	began := time.Now()
	t.Run("scenarios", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					n := next.Add(1) - 1
					if n >= uint64(count) {
						return
					}
					bad, what := play(t, *firstSeed+n, nil, false)
					mu.Lock()
					for k, v := range what {
						seen[k] += v
					}
					mu.Unlock()
					if len(bad) > 0 {
						t.Errorf("%s", strings.Join(bad, "\n"))
					}
				}
			})
		}
	})
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(seen)) {
		lines = append(lines, fmt.Sprintf("%s %d", k, seen[k]))
	}
	t.Logf("%d scenarios in %v: %s", count, time.Since(began).Round(time.Millisecond), strings.Join(lines, ", "))
	return seen
}

// play runs one scenario in its own bubble.
func play(t *testing.T, seed uint64, admit func(stepAdmission) (admission.Answer, error), careless bool) (bad []string, seen map[string]int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { bad, seen = runProof(t, seed, admit, careless) })
	return bad, seen
}

// The negative control: with any one guard taken out of the admission, the proof fails.
func TestProofNoticesARemovedGuard(t *testing.T) {
	t.Parallel()
	open := func(r stepAdmission) (admission.Answer, error) {
		return admission.Answer{Open: true, Close: r.late.Add(24 * time.Hour)}, nil
	}
	strip := func(r stepAdmission, take func(*windows.Set)) stepAdmission {
		defs := *r.calendar.Definitions()
		defs.Sets = maps.Clone(defs.Sets)
		for name, s := range defs.Sets {
			bare := *s
			take(&bare)
			defs.Sets[name] = &bare
		}
		r.calendar = admission.FromDefinitions(&defs)
		return r
	}
	var first sync.Map // descriptions, by what they are asked about
	for name, admit := range map[string]func(stepAdmission) (admission.Answer, error){
		"the gate at dispatch": open,
		"the gate before each attempt": func(r stepAdmission) (admission.Answer, error) {
			if r.attempt > 0 || r.item > 0 {
				return open(r)
			}
			return askCalendar(r)
		},
		"the need": func(r stepAdmission) (admission.Answer, error) {
			r.question.Need = time.Second
			return askCalendar(r)
		},
		"freezes": func(r stepAdmission) (admission.Answer, error) {
			return askCalendar(strip(r, func(s *windows.Set) { s.Deny = nil }))
		},
		"approvals": func(r stepAdmission) (admission.Answer, error) {
			return askCalendar(strip(r, func(s *windows.Set) { s.Approval = nil }))
		},
		"what a running step asks": nil, // its job types take no answer
		"the queue's clock": func(r stepAdmission) (admission.Answer, error) {
			r.early, r.late = time.Now(), time.Now()
			return askCalendar(r)
		},
		"reading the board again": func(r stepAdmission) (admission.Answer, error) {
			cal, _ := first.LoadOrStore(r.question.Change, r.calendar)
			r.calendar = cal.(*admission.Calendar)
			return askCalendar(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 500; seed++ {
				if bad, _ := play(t, seed, admit, admit == nil); slices.ContainsFunc(bad, func(s string) bool { return strings.Contains(s, "outside of window") }) {
					t.Logf("noticed by scenario %d", seed)
					return
				}
			}
			t.Error("500 scenarios did not notice that it was taken out")
		})
	}
}
