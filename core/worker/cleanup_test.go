package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

// ends are the ways in which a run ends before its hosts have ended.
func (l *lab) endings() map[string]func() error {
	return map[string]func() error{
		"cancel": func() error { return l.q.Cancel(context.Background(), "r", "enough") },
		"stop": func() error {
			return queue.AdjustOne(context.Background(), l.q, "r", queue.Adjust{Stop: "enough"})
		},
	}
}

// A host waits when its run ends: the remaining steps of always run, of the inner group first, and
// nothing else.
func TestAlwaysOfASuspendedHost(t *testing.T) {
	const retry = "retry: {attempts: 2, interval: 10m}"
	always := under("always", file("z1"), file("z2"))
	for name, tc := range map[string]struct {
		steps, fails, want, step string
	}{
		"in its first step": {steps: under("steps", group("g", under("steps", file("b", retry), file("c")), under("rescue", file("r")), always), file("d")), want: "b z1 z2", step: "b"},
		"in its steps":      {steps: under("steps", group("g", under("steps", file("a"), file("b", retry), file("c")), always), file("d")), want: "a b z1 z2", step: "b"},
		"in the rescue":     {steps: under("steps", group("g", "recover: true", under("steps", file("a")), under("rescue", file("b", retry), file("r")), always), file("d")), fails: "a", want: "a b z1 z2", step: "b"},
		"in always":         {steps: under("steps", group("g", under("steps", file("a")), under("always", file("b", retry), file("z"))), file("d")), want: "a b b z", step: "d"},
		"in the inner":      {steps: under("steps", group("g", under("steps", file("a"), group("h", under("steps", file("b", retry)), under("always", file("y")))), always), file("d")), want: "a b y z1 z2", step: "b"},
		"before it":         {steps: under("steps", file("b", retry), group("g", under("steps", file("a")), always)), want: "b"},
		"without always":    {steps: under("steps", group("g", under("steps", file("b", retry)), under("rescue", file("r"))), file("d")), want: "b"},
	} {
		for _, how := range []string{"cancel", "stop"} {
			t.Run(name+", "+how, func(t *testing.T) {
				inLab(t, func(l *lab) {
					var called []string
					l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
						called = append(called, c.Step)
						if c.Step == "b" && c.Attempt == 1 {
							time.AfterFunc(time.Minute, func() {
								if err := l.endings()[how](); err != nil {
									t.Error(err)
								}
							})
						}
						if c.Step == tc.fails || c.Step == "b" && c.Attempt == 1 {
							return host.Outcome{Failed: true, Reason: "busy"}, nil
						}
						return host.Outcome{Changed: true}, nil
					}
					began := time.Now()
					r := l.one(tc.steps)
					if got := strings.Join(called, " "); got != tc.want || r.Outcome != core.Cancelled || r.Step != tc.step || r.Reason != "enough" {
						t.Errorf("called %s: %s at %q, %q\nexpected %s: cancelled at %q", got, r.Outcome, r.Step, r.Reason, tc.want, tc.step)
					}
					if took := time.Since(began); took > 2*time.Minute {
						t.Errorf("it took %v: the host waited for its retry", took)
					}
				})
			})
		}
	}
}

// Always of a host that waits for its window does not wait for it.
func TestAlwaysOfAHostThatWaitsForItsWindow(t *testing.T) {
	inDays(t, func(l *lab) {
		var got []string
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			got = append(got, fmt.Sprintf("%s@%d", c.Step, int(time.Since(hour(0)).Hours()+0.01)))
			return sleep(time.Minute)(ctx, c)
		}
		pass(10 * time.Hour)
		la := l.windowed("r", 1, night, "\n"+under("steps", group("g",
			under("steps", "{name: look, uses: command, with: {run: x}}", "{name: flash, uses: firmware.set, needs: 30m, with: {v: 1}}"),
			under("always", "{name: reset, uses: firmware.set, with: {v: 1}}"))))
		time.AfterFunc(2*time.Hour, func() {
			l.cancel()
		})
		n := l.start(l.windowedConfig())
		r := l.results(la)[0]
		n.drain()
		if s := strings.Join(got, " "); s != "look@10 reset@12" || r.Outcome != core.Cancelled || r.Step != "flash" {
			t.Errorf("%s at %s (%s): %s", r.Outcome, r.Step, r.Reason, s)
		}
	})
}

// No worker is there when the run is cancelled, and the one that then runs always dies in it:
// another one runs it again, as after any death from the last state that the queue has.
func TestAlwaysOutlivesItsWorkers(t *testing.T) {
	for name, end := range map[string]string{"cancel": "cancel", "stop": "stop"} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				die, tried := make(chan struct{}), 0
				var called []string
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					called = append(called, c.Step)
					if c.Step == "b" {
						return host.Outcome{Failed: true, Reason: "busy"}, nil
					}
					if tried++; tried == 2 {
						return hang(ctx, die)
					}
					return host.Outcome{Changed: true}, nil
				}
				la := l.submit("r", 1, under("steps", group("g", under("steps", file("b", "retry: {attempts: 2, interval: 10m}")), under("always", file("z1"), file("z2")))))
				first := l.start(l.config())
				pass(time.Minute)
				first.drain()
				if err := l.endings()[end](); err != nil {
					t.Fatal(err)
				}
				f, c := &flaky{Worker: l.q}, l.config()
				c.Queue, c.Name = f, "second"
				second := l.start(c)
				<-die
				f.set(away)
				third := l.start(l.config())
				results := l.results(la)
				second.Kill()
				second.stop()
				<-second.done
				third.drain()
				l.exactlyOnce(la, results)
				if got, r := strings.Join(called, " "), results[0]; got != "b z1 z2 z1 z2" || r.Outcome != core.Cancelled || r.Reason != "enough" || len(r.Steps) != 3 {
					t.Errorf("called %s: %+v", got, r)
				}
			})
		})
	}
}

// A step that was rolled back for a cancel is not rescued, also by a worker that only knows it from
// the state of the job.
func TestACutIsNotRescuedLater(t *testing.T) {
	inLab(t, func(l *lab) {
		var called []string
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			called = append(called, c.Step)
			switch {
			case c.Step == "b":
				l.cancel()
				<-ctx.Done()
				return host.Outcome{Failed: true, RolledBack: true, Reason: "undone"}, nil
			case len(called) == 2:
				return host.Outcome{Suspended: true, ResumeAfter: time.Minute}, nil
			}
			return host.Outcome{Changed: true}, nil
		}
		r := l.one(under("steps", group("g", "recover: true", under("steps", file("b")), under("rescue", file("r")), under("always", file("z")))))
		if got := strings.Join(called, " "); got != "b z z" || r.Outcome != core.RolledBack || r.Step != "b" {
			t.Errorf("called %s: %s at %s, %s", got, r.Outcome, r.Step, r.Reason)
		}
	})
}

// A host that is lost is not touched again. Its reason names the group that is left open.
func TestAlwaysOfALostHostIsNamed(t *testing.T) {
	inLab(t, func(l *lab) {
		die, calls := make(chan struct{}), 0
		l.plugins.do = func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			if calls++; calls == 1 {
				return host.Outcome{Suspended: true, ResumeAfter: time.Minute}, nil
			}
			return hang(ctx, die)
		}
		la := l.submit("r", 1, under("steps", group("g", under("steps", file("b")), under("always", file("z")))))
		f, c := &flaky{Worker: l.q}, l.config()
		c.Queue, c.Name = f, "first"
		first := l.start(c)
		<-die
		f.set(away)
		l.cancel()
		second := l.start(l.config())
		r := l.results(la)[0]
		first.Kill()
		first.stop()
		<-first.done
		second.drain()
		if calls != 2 || r.Outcome != core.Lost || !strings.HasSuffix(r.Reason, "; always of group g did not run") {
			t.Errorf("%d calls: %s, %s", calls, r.Outcome, r.Reason)
		}
	})
}
