package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
)

const (
	// backstop bounds how long an idle node relies on being woken; ±20 %, so that nodes don't march in step.
	backstop = time.Second
	// grace is how much longer a blocking command may stay away before its connection is given up.
	grace = 500 * time.Millisecond
)

// blockTime stands for the time to block in the arguments of blocked.
type blockTime struct{}

// Wait blocks until there may be work, until is reached, or ctx ends. It asks the queue once,
// then sleeps on the marker; one of the waiting nodes is the timekeeper and sleeps until the next due time.
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
		woken, err := q.blocked(ctx, d, "blpop", q.keys.key("kMark"), blockTime{})
		if woken && ctx.Err() != nil { // this node will not take what it was woken for
			return translate(ctx, q.client.LPush(context.WithoutCancel(ctx), q.keys.key("kMark"), "1").Err(), "wait")
		}
		if err != nil || woken || !again {
			return err
		}
	}
	return nil
}

// blocked runs one blocking command on a connection of its own, for d at most; ctx ends it early,
// which is no error. It tells whether the command had an answer. The server is asked to unblock it: so
// the answer of an ended wait is never lost, and the connection stays usable. A half-open connection is given up after grace.
func (q *Queue) blocked(ctx context.Context, d time.Duration, args ...any) (bool, error) {
	client, err := q.node(ctx)
	if err != nil {
		return false, err
	}
	conn := client.WithTimeout(d + grace).Conn()
	defer func() { _ = conn.Close() }()
	id, err := conn.ClientID(ctx).Result()
	if err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, translate(ctx, err, "wait")
	}
	for i := range args {
		if args[i] == any(blockTime{}) { // the server's own timer is coarse: it only backs ours up
			args[i] = strconv.FormatFloat((d + grace/2).Seconds(), 'f', 3, 64)
			if i > 0 && args[i-1] == "block" { //nolint:gosec // i is over 0 here
				args[i] = (d + grace/2).Milliseconds()
			}
		}
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	cmd := once{goredis.NewCmd(inner, args...)}
	done := make(chan error, 1)
	go func() { done <- conn.Process(inner, cmd) }() // joined below: ReadTimeout bounds it
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err = <-done:
	case <-timer.C:
		err = q.unblock(inner, client, id, done)
	case <-ctx.Done():
		err = q.unblock(inner, client, id, done)
	}
	switch {
	case err == nil:
		return true, nil
	case err == goredis.Nil: //nolint:errorlint // the client gives it bare
		return false, nil
	case goredis.HasErrorPrefix(err, "UNBLOCKED"), ctx.Err() != nil:
		return false, nil
	default:
		return false, translate(ctx, err, "wait")
	}
}

func (q *Queue) unblock(ctx context.Context, client *goredis.Client, id int64, done <-chan error) error {
	if err := client.ClientUnblock(ctx, id).Err(); err != nil {
		return fmt.Errorf("unblock: %w", firstOf(<-done, err))
	}
	return <-done
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// node is the client of the server that has the pool's keys.
func (q *Queue) node(ctx context.Context) (*goredis.Client, error) {
	switch c := q.client.(type) {
	case *goredis.Client:
		return c, nil
	case *goredis.ClusterClient:
		n, err := c.MasterForKey(ctx, q.keys.key("kMark"))
		return n, translate(ctx, err, "find the pool's server")
	}
	return nil, fmt.Errorf("queue: client is a %T: %w", q.client, core.ErrInvalid)
}
