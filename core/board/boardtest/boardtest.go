// Package boardtest owns the conformance suite of the contract of package board, for any backend,
// and random sequences of operations that are compared between two.
//
// It must not know how a backend is built; it sees a Subject.
package boardtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/turnus/turnus/core/board"
)

// TB is the part of *testing.T or *rapid.T that opening a store needs.
type TB interface {
	Helper()
	Cleanup(f func())
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Subject is an implementation under test.
type Subject struct {
	// Open returns a new, empty store. It cleans up with t.Cleanup.
	Open func(t TB) board.Store
	// Around wraps every test, as synctest.Test does. Nil means real time.
	Around func(t *testing.T, f func(t *testing.T))
}

type test struct {
	name string
	run  func(f *fixture)
}

// Run puts the subject under the whole suite.
func Run(t *testing.T, s Subject) {
	around := s.Around
	if around == nil {
		around = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	for _, tc := range slices.Concat(boardTests, feedTests) {
		t.Run(tc.name, func(t *testing.T) {
			around(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				tc.run(&fixture{T: t, ctx: ctx, b: s.Open(t)})
			})
		})
	}
}

// fixture is one store under one test.
type fixture struct {
	*testing.T
	ctx context.Context //nolint:containedctx // a fixture lives as long as its test
	b   board.Store
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// eventually polls a condition; it is generous, because machines are loaded.
func (f *fixture) eventually(what string, ok func() bool) {
	f.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			f.Fatalf("waited a minute for %s", what)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-f.ctx.Done():
			f.Fatal(f.ctx.Err())
		}
	}
}

// eq compares, and reports what was checked.
func eq[T comparable](f *fixture, what string, got, want T) {
	f.Helper()
	if got != want {
		f.Fatalf("%s is %v, expected %v", what, got, want)
	}
}
