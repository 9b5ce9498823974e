package ledger

import (
	"cmp"
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
)

// Shares are a run's limits on the workers. A nil field is as the run was launched.
type Shares struct {
	Weight      *int
	MaxInFlight *int // 0: no limit
}

// Most is max_in_flight of a run that was launched with that number.
func (s Shares) Most(launched int) int {
	if s.MaxInFlight != nil {
		return *s.MaxInFlight
	}
	return launched
}

// SetShares changes the shares of a run that is not complete; nil fields stay. They outlast the
// queue: a server that puts the run into another one gives them to it. seen is as of SetPhase.
func (l *Ledger) SetShares(ctx context.Context, s Scope, id string, to Shares, seen ...int64) (Run, error) {
	return l.change(ctx, s, id, "change the shares of run", func(t *tx, run *Run) error {
		if err := run.IsAt(cmp.Or(seen...)); err != nil {
			return err
		}
		if run.Complete() {
			return fmt.Errorf("it has ended: %w", core.ErrConflict)
		}
		if to.Weight != nil {
			run.Shares.Weight = to.Weight
		}
		if to.MaxInFlight != nil {
			run.Shares.MaxInFlight = to.MaxInFlight
		}
		run.Version++
		_, err := t.exec(ctx, `UPDATE runs SET weight = $2, max_in_flight = $3, version = $4 WHERE seq = $1`,
			run.seq, run.Shares.Weight, run.Shares.MaxInFlight, run.Version)
		return err
	})
}
