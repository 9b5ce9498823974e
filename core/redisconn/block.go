package redisconn

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// grace is how long after its time the answer of a blocking command may come: as long as any other
// answer. Only a half-open connection takes as long.
const grace = 3 * time.Second

// backup is how much later than here the server's own, coarse timer ends the wait.
const backup = 250 * time.Millisecond

// BlockTime stands for the time to block in the arguments of Blocked.
type BlockTime struct{}

// Blocked runs one blocking command on the server that has the key, on a connection of its own, for
// d at most; ctx ends it early, which is no error. It returns whether the command had an answer. To
// end the wait, it asks the server to unblock the command, and the server replies whether it was
// still waiting. So the answer of an ended wait is never lost, and a slow machine causes no error.
// A half-open connection is closed after 3 s more. Errors wrap core.ErrUnavailable or
// core.ErrUnknown.
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
	setBlockTime(args, d+backup)
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

// setBlockTime puts the time in the place of BlockTime: in milliseconds behind the word block, as
// XREAD has it, else in seconds, as BLPOP has it.
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

// unblock ends the command of a connection, and returns how it ended. The server knows it if it
// unblocked the command: then nothing was answered, whatever becomes of the connection.
func unblock(ctx context.Context, client *goredis.Client, id int64, done <-chan error) error {
	unblocked, err := client.ClientUnblock(ctx, id).Result()
	ended := <-done
	switch {
	case err != nil:
		return fmt.Errorf("unblock: %w", cmp.Or(ended, err))
	case unblocked == 1:
		return goredis.Nil
	}
	return ended
}
