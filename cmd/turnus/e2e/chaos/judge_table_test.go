//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

// sec is a time since boot.
func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// story is evidence as hosts write it, which a case of the judge's table changes.
type story struct {
	evidence
	logs map[string]string
}

// soundStory is one in which every promise is kept: two runs on two hosts of an HA group, one in
// its window.
func soundStory() *story {
	return &story{
		logs: map[string]string{
			"h1": "begin 5 r1 a 10 worker-0 - 10.00\nend 5 r1 a 10 0 11.00\nbegin 5 r1 b 11 worker-0 - 11.02\nend 5 r1 b 11 0 12.00\n",
			"h2": "begin 6 r2 a 10 worker-1 - 100.00\nend 6 r2 a 10 0 101.00\n",
		},
		evidence: evidence{
			runs: []accepted{
				{id: "r1", kind: "once", asked: sec(9), accepted: sec(9.1), over: true},
				{id: "r2", kind: "window", asked: sec(9), accepted: sec(9.1), over: true},
			},
			outcomes: []outcome{
				{run: "r1", host: "h1", outcome: core.Changed, seen: sec(12.1)},
				{run: "r2", host: "h2", outcome: core.Changed, seen: sec(101.1)},
			},
			windows: []span{{sec(60), sec(120)}},
			group:   map[string]string{"h1": "pair", "h2": "pair"},
			recipes: map[string]recipe{
				"once":   {steps: []string{"a", "b"}, once: true},
				"again":  {steps: []string{"a", "b"}},
				"fails":  {steps: []string{"a", "b"}, once: true, fails: "b"},
				"window": {steps: []string{"a"}, window: true, needs: 5 * time.Second, haGroup: true},
			},
			ttl: 6 * time.Second,
		},
	}
}

func (s *story) judged() []violation {
	for host, log := range s.logs {
		s.seen = append(s.seen, parse(host, log)...)
	}
	return judge(s.evidence)
}

// stopped is a fault of worker 0.
func stopped(name string, begin, end float64) happened {
	return happened{planned: planned{kind: kind{name: name, of: "worker"}}, span: span{sec(begin), sec(end)}, mending: sec(end)}
}

// The negative controls: each rule is fed what breaks it, and finds it; beside it what looks alike
// and breaks nothing.
func TestTheJudgeFindsWhatIsForged(t *testing.T) {
	run := func(s *story, id, kind string, more func(*accepted)) {
		a := accepted{id: id, kind: kind, asked: sec(1), accepted: sec(1), over: true}
		if more != nil {
			more(&a)
		}
		s.runs = append(s.runs, a)
	}
	ended := func(s *story, id, host string, o core.Outcome, seen float64) {
		s.outcomes = append(s.outcomes, outcome{run: id, host: host, outcome: o, reason: "because", seen: sec(seen)})
	}
	for name, c := range map[string]struct {
		forge func(*story)
		rule  string // "" if nothing is expected
	}{
		"all is sound": {func(*story) {}, ""},
		"another fence was alive": {func(s *story) {
			run(s, "r3", "again", nil)
			ended(s, "r3", "h1", core.Lost, 20)
			s.logs["h1"] += "begin 7 r3 a 12 worker-1 -,5:r1:b 13.00\n"
		}, "overlap"},
		"two fences at once": {func(s *story) {
			run(s, "r3", "again", nil)
			ended(s, "r3", "h1", core.Lost, 20)
			s.logs["h1"] += "begin 7 r3 a 12 worker-1 - 11.50\nend 7 r3 a 12 0 11.80\n"
		}, "overlap"},
		"an HA group at once": {func(s *story) {
			run(s, "r3", "window", nil)
			ended(s, "r3", "h1", core.Changed, 110)
			s.logs["h1"] += "begin 7 r3 a 12 worker-1 - 100.50\nend 7 r3 a 12 0 102.00\n"
		}, "overlap"},
		"an HA group one after the other": {func(s *story) {
			run(s, "r3", "window", nil)
			ended(s, "r3", "h1", core.Changed, 110)
			s.logs["h1"] += "begin 7 r3 a 12 worker-1 - 101.50\nend 7 r3 a 12 0 102.00\n"
		}, ""},
		"two steps of one lease": {func(s *story) {
			run(s, "r3", "again", nil)
			ended(s, "r3", "h3", core.Lost, 20)
			s.logs["h3"] = "begin 7 r3 a 12 worker-1 - 13.00\nbegin 7 r3 b 13 worker-1 -,7:r3:a 14.00\n"
		}, ""},
		"an older fence": {func(s *story) {
			run(s, "r3", "again", nil)
			ended(s, "r3", "h3", core.Lost, 20)
			s.logs["h3"] = "begin 8 r3 a 12 worker-1 - 13.00\nend 8 r3 a 12 0 13.10\nbegin 7 r3 b 13 worker-0 - 14.00\n"
		}, "expired lease"},
		"an older fence after Redis was emptied": {func(s *story) {
			run(s, "r3", "again", nil)
			ended(s, "r3", "h3", core.Lost, 20)
			s.faults = []happened{stopped("FLUSHALL", 13.5, 13.5)}
			s.logs["h3"] = "begin 8 r3 a 12 worker-1 - 13.00\nend 8 r3 a 12 0 13.10\nbegin 7 r3 b 13 worker-0 - 14.00\n"
		}, ""},
		"a step of a worker that is cut off from hosts": {func(s *story) {
			s.faults = []happened{stopped("cut worker from hosts", 8.5, 15)}
		}, "through a cut"},
		"a step while the lines are let go one after another": {func(s *story) {
			cut := stopped("cut worker from hosts", 8.5, 15)
			cut.mending = sec(9)
			s.faults = []happened{cut}
		}, ""},
		"steps of another worker meanwhile, and at the onset": {func(s *story) {
			cut := stopped("cut worker from hosts", 8.5, 15)
			cut.target = 1
			s.faults = []happened{cut, stopped("cut worker from hosts", 10.5, 15)}
		}, ""},
		"a step after a long stop": {func(s *story) {
			run(s, "r3", "again", nil)
			ended(s, "r3", "h3", core.Lost, 40)
			s.faults = []happened{stopped("stop worker", 20, 29)}
			s.logs["h3"] = "begin 8 r3 a 12 worker-0 - 19.00\nend 8 r3 a 12 0 19.10\nbegin 8 r3 b 13 worker-0 - 29.10\n"
		}, "expired lease"},
		"a step after a stop within the lease": {func(s *story) {
			run(s, "r3", "again", nil)
			ended(s, "r3", "h3", core.Lost, 40)
			s.faults = []happened{stopped("stop worker", 20, 24)}
			s.logs["h3"] = "begin 8 r3 a 12 worker-0 - 19.00\nend 8 r3 a 12 0 19.10\nbegin 8 r3 b 13 worker-0 - 24.10\n"
		}, ""},
		"a step after a long stop by a new lease": {func(s *story) {
			run(s, "r3", "again", nil)
			ended(s, "r3", "h3", core.Lost, 40)
			s.faults = []happened{stopped("stop worker", 20, 29)}
			s.logs["h3"] = "begin 8 r3 a 12 worker-0 - 19.00\nend 8 r3 a 12 0 19.10\nbegin 9 r3 b 13 worker-0 - 29.10\n"
		}, ""},
		"a closed window":      {func(s *story) { s.windows = []span{{sec(60), sec(99)}} }, "window"},
		"too little time left": {func(s *story) { s.windows = []span{{sec(60), sec(104)}} }, "window"},
		"after the end": {func(s *story) {
			s.outcomes[0].outcome, s.outcomes[0].seen = core.Lost, sec(11)
		}, "after the end"},
		"nobody's run": {func(s *story) { s.runs[0].id = "r9" }, "unasked"},
		"not approved": {func(s *story) { s.runs[0].approved = sec(10.5) }, "unasked"},
		"begun long after a cancel": {func(s *story) {
			s.runs[0].cancelled = sec(6)
		}, "cancel"},
		"begun soon after Redis was back, and a cancel meanwhile": {func(s *story) {
			s.runs[0].cancelled, s.faults = sec(3), []happened{stopped("stop Redis", 2.5, 4)}
		}, ""},
		"begun long after Redis was back, and a cancel meanwhile": {func(s *story) {
			s.runs[0].asked, s.runs[0].cancelled, s.faults = sec(0.5), sec(0.6), []happened{stopped("stop Redis", 0.5, 1.5)}
		}, "cancel"},
		"begun before a cancel": {func(s *story) { s.runs[0].cancelled = sec(10.5) }, ""},
		"twice what must not be": {func(s *story) {
			s.logs["h1"] += "begin 7 r1 b 12 worker-1 - 12.05\nend 7 r1 b 12 0 12.08\n"
		}, "repeated"},
		"twice what may be": {func(s *story) {
			s.runs[0].kind = "again"
			s.logs["h1"] += "begin 7 r1 b 12 worker-1 - 12.05\nend 7 r1 b 12 0 12.08\n"
		}, ""},
		"a run without an end": {func(s *story) { s.runs[0].over, s.outcomes = false, s.outcomes[1:] }, "lost run"},
		"a job without outcome": {func(s *story) {
			s.outcomes = s.outcomes[1:]
		}, "outcomes"},
		"a job with two outcomes": {func(s *story) { ended(s, "r1", "h1", core.Changed, 12.2) }, "outcomes"},
		"changed without its last step": {func(s *story) {
			s.logs["h1"], _, _ = strings.Cut(s.logs["h1"], "end 5 r1 b")
		}, "contradicted"},
		"failed, and all went well": {func(s *story) { s.outcomes[0].outcome = core.Failed }, "contradicted"},
		"cancelled, and all went well": {func(s *story) {
			s.outcomes[0].outcome = core.Cancelled
		}, "contradicted"},
		"cancelled, and all had gone well": {func(s *story) {
			s.outcomes[0].outcome, s.runs[0].cancel = core.Cancelled, sec(13.05)
		}, "contradicted"},
		"cancelled in its last step": {func(s *story) {
			s.outcomes[0].outcome, s.runs[0].cancel = core.Cancelled, sec(11.9)
		}, ""},
		"unreachable, and all went well": {func(s *story) {
			s.outcomes[0].outcome = core.Unreachable
		}, "contradicted"},
		"unchanged": {func(s *story) { s.outcomes[0].outcome = core.Unchanged }, "contradicted"},
		"changed, and a step failed": {func(s *story) {
			s.runs[0].kind = "fails"
			s.logs["h1"] = strings.Replace(s.logs["h1"], "b 11 0", "b 11 3", 1)
		}, "contradicted"},
		"failed as its host saw": {func(s *story) {
			s.runs[0].kind, s.outcomes[0].outcome = "fails", core.Failed
			s.logs["h1"] = strings.Replace(s.logs["h1"], "b 11 0", "b 11 3", 1)
		}, ""},
		"fired twice": {func(s *story) {
			s.triggers = []trigger{{mark: "fire-0", at: sec(19), run: "f1"}}
			for i, id := range []string{"f1", "f2"} {
				run(s, id, "fire", nil)
				ended(s, id, "h1", core.Changed, 30)
				s.logs["h1"] += fmt.Sprintf("begin 2%d %s fire-0 3%d worker-0 - 2%d.00\nend 2%[1]d %[2]s fire-0 3%[3]d 0 2%[4]d.50\n", i, id, i, i)
			}
		}, "fire"},
		"fired once, in two attempts": {func(s *story) {
			s.triggers = []trigger{{mark: "fire-0", at: sec(19), run: "f1"}}
			run(s, "f1", "fire", nil)
			ended(s, "f1", "h1", core.Changed, 30)
			s.logs["h1"] += "begin 20 f1 fire-0 30 worker-0 - 20.00\nbegin 21 f1 fire-0 31 worker-1 - 21.00\nend 21 f1 fire-0 31 0 21.50\n"
		}, ""},
		"never fired": {func(s *story) { s.triggers = []trigger{{mark: "fire-0", at: sec(19)}} }, "fire"},
		"fired on a host that was away": {func(s *story) {
			s.triggers = []trigger{{mark: "fire-0", at: sec(19), run: "f1"}}
			run(s, "f1", "fire", nil)
			ended(s, "f1", "h1", core.Unreachable, 30)
		}, ""},
		"lost, whatever the host saw": {func(s *story) { s.outcomes[0].outcome = core.Lost }, ""},
		"a line that is not whole": {func(s *story) {
			s.logs["h1"] += "begin 7 r1 b 12 worker-1 -,5:r1:b"
		}, ""},
	} {
		s := soundStory()
		c.forge(s)
		found := s.judged()
		switch {
		case c.rule == "" && len(found) > 0:
			t.Errorf("%s: found %v", name, found)
		case c.rule != "" && (len(found) == 0 || found[0].rule != c.rule):
			t.Errorf("%s: found %v, expected %s", name, found, c.rule)
		}
	}
}

// Recovery counts from the onset where others continue, else from the end, and sees both what was
// asked for and what a worker left behind.
func TestRecoveryIsCountedFromTheRightTime(t *testing.T) {
	v := evidence{
		runs: []accepted{
			{id: "p1", kind: "pulse", asked: sec(12)}, {id: "p2", kind: "pulse", asked: sec(30)},
			{id: "p3", kind: "pulse", asked: sec(24)}, // delayed by the later fault
			{id: "t", kind: "timed", asked: sec(4)},
		},
		recipes: map[string]recipe{"timed": {suspended: 5 * time.Second}},
		until:   sec(100),
		seen: []execution{
			{host: "h1", run: "r1", worker: "worker-0", fence: 1, begin: sec(9)},
			{host: "t", run: "t", step: "a", worker: "worker-1", fence: 9, begin: sec(5), end: sec(6), ended: true},
			{host: "t", run: "t", step: "b", worker: "worker-1", fence: 9, begin: sec(11), end: sec(12), ended: true},
			{host: "p", run: "p1", worker: "worker-1", fence: 2, begin: sec(15), end: sec(15.1), ended: true},
			{host: "h1", run: "r2", worker: "worker-1", fence: 3, begin: sec(17.5), end: sec(18), ended: true},
			{host: "p", run: "p2", worker: "worker-1", fence: 4, begin: sec(31), end: sec(31.1), ended: true},
			{host: "p", run: "p3", worker: "worker-1", fence: 5, begin: sec(40), end: sec(40.1), ended: true},
		},
	}
	f := stopped("kill worker", 10, 10)
	f.single = true
	outage := happened{planned: planned{kind: kind{name: "stop Redis", outage: true}, single: true}, span: span{sec(10), sec(14)}}
	later := happened{planned: planned{kind: kind{name: "kill server"}}, span: span{sec(25), sec(25)}}
	for _, c := range []struct {
		fault happened
		timed float64 // when the suspended job continued
		want  time.Duration
	}{{f, 11, sec(7.5)}, {outage, 11, sec(1)}, {outage, 20, sec(6)}, {f, 24, sec(13)}, {f, 0, sec(14)}} {
		v.seen[2].begin, v.seen[2].run = sec(c.timed), "t"
		if c.timed == 0 {
			v.seen[2].run = "never"
		}
		v.faults = []happened{c.fault, later}
		if got := recoveries(v); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s, timed at %v: %v, expected %v", c.fault.name, c.timed, got, c.want)
		}
	}
}
