package server

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core/telemetry"
)

// notedKey is where the context has a place for what is known only once the request was let in.
type notedKey struct{}

// noted is the caller of a request, and its trace.
type noted struct{ who, trace string }

// logged logs each request once it is answered: what changes something, and what failed, for
// everybody to see; what only reads at debug. Paths, queries and bodies are not logged: they hold
// people's data.
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
		began, n := time.Now(), new(noted)
		next(huma.WithValue(ctx, notedKey{}, n))
		code := ctx.Status()
		if code >= http.StatusInternalServerError {
			level = slog.LevelWarn
		}
		attributes := []slog.Attr{slog.String("operation", r.id), slog.String("who", n.who), slog.Int("code", code), slog.String("took", time.Since(began).String())}
		if n.trace != "" {
			attributes = append(attributes, slog.String("trace_id", n.trace))
		}
		s.cfg.Log.LogAttrs(ctx.Context(), level, "request", attributes...)
	}
}

// noteWho adds the caller to the request's log.
func noteWho(ctx context.Context, name string) {
	if n, ok := ctx.Value(notedKey{}).(*noted); ok {
		n.who = name
	}
}

// traced makes a span of a request that was let in and changes something, under the trace that it
// came with. Requests that only read are repeated again and again, and would fill a trace.
func (s *Server) traced(r route) func(huma.Context, func(huma.Context)) {
	reads := r.method == http.MethodGet || r.method == http.MethodHead
	return func(ctx huma.Context, next func(huma.Context)) {
		if reads {
			next(ctx)
			return
		}
		spanned, span := telemetry.BeginSpan(telemetry.UnderTrace(ctx.Context(), ctx.Header(telemetry.TraceHeader)), s.cfg.Traces, telemetry.SpanRequest,
			trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(telemetry.AttributeOperation.String(r.id)))
		defer span.End()
		if n, ok := spanned.Value(notedKey{}).(*noted); ok {
			n.trace = telemetry.TraceID(spanned)
		}
		next(huma.WithContext(ctx, spanned))
		code := ctx.Status()
		span.SetAttributes(telemetry.AttributeCode.Int(code))
		if code >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	}
}
