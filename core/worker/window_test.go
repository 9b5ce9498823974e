package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
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

func book(t *testing.T, text string) *gate.Book {
	t.Helper()
	b, err := gate.NewBook([]windows.Document{{File: "windows.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// post puts definitions on the board of a run.
func (l *lab) post(run, text string) {
	l.t.Helper()
	data, err := gate.Encode(book(l.t, text), time.Now())
	if err == nil {
		_, err = l.q.Post(context.Background(), gate.BoardName(run), data, 24*365*time.Hour)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// gated launches on n hosts of window set night, with definitions posted.
func (l *lab) gated(id string, n int, text, steps string) *launch.Launch {
	l.t.Helper()
	la := l.submit(id, n, "window: night\n"+steps, func(o *launch.Options, _ *queue.Run) {
		if o.RunID != "" {
			o.Windows = book(l.t, text)
		}
	}, func(_ *launch.Options, r *queue.Run) { r.Segments = nil }) // so that the worker sees each job at once
	l.post(id, text)
	return la
}

func (l *lab) gatedConfig() Config {
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
	inLab(t, func(l *lab) {
		pass(5 * time.Hour)
		starts := l.starts(10 * time.Minute)
		la := l.gated("r", 1, night, `
steps:
  - {name: stage, uses: command, with: {run: x}}
  - {name: flash, uses: firmware.set, needs: 30m, with: {v: 1}}
  - {name: look, uses: command, with: {run: x}}
`)
		n := l.start(l.gatedConfig())
		pass(time.Hour)
		s, err := l.q.Status(context.Background(), "r")
		if err != nil || s.Suspended != 1 || s.InFlight != 0 || len(n.Running()) != 0 {
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

// A window that is just long enough can be used, though a lease comes some milliseconds after it opened.
func TestNeedThatEqualsTheWindowFits(t *testing.T) {
	inLab(t, func(l *lab) {
		starts := l.starts(time.Hour)
		la := l.gated("r", 1, night, "steps: [{name: flash, uses: firmware.set, needs: 4h, with: {v: 1}}]")
		n := l.start(l.gatedConfig())
		r := l.results(la)[0]
		n.drain()
		if r.Outcome != core.Changed || !(*starts)[0].at.Truncate(time.Second).Equal(hour(22)) {
			t.Errorf("%+v, started %v", r, *starts)
		}
	})
}

func TestEachAttemptIsGated(t *testing.T) {
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
			[]float64{0, 0.83, 1.67}, // the third needs 20 min, which is just what is left
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
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
				la := l.gated("r", 1, night, tc.steps)
				n := l.start(l.gatedConfig())
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
