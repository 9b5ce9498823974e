package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
)

// notSent marks an error that came before anything was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// Translate turns an error of the client into one of core; doing is the room and what it did. What
// was certainly not executed is core.ErrUnavailable; what may have been is core.ErrUnknown; a
// context that ended before sending is itself. The client's error goes along as text: nobody
// outside matches on it.
func Translate(ctx context.Context, err error, doing string) error {
	var early notSent
	var op *net.OpError
	var reply goredis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &early):
		return fmt.Errorf("%s: %w", doing, early.error)
	case errors.Is(err, goredis.ErrClosed), errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted),
		errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%s: Redis cannot be reached: %w (%s)", doing, core.ErrUnavailable, err.Error())
	case errors.As(err, &reply):
		return translateReply(reply, doing)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w: %w", doing, core.ErrUnknown, ctx.Err())
	default:
		return fmt.Errorf("%s: Redis was asked and no answer came: %w (%s)", doing, core.ErrUnknown, err.Error())
	}
}

// translateReply is for answers of the server: it has refused, so nothing was done. A script that
// broke off half-way is the exception, and a defect of the room that wrote it.
func translateReply(err goredis.Error, doing string) error {
	for _, prefix := range []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY", "OOM", "MISCONF",
		"NOAUTH", "WRONGPASS", "NOPERM", "MOVED", "ASK", "CROSSSLOT", "ERR max number of clients",
	} {
		if strings.HasPrefix(err.Error(), prefix) {
			return fmt.Errorf("%s: Redis refused: %w (%s)", doing, core.ErrUnavailable, err.Error())
		}
	}
	return fmt.Errorf("%s: %w (%s)", doing, core.ErrUnknown, err.Error())
}
