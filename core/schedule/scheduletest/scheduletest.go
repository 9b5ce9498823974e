// Package scheduletest owns the conformance suite of the schedule store: every rule of package
// schedule as a test that any store can be put under, random calls compared with the memory store, and engines
// that are killed over it. Launches is the launcher of tests, Mortal a store and launcher that dies.
//
// It must not know how a store is built; it sees a Subject.
package scheduletest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/core/schedule"
)

// TB is what opening a store needs of *testing.T or *rapid.T.
type TB interface {
	Helper()
	Cleanup(f func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Subject is a store under test.
type Subject struct {
	// Open returns a fresh, empty store. What it needs is cleaned up with t.Cleanup.
	Open func(t TB) schedule.Store
	// Around wraps every test, as synctest.Test does. Nil means real time.
	Around func(t *testing.T, f func(t *testing.T))
}

type test struct {
	name string
	run  func(f *fixture)
}

// Run puts the subject under the whole suite.
func Run(t *testing.T, s Subject) {
	for _, group := range [][]test{writeTests, takeTests, readTests, waitTests, concurrentTests, engineTests} {
		for _, tc := range group {
			t.Run(tc.name, func(t *testing.T) {
				s.around(t, func(t *testing.T) { tc.run(&fixture{T: t, Store: s.Open(t)}) })
			})
		}
	}
	t.Run("Sequences", s.sequences)
}

func (s Subject) around(t *testing.T, f func(t *testing.T)) {
	if s.Around == nil {
		f(t)
		return
	}
	s.Around(t, f)
}

// fixture is one test's store, with helpers that fail the test.
type fixture struct {
	*testing.T
	schedule.Store
}

func id(n int) schedule.ID { return schedule.ID{Tenant: "acme", Name: fmt.Sprintf("s-%d", n)} }

// now is the store's clock.
func (f *fixture) now() time.Time {
	f.Helper()
	read, err := f.Get(f.Context(), nil)
	f.ok(err)
	return read.Now
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// write applies changes, and returns the versions.
func (f *fixture) write(changes ...schedule.Change) []uint64 {
	f.Helper()
	versions, err := f.Write(f.Context(), changes)
	f.ok(err)
	if len(versions) != len(changes) {
		f.Fatalf("%d versions for %d changes", len(versions), len(changes))
	}
	return versions
}

// create writes a new record.
func (f *fixture) create(id schedule.ID, due time.Time, data string) uint64 {
	f.Helper()
	v := f.write(schedule.Change{ID: id, Due: due, Data: []byte(data)})[0]
	if v == 0 {
		f.Fatalf("%s could not be created", id)
	}
	return v
}

// take takes with a hold.
func (f *fixture) take(most int, hold time.Duration) schedule.Taken {
	f.Helper()
	taken, err := f.Take(f.Context(), most, hold)
	f.ok(err)
	return taken
}

// read is one record, and whether it exists.
func (f *fixture) read(id schedule.ID) (schedule.Record, bool) {
	f.Helper()
	read, err := f.Get(f.Context(), []schedule.ID{id})
	f.ok(err)
	if len(read.Records) == 0 {
		return schedule.Record{}, false
	}
	return read.Records[0], true
}

// want fails unless the record is there with this version and data.
func (f *fixture) want(id schedule.ID, version uint64, data string) {
	f.Helper()
	r, ok := f.read(id)
	if !ok || r.ID != id || r.Version != version || string(r.Data) != data {
		f.Fatalf("record %s: got %+v (exists: %v), expected version %d and data %q", id, r, ok, version, data)
	}
}

// until waits for a condition, looking at it after each wait of the store.
func until(ctx context.Context, f *fixture, what string, cond func() bool) {
	f.Helper()
	const patience = 30 * time.Second
	for end := f.now().Add(patience); !cond(); {
		now := f.now()
		if now.After(end) {
			f.Fatalf("not within %v: %s", patience, what)
		}
		tick(ctx, f, 5*time.Millisecond)
	}
}

// tick lets a little time pass.
func tick(ctx context.Context, f *fixture, d time.Duration) {
	f.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		f.Fatal(ctx.Err())
	case <-timer.C:
	}
}
