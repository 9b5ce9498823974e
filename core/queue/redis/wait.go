package redis

import (
	"context"
	"math/rand/v2"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/redisconn"
)

// backstop bounds how long an idle node relies on a notification; ±20 %, so that nodes don't march
// in step.
const backstop = time.Second

// Wait blocks until there may be work, until is reached, or ctx ends. It asks the queue once,
// then sleeps on the marker; one of the waiting nodes is the timekeeper and sleeps until the next
// due time.
func (q *Queue) Wait(ctx context.Context, session string, until time.Time) error {
	for ctx.Err() == nil {
		v, err := q.eval(ctx, q.scripts.wait, session, backstop.Microseconds())
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the end of ctx ends a wait, and is no error
			}
			return err
		}
		r := newReply(v)
		now, work, keep := r.time(), r.int() == 1, r.time()
		if err := r.end("wait"); err != nil || work {
			return err
		}
		d := time.Duration(float64(backstop) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // spread, no secret
		again := true
		if !keep.IsZero() {
			d, again = min(d, keep.Sub(now)), keep.Sub(now) >= d
		}
		if left := until.Sub(now); left <= d {
			d, again = left, false
		}
		if d <= 0 {
			return nil
		}
		woken, err := q.blocked(ctx, d, "blpop", q.keys.key("kMark"), redisconn.BlockTime{})
		if woken && ctx.Err() != nil { // this node will not take the jobs that it was signalled for
			return translate(ctx, q.client.LPush(context.WithoutCancel(ctx), q.keys.key("kMark"), "1").Err(), "wait")
		}
		if err != nil || woken || !again {
			return err
		}
	}
	return nil
}

// blocked runs one blocking command on the pool's server, see redisconn.Conn.Blocked.
func (q *Queue) blocked(ctx context.Context, d time.Duration, args ...any) (bool, error) {
	return q.conn.Blocked(ctx, q.keys.key("kMark"), d, args...)
}

// node is the client of the server that has the pool's keys.
func (q *Queue) node(ctx context.Context) (*goredis.Client, error) {
	return q.conn.Node(ctx, q.keys.key("kMark"))
}
