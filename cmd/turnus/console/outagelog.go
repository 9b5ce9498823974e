package console

import (
	"context"
	"log/slog"

	"github.com/turnus/turnus/core"
)

// outageLog is a log handler that bounds what an outage of Redis or the ledger logs. Of warnings
// and errors without an answer it logs each message once, whichever run or host it names, and then
// once a minute with how many it left out.
type outageLog struct {
	slog.Handler
	limiter *MessageLimiter
}

func newOutageLog(h slog.Handler) *slog.Logger { return slog.New(outageLog{h, &MessageLimiter{}}) }

func (h outageLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && ofOutage(r) {
		ok, leftOut := h.limiter.count(r.Message)
		if !ok {
			return nil
		}
		if leftOut > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("left_out", leftOut))
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h outageLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return outageLog{h.Handler.WithAttrs(attrs), h.limiter}
}

func (h outageLog) WithGroup(name string) slog.Handler {
	return outageLog{h.Handler.WithGroup(name), h.limiter}
}

// ofOutage reports whether a record has an error of something that does not answer.
func ofOutage(r slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		found = core.NoAnswer(err)
		return !found
	})
	return found
}
