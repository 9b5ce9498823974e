package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

func params(c host.Call) map[string]any {
	out := map[string]any{}
	_ = json.Unmarshal(c.Params, &out)
	return out
}

func TestStepsReadWhatEarlierOnesSaid(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.Step == "first" {
				c.Sink(host.Event{Stdout: []byte("hello\n")})
				return host.Outcome{Changed: true, Outputs: map[string]any{"version": 7, "exit_code": 3}}, nil
			}
			return host.Outcome{}, nil
		}
		r := l.one(`
vars: {n: 1}
steps:
  - {name: first, uses: command, with: {run: "port ${{ host.vars.port }}"}}
  - name: second
    uses: command
    when: steps.first.changed && steps.first.exit_code == 3
    with: {run: "${{ steps.first.outputs.version + vars.n }} ${{ steps.first.stdout }}"}
  - {name: third, uses: command, when: steps.second.outcome == "changed", with: {run: x}}
`)
		calls := l.plugins.seen()
		if len(calls) != 2 {
			t.Fatalf("calls: %s", l.plugins.steps())
		}
		if got := params(calls[0])["run"]; got != "port 8000000" {
			t.Errorf("a whole number of the inventory became %q", got)
		}
		if got := params(calls[1])["run"]; got != "8 hello\n" {
			t.Errorf("second step got %q", got)
		}
		if r.Outcome != core.Changed || r.Reason != "" || len(r.Steps) != 3 {
			t.Errorf("result %+v", r)
		}
		if s := r.Steps[2]; s.Outcome != core.Skipped || s.ReasonCode != core.WhenFalse || !strings.Contains(s.Reason, "steps.second.outcome") {
			t.Errorf("third step: %+v", s)
		}
		if s := r.Steps[0]; s.Stdout != "hello\n" || s.ExitCode == nil || *s.ExitCode != 3 {
			t.Errorf("first step: %+v", s)
		}
		if calls[0].Key == calls[1].Key || calls[0].Fence == 0 || calls[0].Fence != calls[1].Fence {
			t.Error("each step has its own idempotency key, and the lease's fence")
		}
	})
}

func TestOutcomes(t *testing.T) {
	two := `
steps:
  - {name: a, uses: command, with: {run: x}}
  - {name: b, uses: file, with: {path: /x}}
`
	ignoring := strings.Replace(two, "uses: command,", "uses: command, continue_on_failure: true,", 1)
	cases := []struct {
		name  string
		steps string
		a, b  host.Outcome
		err   error // of a
		want  core.Outcome
		calls string
		why   string
		code  core.ReasonCode
	}{
		{name: "nothing differed", steps: two, want: core.Unchanged, calls: "a.1 b.1"},
		{name: "one changed", steps: two, a: host.Outcome{Changed: true}, want: core.Changed, calls: "a.1 b.1"},
		{name: "all skipped", steps: two, a: host.Outcome{Skipped: true, Reason: "creates exists"}, b: host.Outcome{Skipped: true}, want: core.Skipped, calls: "a.1 b.1", why: "creates exists"},
		{name: "one skipped", steps: two, a: host.Outcome{Skipped: true}, want: core.Unchanged, calls: "a.1 b.1"},
		{name: "failed", steps: two, a: host.Outcome{Failed: true, Reason: "exit code 3"}, want: core.Failed, calls: "a.1", why: "exit code 3"},
		{name: "failed without a word", steps: two, a: host.Outcome{Failed: true}, want: core.Failed, calls: "a.1", why: "gave no reason"},
		{name: "failed, ignored", steps: ignoring, a: host.Outcome{Failed: true, Reason: "no"}, want: core.Unchanged, calls: "a.1 b.1"},
		{name: "unreachable is not ignored", steps: ignoring, a: host.Outcome{Failed: true, Unreachable: true, Reason: "host key refused: pin it"}, want: core.Unreachable, calls: "a.1", why: "host key refused: pin it"},
		{name: "lost is not ignored", steps: ignoring, a: host.Outcome{Failed: true, Lost: true, Reason: "gone"}, want: core.Lost, calls: "a.1", why: "gone"},
		{name: "rolled back", steps: two, a: host.Outcome{Failed: true, RolledBack: true, Reason: "health"}, want: core.RolledBack, calls: "a.1", why: "health"},
		{name: "timed out inside the plugin", steps: two, a: host.Outcome{Failed: true, TimedOut: true, Reason: "no login in 10m"}, want: core.Failed, calls: "a.1", why: "no login"},
		{name: "cancelled, but by nobody", steps: two, a: host.Outcome{Cancelled: true, Reason: "hm"}, want: core.Failed, calls: "a.1", why: "hm"},
		{name: "invalid params", steps: two, err: fmt.Errorf("run: missing: %w", core.ErrInvalid), want: core.Failed, calls: "a.1", why: "run: missing", code: core.ParamsRefused},
		{name: "plugin died, may not be repeated", steps: two, err: core.ErrPluginFailed, want: core.Lost, calls: "a.1", why: "nobody knows", code: core.EffectsUnknown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = func(_ context.Context, call host.Call) (host.Outcome, error) {
					if call.Step == "a" {
						return c.a, c.err
					}
					return c.b, nil
				}
				r := l.one(c.steps)
				if r.Outcome != c.want || l.plugins.steps() != c.calls || !strings.Contains(r.Reason, c.why) {
					t.Errorf("outcome %s (%s) after %q, expected %s (…%s…) after %q", r.Outcome, r.Reason, l.plugins.steps(), c.want, c.why, c.calls)
				}
				if r.ReasonCode != c.code || !r.Outcome.Good() && r.Steps[0].ReasonCode != c.code {
					t.Errorf("code %q, of the step %q, expected %q", r.ReasonCode, r.Steps[0].ReasonCode, c.code)
				}
				if !r.Outcome.Good() && r.Step != "a" {
					t.Errorf("step %q decided it, expected a", r.Step)
				}
			})
		})
	}
}

func TestStepsThatAreNotCalled(t *testing.T) {
	steps := `
steps:
  - {name: a, uses: command, tags: [net], with: {run: x}}
  - {name: b, uses: firmware.set, tags: [fw], with: {x: 1}}
  - {name: c, uses: file, tags: [never], with: {path: /x}}
  - {name: d, uses: file, tags: [always], with: {path: /x}}
`
	cases := []struct {
		name  string
		o     launch.Options
		calls string
		why   core.ReasonCode // of one skipped step
	}{
		{"all", launch.Options{}, "a.1 b.1 d.1", core.NotSelected},
		{"tags", launch.Options{Tags: []string{"net"}}, "a.1 d.1", core.NotSelected},
		{"skip tags", launch.Options{SkipTags: []string{"net", "always"}}, "b.1", core.NotSelected},
		{"never, asked for", launch.Options{Tags: []string{"never"}}, "c.1 d.1", core.NotSelected},
		{"check never calls a type that cannot", launch.Options{Check: true}, "a.1 d.1", core.NoCheckMode},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				r := l.one(steps, func(o *launch.Options, _ *queue.Run) { o.Tags, o.SkipTags, o.Check = c.o.Tags, c.o.SkipTags, c.o.Check })
				if got := l.plugins.steps(); got != c.calls {
					t.Errorf("called %q, expected %q", got, c.calls)
				}
				said := false
				for _, s := range r.Steps {
					said = said || s.Outcome == core.Skipped && s.ReasonCode == c.why && s.Reason != ""
				}
				if len(r.Steps) != 4 || !said {
					t.Errorf("no skipped step has %q: %+v", c.why, r.Steps)
				}
				for _, call := range l.plugins.seen() {
					if call.Check != c.o.Check {
						t.Errorf("step %s was called with check %v", call.Step, call.Check)
					}
				}
			})
		})
	}
}

// A step in check mode learns whether an earlier one would change the host. Control: outside of
// check mode it does not.
func TestCheckModeKnowsWhatEarlierStepsWouldChange(t *testing.T) {
	steps := `
steps:
  - {name: a, uses: command, when: "false", with: {run: x}}
  - {name: b, uses: file, with: {path: /unchanged}}
  - {name: c, uses: file, foreach: '["/unchanged", "FIRST", "/unchanged"]', with: {path: "${{ item }}"}}
  - {name: d, uses: file, with: {path: /unchanged}}
`
	for name, c := range map[string]struct {
		first string // path of the middle item of c; a /changed path would change the host
		steps string
		check bool
		want  string
	}{
		"none changes":           {"/unchanged", steps, true, "b=true c=true c=true c=true d=true"},
		"an item changes":        {"/changed", steps, true, "b=true c=true c=true c=false d=false"},
		"one was not called":     {"/unchanged", strings.Replace(steps, "uses: command, when: \"false\"", "uses: reboot", 1), true, "b=false c=false c=false c=false d=false"},
		"one that failed":        {"/unchanged", strings.Replace(steps, "with: {path: /unchanged}", "continue_on_failure: true, with: {path: /failed}", 1), true, "b=true c=false c=false c=false d=false"},
		"no check mode: control": {"/unchanged", steps, false, "b=false c=false c=false c=false d=false"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
					path := fmt.Sprint(params(c)["path"])
					return host.Outcome{Changed: path == "/changed", Failed: path == "/failed", Effects: host.EffectsNone}, nil
				}
				l.one(strings.Replace(c.steps, "FIRST", c.first, 1), func(o *launch.Options, _ *queue.Run) { o.Check = c.check })
				var got []string
				for _, call := range l.plugins.seen() {
					got = append(got, fmt.Sprintf("%s=%v", call.Step, call.Untouched))
				}
				if text := strings.Join(got, " "); text != c.want {
					t.Errorf("calls %q, expected %q", text, c.want)
				}
			})
		})
	}
}

func TestForeach(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			c.Sink(host.Event{Stdout: fmt.Appendf(nil, "%v\n", params(c)["run"])})
			return host.Outcome{Changed: params(c)["run"] == "b", Outputs: map[string]any{"size": len(l.plugins.seen())}}, nil
		}
		r := l.one(`
steps:
  - {name: each, uses: command, foreach: '["a", "b", "c"]', when: item != "c", with: {run: "${{ item }}"}}
  - {name: after, uses: command, with: {run: "${{ steps.each.outputs.items[1].outputs.size }}"}}
  - {name: none, uses: command, foreach: "[]", with: {run: x}}
`)
		calls := l.plugins.seen()
		if l.plugins.steps() != "each.1 each.1 after.1" || calls[0].Key == calls[1].Key {
			t.Fatalf("calls %q", l.plugins.steps())
		}
		if got := params(calls[2])["run"]; fmt.Sprint(got) != "2" {
			t.Errorf("after got %v", got)
		}
		if s := r.Steps[0]; s.Outcome != core.Changed || s.Stdout != "a\nb\n" {
			t.Errorf("each: %+v", s)
		}
		if s := r.Steps[2]; s.Outcome != core.Skipped || s.ReasonCode != core.NoItems || s.Reason != "foreach has no items" {
			t.Errorf("none: %+v", s)
		}
	})
}

func TestRetryInPlace(t *testing.T) {
	inLab(t, func(l *lab) {
		var at []time.Time
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			at = append(at, time.Now())
			return host.Outcome{Failed: c.Attempt < 3, Reason: "not yet"}, nil
		}
		r := l.one(`
steps: [{name: a, uses: command, with: {run: x}, retry: {attempts: 3, interval: 500ms}}]
`)
		if r.Outcome != core.Unchanged || r.Attempt != 1 || r.Steps[0].Attempts != 3 {
			t.Errorf("result %+v", r)
		}
		if len(at) != 3 || at[1].Sub(at[0]) != 500*time.Millisecond || at[2].Sub(at[1]) != time.Second {
			t.Errorf("attempts at %v", at)
		}
	})
}

func TestRetryThatTakesLongSuspendsTheJob(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			return host.Outcome{Failed: c.Step == "b" && c.Attempt < 3, Reason: "not yet", Changed: c.Step == "a", Outputs: map[string]any{"id": 12345678}}, nil
		}
		la := l.submit("r", 1, `
steps:
  - {name: a, uses: command, with: {run: x}}
  - {name: b, uses: command, with: {run: "${{ steps.a.outputs.id }}"}, retry: {attempts: 3, interval: 1m}}
`)
		start := time.Now()
		n := l.start(l.config())
		pass(30 * time.Second)
		if s, _ := l.q.Status(l.t.Context(), "r"); s.InFlight != 0 || s.Waiting != 1 || len(n.Running()) != 0 {
			t.Errorf("while suspended: %+v, running %v", s, n.Running())
		}
		res := l.results(la)
		n.drain()
		if r := res[0]; r.Outcome != core.Changed || r.Steps[1].Attempts != 3 || r.Steps[0].Outcome != core.Changed || r.Attempt != 3 {
			t.Errorf("result %+v", r)
		}
		if got := l.plugins.steps(); got != "a.1 b.1 b.2 b.3" {
			t.Errorf("calls %q: a finished step ran again, or attempts were not counted on", got)
		}
		calls := l.plugins.seen()
		if calls[1].Key != calls[3].Key || calls[1].Fence >= calls[3].Fence {
			t.Error("the key is stable over attempts, the fence grows")
		}
		if got := params(calls[3])["run"]; fmt.Sprint(got) != "1.2345678e+07" && fmt.Sprint(got) != "12345678" {
			t.Errorf("output came back as %v", got)
		}
		if took := time.Since(start); took < 3*time.Minute {
			t.Errorf("took %v, expected pauses of 1m and 2m", took)
		}
	})
}

// A step whose command may still run after its timeout is lost, and not tried again. Red where a
// step that timed out is failed in any case.
func TestStepTimeoutOfACommandThatMayStillRun(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			<-ctx.Done()
			return host.Outcome{Failed: true, TimedOut: true, Lost: true, Reason: "it may run"}, nil
		}
		r := l.one("steps: [{name: a, uses: command, with: {run: x}, timeout: 10s, retry: {attempts: 2, interval: 1s}}]")
		if r.Outcome != core.Lost || r.ReasonCode != core.EffectsUnknown || r.Reason != "timed out after 10s: it may run (test.yaml:3)"+raise || r.Steps[0].Attempts != 1 {
			t.Errorf("result %+v", r)
		}
	})
}

// raise is the next step after a timeout.
const raise = "\nhint: raise timeout: of the step, or --timeout of turnus exec; or find what the host waits for, with ps ax there"

func TestStepTimeout(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(time.Hour)
		r := l.one("steps: [{name: a, uses: command, with: {run: x}, timeout: 10s, retry: {attempts: 2, interval: 1s}}]")
		if r.Outcome != core.Failed || r.ReasonCode != core.TimedOut || r.Reason != "timed out after 10s (test.yaml:3)"+raise || r.Steps[0].Attempts != 2 {
			t.Errorf("result %+v", r)
		}
		if r.Took != 21*time.Second {
			t.Errorf("took %v, expected 21s", r.Took)
		}
	})
}

func TestSuspendHoldsNoSlotAndGoesOnWithItsState(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.State == nil {
				return host.Outcome{Suspended: true, ResumeAfter: time.Hour, Reason: "waits for DNS", State: &host.State{Version: 2, JSON: json.RawMessage(`{"n":1}`)}}, nil
			}
			return host.Outcome{Changed: true}, nil
		}
		la := l.submit("r", 1, "steps: [{name: a, uses: command, with: {run: x}}]")
		n := l.start(l.config())
		pass(30 * time.Minute)
		if s, _ := l.q.Status(l.t.Context(), "r"); s.Suspended != 1 || len(n.Running()) != 0 {
			t.Errorf("while suspended: %+v", s)
		}
		r := l.results(la)[0]
		n.drain()
		calls := l.plugins.seen()
		if len(calls) != 2 || calls[1].State == nil || calls[1].State.Version != 2 || string(calls[1].State.JSON) != `{"n":1}` || calls[1].Attempt != 1 {
			t.Errorf("calls %+v", calls)
		}
		if r.Outcome != core.Changed || r.Attempt != 1 || r.Steps[0].Attempts != 1 {
			t.Errorf("a suspension counts no attempt: %+v", r)
		}
	})
}

// Output of a call whose attempt continued in another call is in the step's result: after a
// suspension, after the plugin's death, and on whichever node continues. A new attempt begins with
// nothing. Red before: the result had the output of the last call only.
func TestFaultP11OutputBeforeASuspensionIsKept(t *testing.T) {
	for _, tc := range []struct {
		name, steps string
		ends        []string // of the calls, in order
		stdout      string
	}{
		{"suspension", oneStep, []string{"suspend", "suspend", "ok"}, "call 1\ncall 2\ncall 3\n"},
		{"death of the plugin", oneStep, []string{"die", "ok"}, "call 1\ncall 2\n"},
		{"held", oneStep, []string{"hold", "ok"}, "call 1\ncall 2\n"},
		{"new attempt", "steps: [{name: a, uses: file, with: {path: /x}, retry: {attempts: 2, interval: 1s}}]",
			[]string{"suspend", "fail", "suspend", "ok"}, "call 3\ncall 4\n"},
		{"parked before a new attempt", "steps: [{name: a, uses: file, with: {path: /x}, retry: {attempts: 2, interval: 1m}}]",
			[]string{"suspend", "fail", "ok"}, "call 3\n"},
		{"failure", oneStep, []string{"suspend", "fail"}, "call 1\ncall 2\n"},
		{"items", `steps: [{name: a, uses: file, foreach: "[1, 2]", with: {path: /x}}]`,
			[]string{"suspend", "ok", "suspend", "ok"}, "call 1\ncall 2\ncall 3\ncall 4\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				calls := 0
				l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
					calls++
					c.Sink(host.Event{Stdout: fmt.Appendf(nil, "call %d\n", calls)})
					c.Sink(host.Event{Stderr: fmt.Appendf(nil, "call %d\n", calls)})
					c.Sink(host.Event{Diff: fmt.Sprintf("call %d\n", calls)})
					switch tc.ends[calls-1] {
					case "suspend":
						return host.Outcome{Suspended: true, ResumeAfter: time.Minute, State: &host.State{JSON: []byte("1")}}, nil
					case "hold":
						return host.Outcome{Suspended: true, Held: true, State: &host.State{JSON: []byte("1")}}, nil
					case "die":
						return host.Outcome{Effects: host.EffectsNone}, core.ErrPluginFailed
					case "fail":
						return host.Outcome{Failed: true, Reason: "hm"}, nil
					}
					return host.Outcome{Changed: true}, nil
				}
				r := l.one(tc.steps)
				if s := r.Steps[0]; s.Stdout != tc.stdout || s.Stderr != tc.stdout || s.Diff != tc.stdout || s.Truncated {
					t.Errorf("%s: stdout %q, stderr %q, diff %q, truncated %v", r.Outcome, s.Stdout, s.Stderr, s.Diff, s.Truncated)
				}
			})
		})
	}
}

// The text of all calls is bounded as that of one call is, the bytes cut are counted over all of
// them, and the whole goes to where outputs are kept.
func TestFaultP11OutputOfManyCallsIsBounded(t *testing.T) {
	const each, times = 40_000, 5
	inLab(t, func(l *lab) {
		calls := 0
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			calls++
			c.Sink(host.Event{Stdout: bytes.Repeat([]byte{'a' + byte(calls)}, each)})
			if calls < times {
				return host.Outcome{Suspended: true, State: &host.State{}}, nil
			}
			return host.Outcome{Changed: true}, nil
		}
		s := l.one(oneStep).Steps[0]
		text := len(strings.ReplaceAll(cutLine().ReplaceAllString(s.Stdout, ""), "\n", ""))
		if cut := cutBytes(s.Stdout); len(s.Stdout) > streamKeep+100 || !s.Truncated || cut != each*times || text == each*times {
			t.Errorf("%d bytes, that stand for %d of %d, truncated %v", len(s.Stdout), cut, each*times, s.Truncated)
		}
		if s.Stdout[0] != 'b' || s.Stdout[len(s.Stdout)-1] != 'a'+times {
			t.Errorf("from %q to %q", s.Stdout[0], s.Stdout[len(s.Stdout)-1])
		}
	})
}

// A script that asks for no time at all does not go round without end.
func TestSuspensionLastsAtLeastASecond(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.State == nil {
				return host.Outcome{Suspended: true, State: &host.State{}}, nil
			}
			return host.Outcome{Changed: true}, nil
		}
		begin := time.Now()
		r := l.one("steps: [{name: a, uses: command, with: {run: x}}]")
		if took := time.Since(begin); r.Outcome != core.Changed || took < leastPause {
			t.Errorf("%s after %v, expected at least %v", r.Outcome, took, leastPause)
		}
	})
}

// A call that does not end when its time is over costs that time and a grace, once, and the reason
// has both. Red before: it counted as a death of the plugin, was repeated twice, and the reason
// left out that it did not end.
func TestFaultP6ACallThatIgnoresItsEnd(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			<-ctx.Done()
			<-time.After(time.Second)
			return host.Outcome{Failed: true, TimedOut: true, How: ", and did not end within 1s; its process is killed", Effects: host.EffectsUnknown},
				fmt.Errorf("%w: lab 1.0.0: the call was asked to end, and did not", core.ErrPluginFailed)
		}
		begin := time.Now()
		r := l.one("steps: [{name: a, uses: file, timeout: 5s, with: {path: /x}}]")
		if took := time.Since(begin); took > 11*time.Second || len(l.plugins.seen()) != 1 {
			t.Errorf("after %v and %s", took, l.plugins.steps())
		}
		if r.Outcome != core.Failed || r.ReasonCode != core.TimedOut || r.Reason != "timed out after 5s, and did not end within 1s; its process is killed (test.yaml:3)"+raise {
			t.Errorf("%s: %q", r.Outcome, r.Reason)
		}
	})
}

func TestPluginThatDies(t *testing.T) {
	t.Run("continues from its checkpoint", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
				if c.State != nil {
					return host.Outcome{Changed: true, Reason: ""}, nil
				}
				if err := c.Checkpoint(ctx, host.State{Version: 1, JSON: json.RawMessage(`{}`)}); err != nil {
					return host.Outcome{}, err
				}
				return host.Outcome{}, core.ErrPluginFailed
			}
			r := l.one("steps: [{name: a, uses: file, with: {path: /x}}]")
			if r.Outcome != core.Changed || l.plugins.steps() != "a.1 a.1" {
				t.Errorf("%+v after %s", r, l.plugins.steps())
			}
		})
	})
	t.Run("again and again", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) { return host.Outcome{}, core.ErrPluginFailed }
			r := l.one("steps: [{name: a, uses: file, with: {path: /x}}]")
			if r.Outcome != core.Failed || len(l.plugins.seen()) != maxCrashes || !strings.Contains(r.Reason, "3 times") {
				t.Errorf("%+v after %s", r, l.plugins.steps())
			}
		})
	})
	t.Run("is held back for a while", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) {
				if len(l.plugins.seen()) < 5 {
					return host.Outcome{Failed: true, Effects: host.EffectsNone}, core.ErrUnavailable
				}
				return host.Outcome{}, nil
			}
			if r := l.one(oneStep); r.Outcome != core.Unchanged || r.Steps[0].Attempts != 1 {
				t.Errorf("%+v", r)
			}
		})
	})
	t.Run("does not start at all", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) {
				return host.Outcome{Failed: true, Effects: host.EffectsNone}, fmt.Errorf("plugin x: exec format error: %w", core.ErrUnavailable)
			}
			if r := l.one(oneStep); r.Outcome != core.Failed || r.ReasonCode != core.Unavailable || !strings.Contains(r.Reason, "exec format error") {
				t.Errorf("%+v", r)
			}
		})
	})
	t.Run("before it did anything", func(t *testing.T) {
		inLab(t, func(l *lab) {
			l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) {
				if len(l.plugins.seen()) == 1 {
					return host.Outcome{Effects: host.EffectsNone}, core.ErrPluginFailed
				}
				return host.Outcome{}, nil
			}
			if r := l.one("steps: [{name: a, uses: command, with: {run: x}}]"); r.Outcome != core.Unchanged {
				t.Errorf("%+v", r)
			}
		})
	})
}

func TestFaultsBeforeTheCall(t *testing.T) {
	cases := map[string]struct {
		steps, why string
		code       core.ReasonCode
	}{
		"unknown type":          {"steps: [{name: a, uses: not.there, with: {x: 1}}]", "no plugin of worker node-1 has the job type not.there", core.NoJobType},
		"params cannot be read": {"steps: [{name: a, uses: command, with: {run: \"${{ host.vars.nothing.there }}\"}}]", "test.yaml:3:", core.BadExpression},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				r := l.one(c.steps)
				if r.Outcome != core.Failed || !strings.Contains(r.Reason, c.why) || len(l.plugins.seen()) != 0 || r.ReasonCode != c.code || r.Steps[0].ReasonCode != c.code {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

func TestOutputIsBoundedAndText(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			c.Sink(host.Event{Stdout: []byte("begin\x1b[2J\xff\x00")})
			chunk := []byte(strings.Repeat("é\x01", 16<<10))
			for range 200 {
				c.Sink(host.Event{Stdout: chunk, Stderr: chunk})
			}
			c.Sink(host.Event{Stdout: []byte("the end")})
			return host.Outcome{}, nil
		}
		r := l.one(`
steps:
  - {name: a, uses: command, with: {run: x}}
  - {name: b, uses: command, with: {run: x}}
  - {name: c, uses: command, with: {run: x}}
`)
		total := 0
		for _, s := range r.Steps {
			total += len(s.Stdout) + len(s.Stderr)
			if !s.Truncated || !utf8.ValidString(s.Stdout) || !strings.HasPrefix(s.Stdout, `begin\x1b[2J\xff\x00`) ||
				!strings.HasSuffix(s.Stdout, "the end") || !strings.Contains(s.Stdout, "bytes cut") {
				t.Errorf("step %s: truncated %v, %d bytes: %.60q", s.Name, s.Truncated, len(s.Stdout), s.Stdout)
			}
		}
		if total == 0 || total > queue.MaxDetail {
			t.Errorf("%d bytes of output were recorded, the bound is %d", total, queue.MaxDetail)
		}
	})
}

func TestOutputsThatCannotBeKeptFailTheStep(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) {
			return host.Outcome{Outputs: map[string]any{"blob": strings.Repeat("x", maxOutputs)}}, nil
		}
		r := l.one("steps: [{name: a, uses: command, with: {run: x}}]")
		if r.Outcome != core.Failed || !strings.Contains(r.Reason, "at most 32768 are kept") {
			t.Errorf("%+v", r)
		}
	})
}
