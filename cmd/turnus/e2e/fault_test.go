//go:build linux

package e2e

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync/atomic"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
)

// fault is one way for a host to be unwell, and how its job must end.
type fault struct {
	name    string
	profile fleet.Profile
	run     string                   // instead of the usual command
	entry   func(h core.Host) string // instead of the usual line of the inventory
	outcome core.Outcome
	reason  []string // what the reason holds
}

// ends counts the never-ending commands that were begun and ended on their host.
type ends struct{ begun, ended atomic.Int64 }

// handle does the commands of the test on hosts.
func (e *ends) handle(ctx context.Context, c fleet.Command) (int, bool) {
	switch {
	case strings.Contains(c.Script, "never-ends"):
		e.begun.Add(1)
		<-ctx.Done()
		e.ended.Add(1)
		return 0, true
	case strings.Contains(c.Script, "read answer"):
		_, _ = io.WriteString(c.Stdout, "Proceed? [y/N] ")
		if _, err := bufio.NewReader(c.Stdin).ReadString('\n'); err != nil {
			_, _ = io.WriteString(c.Stderr, "no answer\n")
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// latch holds the command "held" on its hosts until it is opened: a job that ends when the test
// wants, however slow the machine is.
type latch struct {
	begun atomic.Int64
	way   chan struct{}
}

func newLatch() *latch { return &latch{way: make(chan struct{})} }

func (g *latch) open() { close(g.way) }

func (g *latch) handle(ctx context.Context, c fleet.Command) (int, bool) {
	if strings.TrimSpace(c.Script) != "held" {
		return 0, false
	}
	g.begun.Add(1)
	select {
	case <-g.way:
	case <-ctx.Done():
	}
	return 0, true
}
