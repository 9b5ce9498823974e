package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// notSent marks an error that came before anything was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }

// Translate turns an error of the client into one of core; doing is the room and its action. A
// command that was certainly not executed is core.ErrUnavailable; one that may have been is
// core.ErrUnknown. A context that ended before sending stays as it is. The client's error is added
// as text: callers do not match on it.
func Translate(ctx context.Context, err error, doing string) error {
	var early notSent
	var own refused
	var shake handshake
	var unheard mute
	var op *net.OpError
	var reply goredis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &early):
		return fmt.Errorf("%s: %w", doing, early.error)
	case errors.As(err, &own):
		return fmt.Errorf("%s: %w", doing, own.error)
	case errors.As(err, &shake), securefile.ExplainTLS(err, urlOptions()) != "":
		why := securefile.ExplainTLS(err, urlOptions())
		if why == "" {
			why = err.Error()
		}
		return fmt.Errorf("%s: Redis cannot be reached: %w: %s", doing, core.ErrUnavailable, why)
	case errors.As(err, &unheard):
		return fmt.Errorf("%s: Redis cannot be reached: %w: %s", doing, core.ErrUnavailable, unheard.Error())
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

// urlOptions are how a URL names what a handshake needs.
func urlOptions() securefile.TLSHints {
	return securefile.TLSHints{CA: "?ca_file=FILE in the URL", Cert: "?cert_file=FILE and &key_file=FILE in the URL name one", Name: "?server_name=NAME in the URL"}
}

// aclHint is the next command if a user lacks a right.
const aclHint = "\nhint: turnus admin queue acl prints what the user must be allowed; give it that, and start again"

// translateReply is for answers of the server: it has refused, so nothing was done. A script that
// broke off half-way is the exception, and a defect of the room that wrote it.
func translateReply(err goredis.Error, doing string) error {
	switch text := err.Error(); {
	case strings.Contains(text, "The user executing the script can't"), strings.Contains(text, "ACL failure in script"): // what the script did before stays
		return fmt.Errorf("%s: %w (%s)%s", doing, core.ErrUnknown, text, aclHint)
	case strings.HasPrefix(text, "NOPERM"):
		return fmt.Errorf("%s: Redis refused: %w (%s)%s", doing, core.ErrUnavailable, text, aclHint)
	case strings.HasPrefix(text, "NOAUTH"), strings.HasPrefix(text, "WRONGPASS"):
		return fmt.Errorf("%s: Redis refused: %w (%s)\nhint: the URL names user and password: rediss://USER:PASSWORD@HOST", doing, core.ErrUnavailable, text)
	}
	for _, prefix := range []string{
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY", "OOM", "MISCONF",
		"MOVED", "ASK", "CROSSSLOT", "ERR max number of clients",
	} {
		if strings.HasPrefix(err.Error(), prefix) {
			return fmt.Errorf("%s: Redis refused: %w (%s)", doing, core.ErrUnavailable, err.Error())
		}
	}
	return fmt.Errorf("%s: %w (%s)", doing, core.ErrUnknown, err.Error())
}
