package server

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
)

// Each request that the ledger does not answer was an error in the log. Red where ledgerFailed logs whatever it is given.
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
