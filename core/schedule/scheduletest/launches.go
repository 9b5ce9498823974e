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

// ErrKilled is what everything answers to a server that was killed.
var ErrKilled = errors.New("killed")

// Mortal is the store and the launcher as one server sees them that can be killed. After Kill no call has an effect
// any more; a call under way has its effect or not, and no answer.
type Mortal struct {
	store    schedule.Store
	launcher schedule.Launcher
	end      context.CancelFunc

	mu    sync.Mutex
	calls int
	dieAt int  // at this call, from 1; 0: never
	after bool // the call that kills has its effect
	dead  bool
}

// NewMortal makes a mortal; end is called once it has died.
func NewMortal(store schedule.Store, launcher schedule.Launcher, end context.CancelFunc) *Mortal {
	return &Mortal{store: store, launcher: launcher, end: end}
}

// KillAt kills at the nth call from the beginning, before or after its effect.
func (m *Mortal) KillAt(n int, after bool) *Mortal {
	m.dieAt, m.after = n, after
	return m
}

// Kill kills now.
func (m *Mortal) Kill() {
	m.mu.Lock()
	m.dead = true
	m.mu.Unlock()
	m.end()
}

// Dead reports whether it was killed.
func (m *Mortal) Dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// do makes a call, or dies of it.
func (m *Mortal) do(call func() error) error {
	m.mu.Lock()
	if m.dead {
		m.mu.Unlock()
		return ErrKilled
	}
	m.calls++
	dies := m.calls == m.dieAt
	m.mu.Unlock()
	if dies {
		if m.after {
			_ = call()
		}
		m.Kill()
		return ErrKilled
	}
	if err := call(); err != nil {
		return err
	}
	if m.Dead() { // the answer does not reach it
		return ErrKilled
	}
	return nil
}

// Store is the store as this server sees it.
func (m *Mortal) Store() schedule.Store { return mortalStore{m} }

// Launcher is the launcher as this server sees it.
func (m *Mortal) Launcher() schedule.Launcher { return mortalLauncher{m} }

type mortalStore struct{ m *Mortal }

// Take implements schedule.Store.
func (s mortalStore) Take(ctx context.Context, most int, hold time.Duration) (out schedule.Taken, err error) {
	var got schedule.Taken
	if err = s.m.do(func() error { got, err = s.m.store.Take(ctx, most, hold); return err }); err == nil {
		out = got
	}
	return out, err
}

// Write implements schedule.Store.
func (s mortalStore) Write(ctx context.Context, changes []schedule.Change) (out []uint64, err error) {
	var got []uint64
	if err = s.m.do(func() error { got, err = s.m.store.Write(ctx, changes); return err }); err == nil {
		out = got
	}
	return out, err
}

// Get implements schedule.Store.
func (s mortalStore) Get(ctx context.Context, ids []schedule.ID) (out schedule.Read, err error) {
	err = s.m.do(func() error { out, err = s.m.store.Get(ctx, ids); return err })
	return out, err
}

// List implements schedule.Store.
func (s mortalStore) List(ctx context.Context, p schedule.Page) (out schedule.Listed, err error) {
	err = s.m.do(func() error { out, err = s.m.store.List(ctx, p); return err })
	return out, err
}

// Wait implements schedule.Store.
func (s mortalStore) Wait(ctx context.Context, until time.Time) error {
	return s.m.do(func() error { return s.m.store.Wait(ctx, until) })
}

type mortalLauncher struct{ m *Mortal }

// Launch implements schedule.Launcher.
func (l mortalLauncher) Launch(ctx context.Context, f schedule.Fire) error {
	return l.m.do(func() error { return l.m.launcher.Launch(ctx, f) })
}

// Running implements schedule.Launcher.
func (l mortalLauncher) Running(ctx context.Context, runs []string) (out []string, err error) {
	err = l.m.do(func() error { out, err = l.m.launcher.Running(ctx, runs); return err })
	return out, err
}

// Cancel implements schedule.Launcher.
func (l mortalLauncher) Cancel(ctx context.Context, run, reason string) error {
	return l.m.do(func() error { return l.m.launcher.Cancel(ctx, run, reason) })
}
