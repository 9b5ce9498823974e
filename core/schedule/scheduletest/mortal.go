package scheduletest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/turnus/turnus/core/schedule"
)

// ErrKilled is what everything answers to a server that was killed.
var ErrKilled = errors.New("killed")

// Mortal is the store and the launcher as one server sees them that can be killed. After Kill no
// call has an effect any more; a call under way has its effect or not, and no answer.
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
