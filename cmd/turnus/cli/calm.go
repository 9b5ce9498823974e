package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/turnus/turnus/core"
)

// calm is a log handler for a process that goes on while Redis or the ledger is away. Of warnings and errors that are one message
// about something away, whichever run or host they name, it logs the first, and then one a minute with how many it left out.
type calm struct {
	slog.Handler
	said *seldom
}

func (h calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && ofOutage(r) {
		say, leftOut := h.said.count(r.Message)
		if !say {
			return nil
		}
		if leftOut > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("left_out", leftOut))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calm{h.Handler.WithAttrs(attrs), h.said}
}

func (h calm) WithGroup(name string) slog.Handler { return calm{h.Handler.WithGroup(name), h.said} }

// ofOutage tells whether a record's error is that something does not answer.
func ofOutage(r slog.Record) (away bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		away = ok && (errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrUnknown) || errors.Is(err, context.DeadlineExceeded))
		return !away
	})
	return away
}
