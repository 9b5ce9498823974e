package redis

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/turnus/turnus/core/redisconn"
)

// backstop bounds how long a waiting server relies on being woken; ±20 %, so that servers don't march in step.
const backstop = 2 * time.Second

// Wait blocks until the server's clock has reached until, something is due before it, or ctx ends.
// It asks for the earliest due time and the last wake-up in one step, then blocks until there is a
// newer one: none can come unseen in between. Only spans are measured here, by a clock that cannot
// be set.
func (s *Store) Wait(ctx context.Context, until time.Time) error {
	for {
		r, err := s.eval(ctx, s.scripts.wait)
		if err != nil {
			return err
		}
		now, first, last := r.micro(), r.milli(), next[string](r)
		if err := r.end(s.scripts.wait); err != nil {
			return err
		}
		left := until.Sub(now)
		if left <= 0 || !first.IsZero() && first.Before(until) {
			return nil
		}
		d := time.Duration(float64(backstop) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // spread, no secret
		final := left <= d
		if final {
			d = left
		}
		woken, err := s.conn.Blocked(ctx, s.wake, d, "xread", "count", 1, "block", redisconn.BlockTime{}, "streams", s.wake, last)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case final && !woken:
			return nil
		}
	}
}
