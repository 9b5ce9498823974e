package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// whoKey is where the context has a place for who asked, which is known only once the request was let in.
type whoKey struct{}

// logged logs each request once it is answered: what changes something, and what failed, for everybody to see; what only
// reads at debug. Paths, queries and bodies are not logged: they hold people's data.
func (s *Server) logged(r route) func(huma.Context, func(huma.Context)) {
	reads := r.method == http.MethodGet || r.method == http.MethodHead
	return func(ctx huma.Context, next func(huma.Context)) {
		level := slog.LevelInfo
		if reads {
			level = slog.LevelDebug
		}
		if reads && !s.cfg.Log.Enabled(ctx.Context(), level) && !s.cfg.Log.Enabled(ctx.Context(), slog.LevelWarn) {
			next(ctx)
			return
		}
		began, who := time.Now(), new(string)
		next(huma.WithValue(ctx, whoKey{}, who))
		code := ctx.Status()
		if code >= http.StatusInternalServerError {
			level = slog.LevelWarn
		}
		s.cfg.Log.LogAttrs(ctx.Context(), level, "request", slog.String("operation", r.id), slog.String("who", *who),
			slog.Int("code", code), slog.String("took", time.Since(began).String()))
	}
}

// noteWho tells the request's log who asks.
func noteWho(ctx context.Context, name string) {
	if who, ok := ctx.Value(whoKey{}).(*string); ok {
		*who = name
	}
}
