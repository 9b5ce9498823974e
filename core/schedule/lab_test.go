package schedule_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab is a ledger in fake time with engines over it, and all events of those.
type lab struct {
	*testing.T
	url     string
	ledger  *ledger.Ledger
	control *schedule.Control

	mu       sync.Mutex
	events   []schedule.Event
	fail     func(schedule.Trigger) error // what Prepare answers; nil: it prepares
	prepared int
	accepted map[string]int
	cancels  []string // of Cancelled
	servers  []*server
}

// server is one engine.
type server struct {
	engine *schedule.Engine
	stop   func()
}

// inLab runs a test in fake time, which begins at midnight UTC on 2000-01-01.
func inLab(t *testing.T, f func(l *lab)) {
	t.Helper()
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))
		defer l.close()
		f(l)
	})
}

func newLab(t *testing.T, url string) *lab {
	t.Helper()
	store, err := ledger.Open(t.Context(), url, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &lab{T: t, url: url, ledger: store, control: schedule.NewControl(store), accepted: map[string]int{}}
}

func (l *lab) close() {
	l.stop()
	if err := l.ledger.Close(); err != nil {
		l.Error(err)
	}
}

// warm makes the compressor that ledgers of this process share, which must not be made in a test's
// bubble.
func warm(t *testing.T) {
	t.Helper()
	l := newLab(t, "sqlite:"+filepath.Join(t.TempDir(), "warm.db"))
	defer l.close()
	if _, _, err := l.ledger.Accept(t.Context(), l.run("w", "", "w")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ledger.Material(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) run(id, tenant, by string) ledger.NewRun {
	return ledger.NewRun{ID: id, Tenant: tenant, Playbook: "what", LaunchedBy: by, Jobs: []ledger.JobHost{{Host: "h"}}, Request: []byte(id), Snapshot: make([]byte, 4<<10)}
}

// Prepare implements schedule.Launcher.
func (l *lab) Prepare(_ context.Context, f schedule.Trigger) (ledger.NewRun, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prepared++
	if l.fail != nil {
		if err := l.fail(f); err != nil {
			return ledger.NewRun{}, err
		}
	}
	return l.run(f.RunID, f.Schedule.Tenant, "schedule:"+string(f.Payload)), nil
}

// Accepted implements schedule.Launcher.
func (l *lab) Accepted(runs []ledger.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range runs {
		l.accepted[r.ID]++
	}
}

// Cancelled implements schedule.Launcher.
func (l *lab) Cancelled(_ context.Context, run, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancels = append(l.cancels, run)
	return nil
}

// cancelled returns the runs of Cancelled.
func (l *lab) cancelled() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.cancels)
}

func (l *lab) failWith(fail func(schedule.Trigger) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = fail
}

func (l *lab) report(v schedule.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, v)
}

// serve starts an engine on the lab's ledger.
func (l *lab) serve() *server { return l.serveOn(l.ledger) }

func (l *lab) serveOn(store *ledger.Ledger) *server {
	s := l.start(store)
	l.servers = append(l.servers, s)
	return s
}

// start starts an engine that the caller stops.
func (l *lab) start(store *ledger.Ledger) *server {
	ctx, cancel := context.WithCancel(l.Context())
	s := &server{engine: schedule.NewEngine(store, l, l.report)}
	done := make(chan struct{})
	go func() { defer close(done); s.engine.Run(ctx) }()
	s.stop = func() { cancel(); <-done }
	return s
}

// pollFor has a server of its own look for so long.
func (l *lab) pollFor(d time.Duration, store *ledger.Ledger) {
	l.Helper()
	s := l.start(store)
	timer := time.NewTimer(d)
	<-timer.C
	s.stop()
}

// raw runs SQL behind the ledger's back.
func (l *lab) raw(query string) {
	l.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(l.url, "sqlite:")+"?_pragma=busy_timeout(10000)")
	l.ok(err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(l.Context(), query)
	l.ok(err)
}

func (l *lab) stop() {
	for _, s := range l.servers {
		s.stop()
	}
	l.servers = nil
}

func (l *lab) ok(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func noted(action string) schedule.Note {
	return func(_, _ *schedule.Status) (ledger.Entry, error) {
		return ledger.Entry{Who: "bob", Action: action, Kind: "schedule", Subject: "s"}, nil
	}
}

func (l *lab) put(all ...schedule.Definition) {
	l.Helper()
	for _, d := range all {
		before, err := l.control.Get(l.Context(), ledger.AllTenants(), d.ID)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			l.Fatal(err)
		}
		_, err = l.control.Put(l.Context(), d, "bob", before.Edition, core.Quota{}, noted("schedule.put"))
		l.ok(err)
	}
}

// pass lets time pass, and everything that it makes happen.
func (l *lab) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// reported counts the events of a kind, by run where there is one.
func (l *lab) reported(kind schedule.EventKind) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for _, v := range l.events {
		if v.Kind == kind {
			out[v.Trigger.RunID+v.Skip.RunID]++
		}
	}
	return out
}

func (l *lab) status(id schedule.ID) schedule.Status {
	l.Helper()
	s, err := l.control.Get(l.Context(), ledger.AllTenants(), id)
	l.ok(err)
	return s
}

// runs are those of the ledger, by id.
func (l *lab) runs() map[string]ledger.Run {
	l.Helper()
	out := map[string]ledger.Run{}
	for page := (ledger.Page{Limit: ledger.MaxPage}); ; {
		runs, next, err := l.ledger.Runs(l.Context(), ledger.AllTenants(), ledger.RunFilter{}, page)
		l.ok(err)
		for _, r := range runs {
			out[r.ID] = r
		}
		if page.Cursor = next; next == "" {
			return out
		}
	}
}

// complete ends runs, or all of them.
func (l *lab) complete(ids ...string) {
	l.Helper()
	if len(ids) == 0 {
		ids = slices.Collect(maps.Keys(l.runs()))
	}
	for _, id := range ids {
		if _, err := l.ledger.Cancel(l.Context(), ledger.AllTenants(), "", id, ""); err != nil {
			l.Fatal(err)
		}
	}
}

// completing ends runs seconds after they were launched, until stop is called.
func (l *lab) completing() (stop func()) {
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			runs, _, err := l.ledger.Unfinished(l.Context(), ledger.Page{Limit: ledger.MaxPage})
			for i := range runs {
				if err == nil {
					_, err = l.ledger.Cancel(l.Context(), ledger.AllTenants(), "", runs[i].ID, "")
				}
			}
			if err != nil && !errors.Is(err, core.ErrConflict) {
				l.Error(err)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// exactly fails unless what was launched, reported and counted equals the triggers of the
// definitions in (from, to], each once.
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
		if got := l.status(d.ID).State; got.Triggered != int64(n) || got.Skipped != 0 || len(got.Claimed) != 0 {
			l.Errorf("%s counts %d triggered and %d skipped, expected %d and 0: %+v", d.ID, got.Triggered, got.Skipped, n, got)
		}
	}
	got := slices.Sorted(maps.Keys(l.runs()))
	if expected := slices.Sorted(maps.Keys(want)); !slices.Equal(got, expected) {
		l.Errorf("launched:\n%s\nexpected:\n%s", strings.Join(got, "\n"), strings.Join(expected, "\n"))
	}
	reported := l.reported(schedule.EventTriggered)
	for run := range want {
		if reported[run] > 1 || l.accepted[run] > 1 {
			l.Errorf("%s was reported %d times, accepted %d times", run, reported[run], l.accepted[run])
		}
	}
}

func every(n int, cron string) schedule.Definition {
	return schedule.Definition{ID: schedule.ID{Tenant: "acme", Name: fmt.Sprintf("s%d", n)}, Cron: cron, Payload: []byte("what")}
}
