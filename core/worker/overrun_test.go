package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

func TestOverrun(t *testing.T) {
	const stop = night + "    overrun: stop_at_checkpoint\n"
	const steps = `
steps:
  - {name: flash, uses: firmware.set, needs: 30m, with: {v: 1}}
  - {name: look, uses: command, with: {run: x}}
  - {name: again, uses: firmware.set, needs: 30m, with: {v: 1}}
`
	for name, tc := range map[string]struct {
		defs    string
		listens bool
		late    string // definitions that are posted while the step runs
		want    string // step@hour
	}{
		"finish":                    {night, true, "", "flash@0 look@3 again@22"},
		"stop":                      {stop, true, "", "flash@0 flash@22 look@23 again@23"},
		"stop, which it ignores":    {stop, false, "", "flash@0 look@22 again@22"},
		"stop in a late freeze":     {stop, true, stop + frozen[len(night):], "flash@0 flash@46 look@48 again@48"},
		"finish all the same in it": {night, true, frozen, "flash@0 look@3 again@46"},
	} {
		t.Run(name, func(t *testing.T) {
			inDays(t, func(l *lab) {
				var got []string
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					l.mu.Lock()
					got = append(got, fmt.Sprintf("%s@%d", c.Step, int(time.Since(hour(0)).Hours()+0.01)))
					l.mu.Unlock()
					done := 0
					if c.State != nil {
						done = len(c.State.JSON) - len(`""`)
					}
					for ; c.Step == "flash" && done < 6; done++ { // six parts of half an hour
						if out, err := sleep(30*time.Minute)(ctx, c); !out.Changed {
							return out, err
						}
						state := host.State{JSON: []byte(`"` + strings.Repeat("x", done+1) + `"`)}
						if err := c.Checkpoint(ctx, state); err != nil {
							return host.Outcome{}, err
						}
						if why := c.Stop(ctx); why != "" && tc.listens {
							return host.Outcome{Suspended: true, Held: true, State: &state, Reason: why}, nil
						}
					}
					return sleep(time.Minute)(ctx, c)
				}
				la := l.windowed("r", 1, tc.defs, steps)
				n := l.start(l.windowedConfig())
				pass(20 * time.Minute)
				if tc.late != "" {
					l.post("r", tc.late)
				}
				r := l.results(la)[0]
				n.drain()
				if s := strings.Join(got, " "); r.Outcome != core.Changed || s != tc.want {
					t.Errorf("%s (%s): %s, expected %s", r.Outcome, r.Reason, s, tc.want)
				}
			})
		})
	}
}

func TestMayStart(t *testing.T) {
	for name, tc := range map[string]struct {
		needs  string
		wait   time.Duration // before it asks
		need   time.Duration
		late   string
		denied bool
	}{
		"at once":                                {"1h", 0, 0, "", false},
		"all that it needs, which just fits":     {"1h", 0, time.Hour, "", false},
		"more is never asked than its needs":     {"1h", 0, 5 * time.Hour, "", false},
		"it was slow, but needs only the rest":   {"1h", 50 * time.Minute, 0, "", false},
		"it was too slow":                        {"20m", 50 * time.Minute, time.Hour, "", true},
		"it was too slow, and does not know":     {"20m", 50 * time.Minute, 0, "", true},
		"it was slow, but what follows is short": {"20m", 30 * time.Minute, 20 * time.Minute, "", false},
		"a freeze was made meanwhile":            {"1h", 10 * time.Minute, time.Second, frozen, true},
	} {
		t.Run(name, func(t *testing.T) {
			inDays(t, func(l *lab) {
				var asked []string
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					if c.State == nil {
						if tc.late != "" {
							l.post("r", tc.late)
						}
						if out, err := sleep(tc.wait)(ctx, c); !out.Changed {
							return out, err
						}
					}
					why := c.MayStart(ctx, tc.need)
					l.mu.Lock()
					asked = append(asked, why)
					l.mu.Unlock()
					if why != "" {
						return host.Outcome{Suspended: true, Held: true, Reason: why, State: &host.State{JSON: []byte("1")}}, nil
					}
					return host.Outcome{Changed: true}, nil
				}
				pass(time.Hour) // one hour is left
				la := l.windowed("r", 1, night, "steps: [{name: flash, uses: firmware.set, needs: "+tc.needs+", with: {v: 1}}]")
				n := l.start(l.windowedConfig())
				r := l.results(la)[0]
				n.drain()
				if r.Outcome != core.Changed || tc.denied != (asked[0] != "") || len(asked) > 2 || tc.denied && time.Now().Before(hour(22)) {
					t.Errorf("%s at %v: %q", r.Outcome, time.Now(), asked)
				}
			})
		})
	}
}

// A job that suspended itself continues at its time: a host must not stay half done for a window's
// sake.
func TestRollbackOutranksTheWindow(t *testing.T) {
	inDays(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.State == nil {
				return host.Outcome{Suspended: true, State: &host.State{JSON: []byte("1")}, ResumeAfter: 3 * time.Hour}, nil
			}
			if c.Stop != nil {
				t.Error("it may be asked to stop")
			}
			return host.Outcome{Failed: true, RolledBack: true, Reason: "bad image"}, nil
		}
		la := l.windowed("r", 1, night+"    overrun: stop_at_checkpoint\n", flash)
		n := l.start(l.windowedConfig())
		r := l.results(la)[0]
		n.drain()
		if r.Outcome != core.RolledBack || time.Now().After(hour(3.1)) {
			t.Errorf("%+v at %v", r, time.Now())
		}
	})
}

// The wait of a call for its plugin's process uses none of its time.
func TestWaitingForAProcessUsesNoTimeOfTheStep(t *testing.T) {
	inDays(t, func(l *lab) {
		var why string
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			if c.State == nil {
				return host.Outcome{Suspended: true, State: &host.State{JSON: []byte("1")}, ResumeAfter: time.Minute}, nil
			}
			if out, err := sleep(50*time.Minute)(ctx, c); !out.Changed {
				return out, err
			}
			if no := c.MayBegin(ctx); no != "" {
				t.Errorf("what it began is blocked: %s", no)
			}
			why = c.MayStart(ctx, time.Hour)
			return host.Outcome{Changed: true}, nil
		}
		pass(30 * time.Minute)
		la := l.windowed("r", 1, night, "steps: [{name: flash, uses: firmware.set, needs: 1h, with: {v: 1}}]")
		n := l.start(l.windowedConfig())
		l.results(la)
		n.drain()
		if why == "" {
			t.Error("at 01:21 an hour was found to fit a window that closes at 02:00")
		}
	})
}
