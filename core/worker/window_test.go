package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/windows"
)

// Fake time begins on Saturday 2000-01-01 at midnight, UTC.
const night = `
window_sets:
  night:
    timezone: UTC
    allow: [{id: nightly, rrule: "FREQ=DAILY", from: "22:00", to: "+1d 02:00"}]
`

func calendarOf(t *testing.T, text string) *admission.Calendar {
	t.Helper()
	b, err := admission.NewCalendar([]windows.Document{{File: "windows.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// post puts definitions on the board of a run.
func (l *lab) post(run, text string) {
	l.t.Helper()
	data, err := admission.EncodeCalendar(calendarOf(l.t, text))
	if err == nil {
		_, err = l.q.Post(context.Background(), "windows/"+run, data, 24*365*time.Hour)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// windowed launches on n hosts of window set night, with definitions posted.
func (l *lab) windowed(id string, n int, text, steps string) *launch.Launch {
	l.t.Helper()
	return l.submit(id, n, "window: night\n"+steps, l.calendar(id, text))
}

func (l *lab) windowedConfig() Config {
	c := l.config()
	c.Board = l.q
	return c
}

// at is when a call of the plugin began.
type began struct {
	step string
	at   time.Time
}

// starts notes when calls begin, and lets them take d.
func (l *lab) starts(d time.Duration) *[]began {
	var list []began
	l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
		l.mu.Lock()
		list = append(list, began{c.Step, time.Now()})
		l.mu.Unlock()
		return sleep(d)(ctx, c)
	}
	return &list
}

func hour(h float64) time.Time {
	return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(h * float64(time.Hour)))
}

func TestStepWaitsForItsWindow(t *testing.T) {
	inDays(t, func(l *lab) {
		pass(5 * time.Hour)
		starts := l.starts(10 * time.Minute)
		la := l.windowed("r", 1, night, `
steps:
  - {name: stage, uses: command, with: {run: x}}
  - {name: flash, uses: firmware.set, needs: 30m, with: {v: 1}}
  - {name: look, uses: command, with: {run: x}}
`)
		n := l.start(l.windowedConfig())
		pass(time.Hour)
		s, err := l.q.Status(context.Background(), "r")
		if err != nil || s.Deferred != 1 || s.InFlight != 0 || len(n.Running()) != 0 {
			t.Errorf("while it waits: %+v, %v; running %v", s, err, n.Running())
		}
		r := l.results(la)[0]
		n.drain()
		if r.Outcome != core.Changed || l.plugins.steps() != "stage.1 flash.1 look.1" {
			t.Fatalf("%+v after %s", r, l.plugins.steps())
		}
		if flash := (*starts)[1]; flash.at.Before(hour(22)) || flash.at.After(hour(22).Add(time.Second)) {
			t.Errorf("flash began at %v", flash.at)
		}
		w := r.Steps[1].Window
		if w == nil || w.Set != "night" || !w.Open.Equal(hour(22)) || !w.Close.Equal(hour(26)) || !slices.Equal(w.Rules, []string{"nightly"}) {
			t.Errorf("evidence %+v", w)
		}
		if r.Steps[0].Window != nil || r.Steps[2].Window != nil {
			t.Error("steps that wait for no window have one")
		}
	})
}

// A window that is just long enough can be used, though a lease comes some milliseconds after it
// opened.
func TestNeedThatEqualsTheWindowFits(t *testing.T) {
	inDays(t, func(l *lab) {
		starts := l.starts(time.Hour)
		la := l.windowed("r", 1, night, "steps: [{name: flash, uses: firmware.set, needs: 4h, with: {v: 1}}]")
		n := l.start(l.windowedConfig())
		r := l.results(la)[0]
		n.drain()
		if r.Outcome != core.Changed || !(*starts)[0].at.Truncate(time.Second).Equal(hour(22)) {
			t.Errorf("%+v, started %v", r, *starts)
		}
	})
}

func TestEachAttemptWaitsForItsWindow(t *testing.T) {
	const retry = "steps: [{name: flash, uses: firmware.set, needs: 30m, with: {v: 1}, retry: {attempts: 2, interval: %s}}]"
	for name, tc := range map[string]struct {
		steps string
		took  time.Duration
		want  []float64 // hours of the starts
	}{
		"retry parked":   {fmt.Sprintf(retry, "3h"), 45 * time.Minute, []float64{0, 22}},
		"retry in place": {fmt.Sprintf(retry, "1s"), 100 * time.Minute, []float64{0, 22}},
		"retry fits":     {fmt.Sprintf(retry, "1m"), 10 * time.Minute, []float64{0, 0.18}},
		"foreach": {
			`steps: [{name: flash, uses: firmware.set, needs: 60m, foreach: "[1, 2, 3]", with: {v: 1}}]`,
			50 * time.Minute,
			[]float64{0, 0.83, 1.67}, // the third needs 20 min, which is exactly the rest
		},
	} {
		t.Run(name, func(t *testing.T) {
			inDays(t, func(l *lab) {
				fail := strings.Contains(tc.steps, "retry")
				var starts []time.Time
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					l.mu.Lock()
					starts = append(starts, time.Now())
					first := len(starts) == 1
					l.mu.Unlock()
					out, err := sleep(tc.took)(ctx, c)
					out.Failed = fail && first
					return out, err
				}
				la := l.windowed("r", 1, night, tc.steps)
				n := l.start(l.windowedConfig())
				r := l.results(la)[0]
				n.drain()
				if r.Outcome != core.Changed {
					t.Fatalf("%+v", r)
				}
				if len(starts) != len(tc.want) {
					t.Fatalf("started at %v, expected hours %v", starts, tc.want)
				}
				for i, at := range starts {
					if d := at.Sub(hour(tc.want[i])); d < -time.Minute || d > time.Minute {
						t.Errorf("attempt %d began at %v, expected hour %v", i+1, at, tc.want[i])
					}
				}
			})
		})
	}
}

// frozen is night with a freeze over the first of its windows.
const frozen = night + `    deny: [{use: freeze/newyear}]
freezes:
  newyear: {timezone: UTC, from: "1999-12-31T00:00", to: "2000-01-02T12:00"}
`

const flash = "steps: [{name: flash, uses: firmware.set, needs: 30m, with: {v: 1}}]"

func TestTrapLateFreezeHoldsWhatIsQueued(t *testing.T) { // a freeze that is made while jobs wait holds them
	inDays(t, func(l *lab) {
		pass(5 * time.Hour)
		starts := l.starts(10 * time.Minute)
		la := l.windowed("r", 3, night, flash)
		n := l.start(l.windowedConfig())
		pass(time.Hour)
		l.post("r", frozen)
		rs := l.results(la)
		n.drain()
		l.exactlyOnce(la, rs)
		for _, s := range *starts {
			if s.at.Before(hour(46)) {
				t.Errorf("started in the freeze, at %v", s.at)
			}
		}
		if len(*starts) != 3 {
			t.Errorf("started %d times", len(*starts))
		}
	})
}

func TestTrapRevokedApprovalStartsNothing(t *testing.T) {
	inDays(t, func(l *lab) {
		approved := func(more string) string {
			return night + "    approval: {by: cab, until: \"2000-03-01\"" + more + "}\n"
		}
		l.starts(100 * time.Minute)
		la := l.windowed("r", 1, approved(""), `
steps:
  - {name: one, uses: firmware.set, needs: 5m, with: {v: 1}}
  - {name: two, uses: firmware.set, needs: 5m, with: {v: 1}}
`)
		n := l.start(l.windowedConfig())
		pass(time.Hour)
		l.post("r", approved(`, revoked: "2000-01-01T01:00:00Z"`))
		r := l.results(la)[0]
		n.drain()
		if r.Outcome != core.Cancelled || r.ReasonCode != core.NeedsReapproval || l.plugins.steps() != "one.1" || r.Steps[0].Outcome != core.Changed {
			t.Errorf("%+v after %s: what runs continues, and nothing starts", r, l.plugins.steps())
		}
	})
}

func TestTrapRebootOneSecondBeforeTheWindow(t *testing.T) { // rebootmgr#10: look again after a timer ended
	inDays(t, func(l *lab) {
		pass(5 * time.Hour)
		starts := l.starts(time.Minute)
		la := l.windowed("r", 1, night, flash)
		n := l.start(l.windowedConfig())
		pass(17*time.Hour - 500*time.Millisecond)
		if k, err := l.q.Signal(context.Background(), "r", queue.EventWindow); err != nil || k != 1 {
			t.Fatal(k, err)
		}
		r := l.results(la)[0]
		n.drain()
		if r.Outcome != core.Changed || len(*starts) != 1 || (*starts)[0].at.Before(hour(22)) || (*starts)[0].at.After(hour(22).Add(time.Second)) {
			t.Errorf("%+v, started %v", r, *starts)
		}
	})
}

func TestTrapWorkersClockDecidesNothing(t *testing.T) {
	for _, skew := range []time.Duration{time.Hour, -time.Hour, 0} {
		t.Run(skew.String(), func(t *testing.T) {
			inDays(t, func(l *lab) {
				pass(21*time.Hour + 30*time.Minute)
				starts := l.starts(time.Minute)
				la := l.windowed("r", 1, night, flash)
				c := l.config()
				far := &line{q: l.q, skew: skew}
				c.Queue, c.Board = far, far
				n := l.start(c)
				l.results(la)
				n.drain()
				at := (*starts)[0].at.Add(skew) // by the queue's clock
				want := hour(22)
				if skew > 0 {
					want = hour(22.5) // it was open when the job came
				}
				if at.Before(want) || at.After(want.Add(2*time.Second)) {
					t.Errorf("started at %v by the queue's clock, expected %v", at, want)
				}
			})
		})
	}
}

// A freeze that is posted a minute before each window and begins with it takes that window away.
func TestCarryOver(t *testing.T) {
	const twice = night + "    carry_over: {max: 2}\n"
	for name, tc := range map[string]struct {
		lost int // windows that are taken away
		want core.Outcome
	}{
		"one window missed":  {1, core.Changed},
		"two windows missed": {2, core.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			inDays(t, func(l *lab) {
				pass(5 * time.Hour)
				l.starts(time.Minute)
				la := l.windowed("r", 1, twice, flash)
				n := l.start(l.windowedConfig())
				for i := range tc.lost {
					pass(time.Until(hour(float64(22 + 24*i)).Add(-time.Minute)))
					l.post("r", twice+fmt.Sprintf("    deny: [{use: freeze/f}]\nfreezes:\n  f: {timezone: UTC, from: \"2000-01-0%dT12:00\", to: \"2000-01-0%dT12:00\"}\n", i+1, i+2))
				}
				r := l.results(la)[0]
				n.drain()
				if r.Outcome != tc.want || tc.want == core.Cancelled && r.ReasonCode != core.NeedsReapproval {
					t.Errorf("%+v", r)
				}
			})
		})
	}
	t.Run("woken early it misses nothing", func(t *testing.T) {
		inDays(t, func(l *lab) {
			pass(5 * time.Hour)
			l.starts(time.Minute)
			la := l.windowed("r", 1, twice, flash)
			n := l.start(l.windowedConfig())
			for range 5 {
				pass(50 * time.Minute)
				if k, err := l.q.Signal(context.Background(), "r", queue.EventWindow); err != nil || k != 1 {
					t.Fatal(k, err)
				}
			}
			if r := l.results(la)[0]; r.Outcome != core.Changed {
				t.Errorf("%+v", r)
			}
			n.drain()
		})
	})
}

// A host that the queue gives out when its window opens, and that finds a freeze there, has missed
// it: it does not matter that no worker has suspended it before.
func TestWindowPlannedAtLaunchIsMissed(t *testing.T) {
	const once = night + "    carry_over: {max: 1}\n"
	const freeze = "    deny: [{use: freeze/f}]\nfreezes:\n  f: {timezone: UTC, from: %q, to: 2000-01-02T12:00}\n"
	for name, tc := range map[string]struct {
		frozen, comes float64 // hours; the window opens at 22 and closes at 26
		strategy      string
		want          core.Outcome
	}{
		"it comes in time":                   {12, 22, "", core.Cancelled},
		"it comes too late":                  {30, 25.75, "", core.Cancelled},
		"its wave comes in time":             {12, 23, "strategy: {waves: [1, 100%]}\n", core.Cancelled},
		"its wave comes too late":            {30, 25.75, "strategy: {waves: [1, 100%]}\n", core.Changed},
		"it comes before the planned window": {30, 20, "", core.Changed},
	} {
		t.Run(name, func(t *testing.T) {
			inDays(t, func(l *lab) {
				pass(5 * time.Hour)
				l.starts(time.Minute)
				la := l.windowed("r", 2, once, tc.strategy+flash)
				l.post("r", once+fmt.Sprintf(freeze, hour(tc.frozen).Format("2006-01-02T15:04")))
				pass(time.Until(hour(tc.comes)))
				n := l.start(l.windowedConfig())
				if tc.strategy != "" {
					all := 0
					if err := queue.AdjustOne(context.Background(), l.q, "r", queue.Adjust{Limit: &all}); err != nil {
						t.Fatal(err)
					}
				}
				rs := l.results(la)
				n.drain()
				if missed := n.Stats().WindowsMissed; missed == 0 && tc.want == core.Cancelled || missed > 0 && tc.comes < 22 {
					t.Errorf("%d windows are counted as missed", missed)
				}
				last := rs[slices.IndexFunc(rs, func(r core.Result) bool { return r.Job.Index == 1 })]
				if last.Outcome != tc.want || tc.want == core.Cancelled && !strings.Contains(last.Reason, "missed 1 of the 1 windows") {
					t.Errorf("%s: %s", last.Outcome, last.Reason)
				}
			})
		})
	}
}

// A window is missed also if the connection to the host takes so long that the job type may not
// begin in it any more.
func TestWindowThatTheJobTypeMayNotBeginInIsMissed(t *testing.T) {
	const once = night + "    carry_over: {max: 1}\n"
	inDays(t, func(l *lab) {
		pass(5 * time.Hour)
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			pass(time.Minute)
			if why := c.MayBegin(ctx); why != "" {
				return host.Outcome{Suspended: true, Held: true, Reason: why, Effects: host.EffectsNone}, nil
			}
			return host.Outcome{Changed: true}, nil
		}
		la := l.windowed("r", 1, once, flash)
		pass(time.Until(hour(25.5).Add(-20 * time.Second)))
		n := l.start(l.windowedConfig())
		r := l.results(la)[0]
		n.drain()
		if r.ReasonCode != core.NeedsReapproval || !strings.Contains(r.Reason, "missed 1 of the 1 windows") {
			t.Errorf("%s: %s", r.Outcome, r.Reason)
		}
	})
}

// A job type cannot set what its wave waits for: only the worker suspends jobs for their windows.
func TestEventOfWindowsIsTheWorkersOwn(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) {
			return host.Outcome{Suspended: true, Signal: queue.EventWindow, ResumeAfter: time.Minute}, nil
		}
		if r := l.one("steps: [{uses: command, with: {run: x}}]"); r.Outcome != core.Failed || !strings.Contains(r.Reason, `until event "window", which is the worker's own`) {
			t.Errorf("%s: %s", r.Outcome, r.Reason)
		}
	})
}

// A board that cannot be read counts as closed, and is asked again soon.
func TestUnreadableBoardIsClosed(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(*lab, *line)
		mend  func(*lab, *line)
		says  string
	}{
		"away": {
			func(_ *lab, b *line) { b.set(func(b *line) { b.noBoard = true }) },
			func(_ *lab, b *line) { b.set(func(b *line) { b.noBoard = false }) }, "the board is away",
		},
		"not a document": {
			func(l *lab, _ *line) { l.mustPost("r", "nonsense") }, func(l *lab, _ *line) { l.post("r", night) }, "read window definitions",
		},
		"not posted": {
			func(l *lab, b *line) { b.set(func(b *line) { b.q = memory.New(memory.Options{}) }) },
			func(l *lab, b *line) { b.set(func(b *line) { b.q = l.q }) }, "nobody posted it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inDays(t, func(l *lab) {
				pass(22 * time.Hour)
				starts := l.starts(time.Minute)
				la := l.windowed("r", 1, night, flash)
				c, board := l.config(), &line{q: l.q}
				c.Board = board
				tc.spoil(l, board)
				n := l.start(c)
				pass(30 * time.Minute)
				if len(*starts) != 0 {
					t.Fatal("started without windows")
				}
				l.mu.Lock()
				for _, e := range l.events {
					if e.Kind == JobSuspended && (e.ReasonCode == "" || !strings.Contains(e.Text, tc.says)) {
						t.Errorf("reported: %s", e.Text)
					}
				}
				l.mu.Unlock()
				tc.mend(l, board)
				if r := l.results(la)[0]; r.Outcome != core.Changed || time.Now().After(hour(22.7)) {
					t.Errorf("%+v at %v", r, time.Now())
				}
				n.drain()
			})
		})
	}
}

// mustPost posts what may be no document.
func (l *lab) mustPost(run, text string) {
	l.t.Helper()
	if _, err := l.q.Post(context.Background(), "windows/"+run, []byte(text), time.Hour); err != nil {
		l.t.Fatal(err)
	}
}

// A step that waits holds neither slot nor lock: another run's job has the host meanwhile.
func TestWaitingHoldsNothing(t *testing.T) {
	inDays(t, func(l *lab) {
		pass(5 * time.Hour)
		l.starts(time.Minute)
		la := l.windowed("r", 1, night, flash)
		c := l.windowedConfig()
		c.Concurrency = 1
		n := l.start(c)
		pass(time.Minute)
		other := l.submit("other", 1, oneStep)
		if r := l.results(other)[0]; r.Outcome != core.Changed || time.Now().After(hour(6)) {
			t.Errorf("%+v at %v", r, time.Now())
		}
		l.results(la)
		n.drain()
	})
}

// Launch refuses it; should it come all the same, an unknown need is an error and no 0.
func TestTrapUnknownNeedIsNoZero(t *testing.T) { // ConfigMgr counts an unknown run time as none
	inDays(t, func(l *lab) {
		la := l.windowed("r", 1, night, flash)
		snap := la.Snapshot
		snap.Run, snap.Source = "r2", strings.Replace(snap.Source, "needs: 30m, ", "", 1)
		run := la.Run
		run.ID = "r2"
		var err error
		if run.Payload, err = snap.Encode(); err != nil {
			t.Fatal(err)
		}
		if _, err = queue.SubmitOne(context.Background(), l.q, run); err != nil {
			t.Fatal(err)
		}
		n := l.start(l.windowedConfig())
		later := *la
		later.Run = run
		r := l.results(&later)[0]
		n.drain()
		if r.Outcome != core.Failed || !strings.Contains(r.Reason, "how long the steps take is not known") {
			t.Errorf("%+v", r)
		}
	})
}

// A job type that reports without a cause that the window held it is called again, but after a
// pause.
func TestHeldForNoWindow(t *testing.T) {
	inDays(t, func(l *lab) {
		var times []time.Time
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if times = append(times, time.Now()); c.State != nil {
				return host.Outcome{}, nil
			}
			return host.Outcome{Suspended: true, Held: true, Reason: "hm", State: &host.State{JSON: []byte("1")}}, nil
		}
		if r := l.one(oneStep); r.Outcome != core.Unchanged || len(times) != 2 || times[1].Sub(times[0]) < askAgain {
			t.Errorf("%+v, called at %v", r, times)
		}
	})
}

// A worker that cannot be reached by the board for long must not hold its jobs up one after the
// other.
func TestSilentBoardHoldsNobodyUp(t *testing.T) {
	inDays(t, func(l *lab) {
		la := l.windowed("r", 50, night, flash)
		c := l.windowedConfig()
		c.Concurrency, c.Board = 50, silent{l.q}
		n := l.start(c)
		pass(callTimeout + time.Second)
		if running := n.Running(); len(running) != 0 {
			t.Errorf("%d jobs wait still", len(running))
		}
		l.cancel()
		l.exactlyOnce(la, l.results(la))
		n.drain()
	})
}

// silent is a board that never answers.
type silent struct{ board.Board }

func (silent) Posted(ctx context.Context, _ string, _ uint64) ([]byte, uint64, error) {
	<-ctx.Done()
	return nil, 0, fmt.Errorf("%w: %w", core.ErrUnavailable, ctx.Err())
}

// An admitted call may be long on its way to the host: admission is asked again, and nothing is
// rounded in its favour. Red with the second's grace that mayBegin gave, and with the clock cut to
// the second.
func TestFaultR7NothingBeginsWithLessThanItNeeds(t *testing.T) {
	for name, tc := range map[string]struct {
		at, launch time.Duration // when it is admitted, and how long it takes from there to the host
		freeze     bool
		wants      bool
	}{
		"in time":                       {time.Hour + 29*time.Minute, 900 * time.Millisecond, false, true},
		"just in time":                  {90 * time.Minute, 0, false, true},
		"half a second less":            {90*time.Minute - 400*time.Millisecond, 900 * time.Millisecond, false, false},
		"half a second less at admit":   {90*time.Minute + 500*time.Millisecond, 0, false, false},
		"a freeze was posted meanwhile": {time.Hour, 500 * time.Millisecond, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				begun := false
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					if tc.freeze {
						l.post("r", frozen)
					}
					pass(tc.launch)
					if why := c.MayBegin(ctx); why != "" {
						return host.Outcome{Suspended: true, Held: true, Reason: why}, nil
					}
					begun = true
					return host.Outcome{Changed: true}, nil
				}
				n := l.start(l.windowedConfig())
				pass(tc.at) // nothing comes between a submit and its lease
				l.windowed("r", 1, night, flash)
				pass(2 * time.Second)
				if begun != tc.wants {
					t.Errorf("began: %v, expected %v", begun, tc.wants)
				}
				n.drain()
			})
		})
	}
}
