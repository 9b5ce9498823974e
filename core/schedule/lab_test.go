package schedule_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/memory"
	"github.com/turnus/turnus/core/schedule/scheduletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab is a store in fake time with engines over it, and everything that they tell.
type lab struct {
	*testing.T
	store   schedule.Store
	control *schedule.Control
	runs    *scheduletest.Launches
	options schedule.Options
	ahead   time.Duration // of the store's clock before every server's

	mu      sync.Mutex
	events  []schedule.Event
	servers []*scheduletest.Server
}

// inLab runs a test in fake time, which begins at midnight UTC on 2000-01-01.
func inLab(t *testing.T, f func(l *lab), change ...func(*lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{T: t, runs: &scheduletest.Launches{}}
		for _, c := range change {
			c(l)
		}
		if l.store == nil {
			l.store = memory.New(func() time.Time { return time.Now().Add(l.ahead) })
		}
		l.control = schedule.NewControl(l.store)
		l.options.Events = func(v schedule.Event) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.events = append(l.events, v)
		}
		f(l)
		l.stop()
	})
}

func (l *lab) stop() {
	for _, s := range l.servers {
		s.Kill()
		s.Wait()
	}
	l.servers = nil
}

func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *lab) put(all ...schedule.Definition) {
	l.Helper()
	_, err := l.control.Put(l.Context(), all...)
	l.ok(err)
}

func (l *lab) serve(prepare ...func(*scheduletest.Mortal)) *scheduletest.Server {
	s := scheduletest.Serve(l.Context(), l.store, l.runs, l.options, prepare...)
	l.servers = append(l.servers, s)
	return s
}

// pass lets time pass, and everything that it makes happen.
func (l *lab) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// told counts the events of a kind, by run where there is one.
func (l *lab) told(kind schedule.EventKind) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for _, v := range l.events {
		if v.Kind == kind {
			out[v.Fire.RunID+v.Skip.RunID]++
		}
	}
	return out
}

func (l *lab) status(id schedule.ID) schedule.Status {
	l.Helper()
	s, err := l.control.Get(l.Context(), id)
	l.ok(err)
	return s
}

// exactly fails unless what was launched, told and counted is the fires of the definitions in
// (from, to], each once.
func (l *lab) exactly(from, to time.Time, all ...schedule.Definition) {
	l.Helper()
	want := map[string]bool{}
	for _, d := range all {
		n := 0
		times, err := d.Next(from, 1000)
		l.ok(err)
		for _, at := range times {
			if !at.After(to) {
				want[schedule.RunID(d.ID, at)] = true
				n++
			}
		}
		if got := l.status(d.ID).State; got.Fired != int64(n) || got.Skipped != 0 || len(got.Claimed) != 0 {
			l.Errorf("%s counts %d fired and %d skipped, expected %d and 0: %+v", d.ID, got.Fired, got.Skipped, n, got)
		}
	}
	got := slices.Sorted(maps.Keys(l.runs.All()))
	if expected := slices.Sorted(maps.Keys(want)); !slices.Equal(got, expected) {
		l.Errorf("launched:\n%s\nexpected:\n%s", strings.Join(got, "\n"), strings.Join(expected, "\n"))
	}
	told := l.told(schedule.EventFired)
	for run := range want {
		if told[run] > 1 {
			l.Errorf("%s was told %d times", run, told[run])
		}
	}
}

func every(n int, cron string) schedule.Definition {
	return schedule.Definition{ID: schedule.ID{Tenant: "acme", Name: fmt.Sprintf("s%d", n)}, Cron: cron, Payload: []byte("what")}
}

// flaky is a store of which calls fail.
type flaky struct {
	schedule.Store
	mu    sync.Mutex
	calls int
	fail  func(call int, name string) (before, after error) // before: not applied; after: applied, the answer is lost
}

func (f *flaky) do(name string, call func() error) error {
	f.mu.Lock()
	f.calls++
	before, after := f.fail(f.calls, name)
	f.mu.Unlock()
	if before != nil {
		return before
	}
	if err := call(); err != nil {
		return err
	}
	return after
}

func (f *flaky) Take(ctx context.Context, most int, hold time.Duration) (out schedule.Taken, err error) {
	err = f.do("take", func() error { out, err = f.Store.Take(ctx, most, hold); return err })
	if err != nil {
		out = schedule.Taken{}
	}
	return out, err
}

func (f *flaky) Write(ctx context.Context, changes []schedule.Change) (out []uint64, err error) {
	err = f.do("write", func() error { out, err = f.Store.Write(ctx, changes); return err })
	if err != nil {
		out = nil
	}
	return out, err
}

func (f *flaky) Get(ctx context.Context, ids []schedule.ID) (out schedule.Read, err error) {
	err = f.do("get", func() error { out, err = f.Store.Get(ctx, ids); return err })
	return out, err
}

func (f *flaky) Wait(ctx context.Context, until time.Time) error {
	return f.do("wait", func() error { return f.Store.Wait(ctx, until) })
}

// lax is a store without compare-and-set: every version is right.
type lax struct{ schedule.Store }

func (s lax) Write(ctx context.Context, changes []schedule.Change) ([]uint64, error) {
	changes = slices.Clone(changes)
	for i, c := range changes {
		read, err := s.Get(ctx, []schedule.ID{c.ID})
		if err != nil {
			return nil, err
		}
		if len(read.Records) > 0 {
			changes[i].Version = read.Records[0].Version
		}
	}
	return s.Store.Write(ctx, changes)
}

// sticky is a store without take-over: what is held is held for good.
type sticky struct{ schedule.Store }

func (s sticky) Take(ctx context.Context, most int, _ time.Duration) (schedule.Taken, error) {
	return s.Store.Take(ctx, most, schedule.MaxHold)
}

func (s sticky) Write(ctx context.Context, changes []schedule.Change) ([]uint64, error) {
	changes = slices.Clone(changes)
	for i := range changes {
		if changes[i].Hold > 0 {
			changes[i].Hold = schedule.MaxHold
		}
	}
	return s.Store.Write(ctx, changes)
}

// ownClock is a store whose callers go by their own clock, not by its.
type ownClock struct {
	schedule.Store
	off time.Duration
}

func (s ownClock) Take(ctx context.Context, most int, hold time.Duration) (schedule.Taken, error) {
	taken, err := s.Store.Take(ctx, most, hold)
	taken.Now = taken.Now.Add(s.off)
	return taken, err
}

// sleepy is a store as a server sees it that is stopped as a whole at its first write.
type sleepy struct {
	schedule.Store
	nap   time.Duration
	mu    sync.Mutex
	awake chan struct{} // made at the first write, closed when the nap is over
}

func (s *sleepy) sleep(begin bool) {
	s.mu.Lock()
	if s.awake == nil && begin {
		awake := make(chan struct{})
		s.awake = awake
		time.AfterFunc(s.nap, func() { close(awake) })
	}
	awake := s.awake
	s.mu.Unlock()
	if awake != nil {
		<-awake
	}
}

func (s *sleepy) Take(ctx context.Context, most int, hold time.Duration) (schedule.Taken, error) {
	s.sleep(false)
	return s.Store.Take(ctx, most, hold)
}

func (s *sleepy) Write(ctx context.Context, changes []schedule.Change) ([]uint64, error) {
	s.sleep(true)
	return s.Store.Write(ctx, changes)
}

var errAway = fmt.Errorf("connection refused: %w", core.ErrUnavailable)
