package rollout

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// waiting is a strategy whose waves wait for windows.
var waiting = Strategy{WaitForWindows: true}

func TestWaveWithHostsThatWaitForWindows(t *testing.T) {
	limits := []int{4, 10}
	next := Decision{Action: Release, Wave: 1, Limit: 10}
	wait := Decision{Action: Wait}
	at75, in10m := Strategy{NextWaveAt: NextWave{Finished: 75}}, Strategy{NextWaveAt: NextWave{After: 10 * time.Minute}}
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	passes := []int{4, 10, 14, 20}
	next14 := Decision{Action: Release, Wave: 3, Limit: 20}
	for _, c := range []struct {
		why string
		s   Strategy
		p   Progress
		out Decision
	}{
		{"all wait: nobody has shown anything", Strategy{}, Progress{Released: 4, Deferred: 4}, wait},
		{"one is done, the others wait", Strategy{}, Progress{Released: 4, Finished: 1, Deferred: 3, Proven: 1, Succeeded: 1}, next},
		{"one is done, one runs, two wait", Strategy{}, Progress{Released: 4, Finished: 1, Deferred: 2, Proven: 1, Succeeded: 1}, wait},
		{"the only outcomes are of an earlier wave", Strategy{}, Progress{Released: 4, Finished: 1, Deferred: 3}, wait},
		{"all are done", Strategy{}, Progress{Released: 4, Finished: 4, Proven: 4, Succeeded: 4}, next},
		{"the playbook waits for windows", waiting, Progress{Released: 4, Finished: 1, Deferred: 3, Proven: 1, Succeeded: 1}, wait},
		{"the playbook waits, and all are done", waiting, Progress{Released: 4, Finished: 4, Proven: 4, Succeeded: 4}, next},
		{"the only one that is done failed", Strategy{}, Progress{Released: 4, Finished: 1, Deferred: 3, Proven: 1}, wait},
		{"it failed, and the playbook continues", Strategy{OnFailedWave: ContinueRun}, Progress{Released: 4, Finished: 1, Deferred: 3, Proven: 1}, next},
		{"a straggler", Strategy{}, Progress{Released: 4, Finished: 3, Proven: 3, Succeeded: 3}, wait},
		{"a straggler that nobody waits for", at75, Progress{Released: 4, Finished: 3, Proven: 3, Succeeded: 3}, next},
		{"two stragglers", at75, Progress{Released: 4, Finished: 2, Proven: 2, Succeeded: 2}, wait},
		{"a straggler, one waits for its window", at75, Progress{Released: 4, Finished: 2, Deferred: 1, Proven: 2, Succeeded: 2}, next},
		{"and the playbook waits for windows", Strategy{NextWaveAt: at75.NextWaveAt, WaitForWindows: true}, Progress{Released: 4, Finished: 2, Deferred: 1, Proven: 2, Succeeded: 2}, wait},
		{"a straggler, and all others failed", at75, Progress{Released: 4, Finished: 3, Proven: 3}, wait},
		{"nobody of the last wave has finished", at75, Progress{Released: 4, Finished: 3}, wait},
		{"stragglers, in time", in10m, Progress{Released: 4, Finished: 1, Proven: 1, Succeeded: 1, Began: began, Now: began.Add(10*time.Minute - 1)}, Decision{Action: Wait, Until: began.Add(10 * time.Minute)}},
		{"stragglers, late", in10m, Progress{Released: 4, Finished: 1, Proven: 1, Succeeded: 1, Began: began, Now: began.Add(10 * time.Minute)}, next},
		{"late, and nobody has finished", in10m, Progress{Released: 4, Began: began, Now: began.Add(time.Hour)}, wait},
		{"late, and all that finished failed", in10m, Progress{Released: 4, Finished: 3, Proven: 3, Began: began, Now: began.Add(time.Hour)}, wait},
		{"late, and held", in10m, Progress{Released: 4, Finished: 1, Proven: 1, Succeeded: 1, Held: true, Began: began, Now: began.Add(time.Hour)}, wait},
		{"behind a barrier, a straggler of 4", at75, Progress{Released: 14, Passed: 10, Finished: 13, Proven: 3, Succeeded: 3}, next14},
		{"behind a barrier, two stragglers of 4", at75, Progress{Released: 14, Passed: 10, Finished: 12, Proven: 2, Succeeded: 2}, wait},
		{"held", Strategy{}, Progress{Released: 4, Finished: 1, Deferred: 3, Proven: 1, Succeeded: 1, Held: true}, wait},
		{"an approval is due all the same", Strategy{PauseBetween: Pause{Approve: true}}, Progress{Released: 4, Finished: 1, Deferred: 3, Proven: 1, Succeeded: 1}, Decision{Action: Ask, Wave: 1}},
	} {
		l := limits
		if c.p.Passed > 0 {
			l = passes
		}
		if got := Next(l, c.s, c.p); got != c.out {
			t.Errorf("%s: %+v, expected %+v", c.why, got, c.out)
		}
	}
}

// Elsewhere a blocked operation held the rollout slot: argo-cd#29307.
func TestTrapBlockedHostHoldsUpNoWave(t *testing.T) {
	limits := []int{2, 100}
	if got := Next(limits, Strategy{}, Progress{Released: 2, Finished: 1, Deferred: 1, Proven: 1, Succeeded: 1}); got.Action != Release {
		t.Errorf("one of two hosts waits for its window: %+v, expected the next wave", got)
	}
}

// careless is Next without the guard that somebody of the wave has to be proven.
func careless(limits []int, s Strategy, p Progress) Decision {
	p.Proven, p.Succeeded = max(p.Proven, 1), max(p.Succeeded, 1)
	return Next(limits, s, p)
}

// brokenBy is a rule that a decision breaks, or "".
func brokenBy(d Decision, s Strategy, p Progress) string {
	running := p.Released - p.Finished - p.Deferred
	switch {
	case d.Action != Release:
		return ""
	case p.Held:
		return "a held run continues"
	case running > 0:
		return "a host of the wave still runs"
	case p.Finished < p.Released && p.Proven == 0:
		return "nobody of the wave is proven"
	case s.WaitForWindows && p.Deferred > 0:
		return "the wave should wait for windows"
	}
	return ""
}

func draw(t *rapid.T) ([]int, Strategy, Progress) {
	total := rapid.IntRange(2, 40).Draw(t, "total")
	first := rapid.IntRange(1, total-1).Draw(t, "first")
	finished := rapid.IntRange(0, first).Draw(t, "settled")
	deferred := rapid.IntRange(0, first-finished).Draw(t, "deferred")
	return []int{first, total}, Strategy{WaitForWindows: rapid.Bool().Draw(t, "wait")},
		Progress{Released: first, Finished: finished, Deferred: deferred, Proven: finished, Succeeded: finished, Held: rapid.Bool().Draw(t, "held")}
}

func TestNoWaveFollowsOneThatIsNotDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, s, p := draw(t)
		if why := brokenBy(Next(limits, s, p), s, p); why != "" {
			t.Fatalf("%+v, %+v: %s", s, p, why)
		}
	})
}

// The property notices when the guard is taken out.
func TestNoticesAWaveThatNobodyProved(t *testing.T) {
	s, p := Strategy{}, Progress{Released: 3, Deferred: 3}
	if brokenBy(careless([]int{3, 9}, s, p), s, p) == "" {
		t.Error("a wave without any outcome was followed by the next, and nobody noticed")
	}
}

// With any jobs waiting and running, a run whose hosts all end at last releases its every wave.
func TestEveryWaveComesAtLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, s, p := draw(t)
		p.Held = false
		p.Finished, p.Deferred, p.Proven, p.Succeeded = p.Released, 0, p.Released, 1
		if got := Next(limits, s, p); got.Action != Release {
			t.Fatalf("%+v: %+v", p, got)
		}
	})
}
