//go:build linux && labs

package e2e

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// killSuspended has two jobs suspended, kills the service, and starts it again once they have.
func killSuspended(t *testing.T, step string) (u *upSite, p *process, c *client.Client, run string, trace string) {
	t.Helper()
	trace = t.TempDir() + "/trace"
	u = newUpSite(t, 2, fmt.Sprintf("{uses: lab.park, with: {file: %s, %s}}", trace, step))
	p, c = u.up()
	run = submitted(t, c).ID
	suspended(t, c, run)
	p.kill()
	p, c = u.up()
	return u, p, c, run, trace
}

// suspended waits until both jobs are.
func suspended(t *testing.T, c *client.Client, id string) {
	t.Helper()
	until(t, "both jobs to be suspended", func() bool {
		run, err := c.Run(context.Background(), id)
		return err == nil && run.Live != nil && run.Live.Suspended == 2
	})
}

// A job that is suspended for a time has waited it out when it continues, though the service was
// killed meanwhile.
func TestLabFaultW3SuspendedForATimeOverAKill(t *testing.T) {
	t.Parallel()
	const after = 10 * time.Second
	_, p, c, run, trace := killSuspended(t, fmt.Sprintf("after: %d", int(after.Seconds())))
	finished(t, c, run)
	p.signal(syscall.SIGTERM)
	p.wants(0)
	all := executions(t, trace)
	slices.SortFunc(all, func(a, b *execution) int { return a.begin.Compare(b.begin) })
	if len(all) != 4 {
		t.Fatalf("%d executions, expected two of each job", len(all))
	}
	for _, later := range all[2:] {
		for _, first := range all[:2] {
			if waited := later.begin.Sub(first.end); first.host == later.host && waited < after {
				t.Errorf("host %s continued after %v", first.host, waited)
			}
		}
	}
}

// A job that is suspended for an event continues with it, and not before, though the service was
// killed meanwhile.
func TestLabFaultW3SuspendedForAnEventOverAKill(t *testing.T) {
	t.Parallel()
	_, p, c, run, trace := killSuspended(t, "after: 3600, event: go")
	suspended(t, c, run) // in the queue of the second process
	if n := len(executions(t, trace)); n != 2 {
		t.Errorf("%d executions before the event, expected one of each job", n)
	}
	if n, err := c.SignalRun(context.Background(), run, api.Signal{Event: "go"}); n != 2 || err != nil {
		t.Errorf("signalled %d, %v", n, err)
	}
	finished(t, c, run)
	if n := len(executions(t, trace)); n != 4 {
		t.Errorf("%d executions, expected two of each job", n)
	}
	p.signal(syscall.SIGTERM)
	p.wants(0)
}
