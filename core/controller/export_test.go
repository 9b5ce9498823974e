package controller

import (
	"context"
	"time"

	"github.com/turnus/turnus/core/ledger"
)

// AfterFailure returns what follows the last of several failures to put a run into the queue.
func AfterFailure(err error, since time.Duration, times int, alone bool) (refuse bool, after time.Duration) {
	now := time.Now()
	return failure{now.Add(-since), times}.next(err, alone, now)
}

// WithoutClaims has the controller take every run that the queue does not have, even if another one
// does so: as it would be without the ledger's compare-and-set. Before Run.
func (c *Controller) WithoutClaims() {
	c.claim = func(ctx context.Context, incarnation string) (claims []ledger.Claim, err error) {
		err = c.eachUnfinished(ctx, func(r ledger.Run) error {
			if r.Incarnation != incarnation && r.Phase != ledger.PhaseAwaiting {
				claims = append(claims, ledger.Claim{Run: r})
			}
			return nil
		})
		return claims, err
	}
}

// OnClaim has f called with each claim. Before Run.
func (c *Controller) OnClaim(f func(ledger.Claim)) {
	claim := c.claim
	c.claim = func(ctx context.Context, incarnation string) ([]ledger.Claim, error) {
		claims, err := claim(ctx, incarnation)
		for i := range claims {
			f(claims[i])
		}
		return claims, err
	}
}
