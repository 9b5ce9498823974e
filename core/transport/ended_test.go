package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
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

// The end of a command is confirmed by the host, or its error reports that it may still run. Red
// where what the second session found is ignored.
func TestAnEndThatTheHostDoesNotConfirmIsReported(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		found, exits bool
		mayRun       bool
	}{{true, true, false}, {true, false, true}, {false, false, true}, {false, true, false}} {
		t.Run(fmt.Sprintf("found %t, exits %t", c.found, c.exits), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(testContext(t))
			asked, over := make(chan struct{}), make(chan struct{})
			f := startFake(t, fmt.Sprintf("127.33.0.%d", 41+i), func(f *fake) {
				f.onExec = func(_ ssh.Channel, command, _ string) uint32 {
					if strings.Contains(command, "for sig in TERM KILL") {
						close(asked)
						if c.found {
							return 0
						}
						return 1
					}
					cancel()
					if <-asked; !c.exits {
						<-over
					}
					return 143
				}
			})
			_, err := newPool(t, nil).Run(ctx, f.host("web1"), Exec{Command: "sleep 1000"})
			close(over)
			if !errors.Is(err, context.Canceled) || errors.Is(err, ErrMayRun) != c.mayRun {
				t.Errorf("%v, it may still run: %t", err, errors.Is(err, ErrMayRun))
			}
		})
	}
}

// The login of a slow host starts the shell that ends a command as late as that of the command
// itself. Red with a limit that is the same for all hosts.
func TestTheEndOfACommandHasTimeForTheStartOfAShell(t *testing.T) {
	t.Parallel()
	slow, stuck := newProof("id", nil), newProof("id", nil)
	slow.began, stuck.began = time.Now().Add(-7*time.Second), time.Now().Add(-time.Hour)
	slow.pass([]byte("turnus:id\n"))
	for _, c := range []struct {
		proof *shellProof
		up    *elevation
		least time.Duration
	}{{slow, nil, 18 * time.Second}, {stuck, nil, 34 * time.Second}, {stuck, &elevation{}, 34*time.Second + elevating}} {
		if got := (&execution{proof: c.proof, up: c.up}).killLimit(); got < c.least || got > c.least+20*time.Second {
			t.Errorf("%v, expected %v", got, c.least)
		}
	}
}
