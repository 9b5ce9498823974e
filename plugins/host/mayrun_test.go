package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// A call that ends in the middle of a command is lost if the host does not confirm the end of the
// command: the next attempt would run beside it. Controls: a confirmed end, and a command that only
// reads. Red without mayRun, and where the end of the call does not wait for its operations.
func TestACallWhoseCommandMayStillRunIsLost(t *testing.T) {
	for _, c := range []struct {
		end            error
		readOnly, lost bool
	}{{transport.ErrMayRun, false, true}, {context.Canceled, false, false}, {transport.ErrMayRun, true, false}} {
		ctx, cancel := context.WithCancel(t.Context())
		b := open(t, &fleet{run: func(ctx context.Context, _ core.Host, _ transport.Exec) (transport.Exit, error) {
			cancel()
			<-ctx.Done()
			return transport.Exit{}, errors.Join(ctx.Err(), c.end)
		}}, config(func(c *Config) { c.Grace = time.Minute }))
		out, err := b.Run(ctx, call("cmd", labParams{RO: c.readOnly}))
		if err != nil || out.Lost != c.lost || out.Cancelled == c.lost || strings.Contains(out.Reason, "may still run") != c.lost {
			t.Errorf("%+v: %+v, %v", c, out, err)
		}
	}
	l := (&services{leases: map[string]*lease{}}).grant(&Call{})
	l.runs = 1
	for _, out := range []Outcome{{Failed: true, TimedOut: true, Reason: "timed out"}, {Cancelled: true}, {}} {
		if got := l.mayRun(out, true); got.Lost != out.Failed || got.TimedOut != out.TimedOut {
			t.Errorf("of a job type that may be repeated, %+v became %+v", out, got)
		}
	}
}
