package tracing

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
	Request = "request" // of the API, that changes something
	Launch  = "launch"  // from what was asked for to a run
	Accept  = "accept"  // into the ledger
	Enqueue = "enqueue" // into the queue
	Job     = "job"     // one lease of it
	Step    = "step"    // one attempt
	Call    = "call"    // of a plugin
	Dial    = "dial"    // of a host, or of a jump host before it
	Exec    = "exec"    // one command on a host
)

// The attributes of spans. No other ones are set: params, command lines, vars, outputs and the
// texts of errors hold people's data.
const (
	Operation = attribute.Key("turnus.operation") // of the API
	Code      = attribute.Key("http.response.status_code")
	Run       = attribute.Key("turnus.run")
	JobID     = attribute.Key("turnus.job")
	Host      = attribute.Key("turnus.host")
	Tenant    = attribute.Key("turnus.tenant")
	StepName  = attribute.Key("turnus.step")
	JobType   = attribute.Key("turnus.job_type")
	Attempt   = attribute.Key("turnus.attempt")
	Outcome   = attribute.Key("turnus.outcome")
	Resumed   = attribute.Key("turnus.resumed") // the job was leased before
)

// Header is the HTTP header of a trace; Variable is the same in the environment of a process.
const (
	Header   = "traceparent"
	Variable = "TRACEPARENT"
)

const scope = "github.com/turnus/turnus"

// Begin starts a span with p, under the span in ctx if there is one. Without p, which may be nil,
// nothing is recorded, and the trace in ctx goes on.
func Begin(ctx context.Context, p trace.TracerProvider, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return p.Tracer(scope).Start(ctx, name, options...)
}

// Start starts a span under the one in ctx, and with its provider. Without one nothing is recorded.
func Start(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	above := trace.SpanFromContext(ctx)
	if !above.IsRecording() {
		return ctx, noop.Span{}
	}
	return above.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithAttributes(attributes...))
}

// End ends a span. An error marks the span as failed; the span does not get its text, because that
// may hold people's data.
func End(span trace.Span, err error) {
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
	return carrier[Header]
}

// Under returns ctx under the span that traceparent names. A text that is no traceparent changes
// nothing.
func Under(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{Header: traceparent})
}

// ID is the trace in ctx as logs have it; "" without one.
func ID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return c.TraceID().String()
	}
	return ""
}
