package cli

import (
	"context"
	"io"
	"time"

	"github.com/turnus/turnus/core"
)

// How runs are forgotten that ended long ago.
const (
	leastKept   = 24 * time.Hour
	forgetEvery = time.Hour
	forgetBatch = 500                    // rows of one transaction: what is recorded meanwhile hardly waits
	forgetPause = 100 * time.Millisecond // between them
)

// forget removes runs that ended before --keep-runs ago, with their outputs, until ctx ends. Several servers may do so at once.
func (s *service) forget(ctx context.Context) {
	if s.f.keep <= 0 {
		return
	}
	wait := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		}
	}
	for {
		p, err := s.ledger.Prune(ctx, time.Now().Add(-s.f.keep), forgetBatch)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("runs cannot be forgotten for now", "error", err)
		}
		pause := forgetEvery
		if err == nil && p.More {
			pause = forgetPause
		}
		if !wait(pause) {
			return
		}
	}
}

// keepOutput stores an output of the worker of this process.
func (s *service) keepOutput(ctx context.Context, job core.JobID, name string, open func() (io.Reader, error)) error {
	from, err := open()
	if err != nil {
		return err
	}
	_, err = s.ledger.PutOutput(ctx, job, name, from)
	return err
}
