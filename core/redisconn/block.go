package redisconn

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// grace is how much longer a blocking command may stay away before its connection is given up.
const grace = 500 * time.Millisecond

// BlockTime stands for the time to block in the arguments of Blocked.
type BlockTime struct{}

// Blocked runs one blocking command on the server that has the key, on a connection of its own, for
// d at most; ctx ends it early, which is no error. It tells whether the command had an answer. The
// server is asked to unblock it: so the answer of an ended wait is never lost, and the connection
// stays usable. A half-open connection is given up after 500 ms more. Errors wrap
// core.ErrUnavailable or core.ErrUnknown.
func (c *Conn) Blocked(ctx context.Context, key string, d time.Duration, args ...any) (bool, error) {
	client, err := c.Node(ctx, key)
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
		return false, c.Translate(ctx, err, "wait")
	}
	setBlockTime(args, d+grace/2) // the server's own timer is coarse: it only backs ours up
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
		err = unblock(inner, client, id, done)
	case <-ctx.Done():
		err = unblock(inner, client, id, done)
	}
	switch {
	case err == nil:
		return true, nil
	case err == goredis.Nil: //nolint:errorlint // the client gives it bare
		return false, nil
	case goredis.HasErrorPrefix(err, "UNBLOCKED"), ctx.Err() != nil:
		return false, nil
	default:
		return false, c.Translate(ctx, err, "wait")
	}
}

// setBlockTime puts the time where BlockTime stands: in milliseconds behind the word block, as XREAD
// has it, else in seconds, as BLPOP has it.
func setBlockTime(args []any, d time.Duration) {
	for i := range args {
		switch {
		case args[i] != any(BlockTime{}):
		case i > 0 && args[i-1] == "block":
			args[i] = d.Milliseconds()
		default:
			args[i] = strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
		}
	}
}

// unblock ends the command of a connection, and waits for what it answers.
func unblock(ctx context.Context, client *goredis.Client, id int64, done <-chan error) error {
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
