package scheduletest

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/turnus/turnus/core/schedule"
)

// Launches is a launcher that remembers. It is idempotent by run id, as the contract asks, and safe for
// concurrent use. Its runs are complete at once, unless Hold is set.
type Launches struct {
	Hold bool          // runs go on until Complete
	Slow time.Duration // how long a call of Launch takes

	mu     sync.Mutex
	starts map[string]Start
	open   map[string]bool
	ends   []string
	fail   func(schedule.Fire) error
}

// Start is one run that was launched.
type Start struct {
	schedule.Fire
	At    time.Time // of the first call, by the process's clock
	Calls int
}

var _ schedule.Launcher = (*Launches)(nil)

// Launch implements schedule.Launcher.
func (l *Launches) Launch(ctx context.Context, f schedule.Fire) error {
	if l.Slow > 0 {
		timer := time.NewTimer(l.Slow)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	l.mu.Lock()
	fail := l.fail
	l.mu.Unlock()
	if fail != nil {
		if err := fail(f); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.starts[f.RunID]
	if !ok {
		if l.starts == nil {
			l.starts, l.open = map[string]Start{}, map[string]bool{}
		}
		s = Start{Fire: f, At: time.Now()}
		l.open[f.RunID] = l.Hold
	}
	s.Calls++
	l.starts[f.RunID] = s
	return nil
}

// FailWith has launches answer what fail does; nil: they succeed.
func (l *Launches) FailWith(fail func(schedule.Fire) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = fail
}

// Running implements schedule.Launcher.
func (l *Launches) Running(_ context.Context, runs []string) ([]string, error) {
	if len(runs) > schedule.MaxBatch {
		return nil, errors.New("asked for too many runs")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, run := range runs {
		if l.open[run] {
			out = append(out, run)
		}
	}
	return out, nil
}

// Cancel implements schedule.Launcher.
func (l *Launches) Cancel(_ context.Context, run, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[run] {
		l.open[run] = false
		l.ends = append(l.ends, run)
	}
	return nil
}

// Complete ends a run, or all of them.
func (l *Launches) Complete(runs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(runs) == 0 {
		clear(l.open)
	}
	for _, run := range runs {
		l.open[run] = false
	}
}

// All returns what was launched, by run id.
func (l *Launches) All() map[string]Start {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.starts)
}

// Count is the number of runs launched.
func (l *Launches) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.starts)
}

// Cancelled lists the runs that were cancelled while they ran.
func (l *Launches) Cancelled() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.ends...)
}
