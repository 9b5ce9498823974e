package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The names of spans, in the order in which a run makes them. docs/operating-monitoring.md lists
// them.
const (
	SpanRequest = "request" // of the API, that changes something
	SpanLaunch  = "launch"  // from what was asked for to a run
	SpanAccept  = "accept"  // into the ledger
	SpanEnqueue = "enqueue" // into the queue
	SpanJob     = "job"     // one lease of it
	SpanStep    = "step"    // one attempt
	SpanCall    = "call"    // of a plugin
	SpanDial    = "dial"    // of a host, or of a jump host before it
	SpanExec    = "exec"    // one command on a host
)

// The attributes of spans. No other ones are set: params, command lines, vars, outputs and the
// texts of errors hold people's data.
const (
	AttributeOperation = attribute.Key("turnus.operation") // of the API
	AttributeCode      = attribute.Key("http.response.status_code")
	AttributeRun       = attribute.Key("turnus.run")
	AttributeJob       = attribute.Key("turnus.job")
	AttributeHost      = attribute.Key("turnus.host")
	AttributeTenant    = attribute.Key("turnus.tenant")
	AttributeStep      = attribute.Key("turnus.step")
	AttributeJobType   = attribute.Key("turnus.job_type")
	AttributeAttempt   = attribute.Key("turnus.attempt")
	AttributeOutcome   = attribute.Key("turnus.outcome")
	AttributeResumed   = attribute.Key("turnus.resumed") // the job was leased before
)

// TraceHeader is the HTTP header of a trace. TraceVariable is the same in the environment of a
// process.
const (
	TraceHeader   = "traceparent"
	TraceVariable = "TRACEPARENT"
)

const traceScope = "github.com/turnus/turnus"

// BeginSpan starts a span with p, under the span in ctx if there is one. Without p, which may be
// nil, nothing is recorded, and the trace in ctx continues.
func BeginSpan(ctx context.Context, p trace.TracerProvider, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return p.Tracer(traceScope).Start(ctx, name, options...)
}

// StartSpan starts a span under the one in ctx, and with its provider. Without one nothing is
// recorded.
func StartSpan(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, noop.Span{}
	}
	return above.TracerProvider().Tracer(traceScope).Start(ctx, name, trace.WithAttributes(attributes...))
}

// EndSpan ends a span. An error marks the span as failed; the span does not get its text, because
// that may hold people's data.
func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Traceparent is the trace in ctx as its header has it; "" without one.
func Traceparent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[TraceHeader]
}

// UnderTrace returns ctx under the span that traceparent names. A text that is no traceparent
// changes nothing.
func UnderTrace(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{TraceHeader: traceparent})
}

// TraceID is the trace in ctx as logs have it; "" without one.
func TraceID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return c.TraceID().String()
	}
	return ""
}
