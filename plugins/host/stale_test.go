package host

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// The host refuses the fence of a call; its plugin takes that for something else and reports
// success.
func TestFaultR3RefusedFenceEndsTheCall(t *testing.T) {
	var got transport.Fence
	refuse := true
	b := open(t, &fleet{run: func(_ context.Context, _ core.Host, e transport.Exec) (transport.Exit, error) {
		if got = e.Fence; refuse {
			return transport.Exit{}, fmt.Errorf("web1: exec: %w", transport.ErrStaleFence)
		}
		return transport.Exit{}, nil
	}})
	c := call("op", labParams{Op: "exec"})
	c.Queue, c.Fence = "life", 7
	if out, err := b.Run(t.Context(), c); !errors.Is(err, core.ErrSessionGone) || !errors.Is(err, transport.ErrStaleFence) || out.Changed || !out.Cancelled {
		t.Errorf("%+v, %v: expected that the job is another worker's", out, err)
	}
	if got != (transport.Fence{Queue: "life", Count: 7}) {
		t.Errorf("the host got the fence %+v", got)
	}
	refuse = false
	if _, err := b.Run(t.Context(), c); err != nil {
		t.Errorf("control: %v", err)
	}
}
