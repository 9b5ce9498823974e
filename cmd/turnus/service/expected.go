package service

import (
	"context"
	"time"

	"github.com/turnus/turnus/core"
)

// Forecasts of runs that were just put into the queue are kept one after the other. They take a
// tenth of the time at most: others wait meanwhile, and those of a full line are left out.
const (
	expectLine = 256
	expectRest = 9 // times as long as one took
)

// expect keeps the forecasts of runs until ctx ends.
func (s *service) expect(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case run := <-s.enqueued:
			begun := time.Now()
			if err := s.api.Expect(ctx, run); err != nil && ctx.Err() == nil {
				s.log.Debug("the forecast of a run is not kept", "run", run, "error", err)
			}
			if core.Sleep(ctx, time.Since(begun)*expectRest) != nil {
				return
			}
		}
	}
}
