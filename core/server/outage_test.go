package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/queue"
)

// Each request that the ledger does not answer was an error in the log. Red where ledgerFailed logs
// whatever it is given.
func TestFaultR8ALedgerThatIsAwayIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &Server{cfg: Config{Log: slog.New(slog.NewTextHandler(&out, nil))}}
		for range 50 {
			s.ledgerFailed("a token could not be looked up", fmt.Errorf("ledger: connection refused: %w", core.ErrUnavailable))
		}
		<-time.After(90 * time.Second)
		s.ledgerFailed("a token could not be looked up", fmt.Errorf("ledger: connection refused: %w", core.ErrUnavailable))
		s.ledgerBack()
		s.ledgerBack()
		s.ledgerFailed("a token could not be looked up", errors.New("disk full"))
		for text, want := range map[string]int{"does not answer; nothing is accepted": 2, `after=1m30s failed=51`: 1, "disk full": 1} {
			if n := strings.Count(out.String(), text); n != want {
				t.Errorf("%d lines with %q, expected %d:\n%s", n, text, want, &out)
			}
		}
	})
}

// deaf is a queue that takes no changes.
type deaf struct{ queue.Queue }

func (deaf) Cancel(context.Context, string, core.Reason) error {
	return fmt.Errorf("write: %w", core.ErrUnavailable)
}

func (deaf) Adjust(context.Context, ...queue.Adjust) []error {
	return []error{fmt.Errorf("write: %w", core.ErrUnknown)}
}

// A change that the queue does not have yet was answered like one that it has.
func TestFaultCancelIsAnsweredAsItIs(t *testing.T) {
	t.Parallel()
	for status, q := range map[int]func(queue.Queue) queue.Queue{
		http.StatusOK:       func(q queue.Queue) queue.Queue { return q },
		http.StatusAccepted: func(q queue.Queue) queue.Queue { return deaf{q} },
	} {
		b := newBed(t, func(c *Config) {
			ctl, err := controller.New(controller.Config{Name: "asked", Ledger: c.Ledger, Queue: q(c.Queue), Board: c.Board})
			must(t, err)
			c.Controller = ctl
		})
		b.work()
		operator := b.token("acme", Operator)
		run := b.launch("acme", api.NewRun{})
		until(t, "it is in the queue", func() bool {
			s, err := b.queue.Status(t.Context(), run.ID)
			return err == nil && s.Phase == queue.Active
		})
		for _, verb := range []string{"pause", "resume", "cancel"} {
			a := b.ask(operator, "POST", "/v1/runs/"+run.ID+"/"+verb, api.Why{Reason: "enough"})
			if got := want[api.Run](t, a, status); got.QueueAway != (status == http.StatusAccepted) || a.header.Get("ETag") == "" {
				t.Errorf("%s: %d %v %s", verb, a.status, a.header, a.body)
			}
		}
	}
}
