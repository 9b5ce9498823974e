package transport

import (
	"context"
	"errors"
	"testing"
)

// A command that ended before it was asked to has its own exit, although both are seen at the same
// time, for example by a process that was stopped meanwhile. Red where a select chooses between the
// two.
func TestFaultR5AnEndBeforeTheCancelIsTheTrueOne(t *testing.T) {
	t.Parallel()
	for range 50 {
		s := &session{c: &conn{}, exited: make(chan struct{}), closed: make(chan struct{}), exit: Exit{Code: 3}}
		x := &execution{s: s, proof: newProof("id", nil), failed: make(chan error, 1), drained: make(chan struct{})}
		x.proof.pass([]byte("turnus:id\n"))
		close(s.exited)
		close(x.drained)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if exit, err := x.wait(ctx); err != nil || exit.Code != 3 {
			t.Fatalf("%+v, %v", exit, err)
		}
	}
}

// A command that a signal ended before its shell gave proof was ended by a command with a newer
// fence.
func TestACommandThatANewerFenceEndsBeforeItBeginsIsStale(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal string
		fenced bool
		stale  bool
	}{{"TERM", true, true}, {"", true, false}, {"TERM", false, false}} {
		s := &session{c: &conn{e: &endpoint{name: "web1"}}, exited: make(chan struct{}), closed: make(chan struct{}), exit: Exit{Code: 143, Signal: c.signal}}
		x := &execution{s: s, proof: newProof("id", nil), fenced: c.fenced, failed: make(chan error, 1), drained: make(chan struct{})}
		close(s.exited)
		close(x.drained)
		if _, err := x.wait(t.Context()); err == nil || errors.Is(err, ErrStaleFence) != c.stale {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
