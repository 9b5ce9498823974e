package worker

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/telemetry"
)

// trace begins the span of this lease, under the run's. Later spans of the job are under it. One
// that continues with what an earlier lease began is also linked to the run: it may be days later,
// when people read the trace in parts.
func (j *job) trace(m *machine) {
	under := telemetry.UnderTrace(j.ctx, m.prog.snapshot.Trace)
	options := []trace.SpanStartOption{trace.WithTimestamp(j.started), trace.WithAttributes(
		telemetry.AttributeRun.String(j.lease.Job.Run), telemetry.AttributeJob.String(j.lease.Job.String()), telemetry.AttributeHost.String(j.lease.Host),
		telemetry.AttributeTenant.String(m.host.Customer), telemetry.AttributeAttempt.Int(j.lease.Attempt),
	)}
	if len(j.lease.State) > 0 {
		options = append(options, trace.WithAttributes(telemetry.AttributeResumed.Bool(true)))
		if run := trace.SpanContextFromContext(under); run.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: run}))
		}
	}
	ctx, span := telemetry.BeginSpan(under, j.w.cfg.Traces, telemetry.SpanJob, options...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ctx = ctx
	j.span = span
}

func (j *job) spanned() trace.Span { return core.Locked(&j.mu, &j.span) }

// traced ends the span of this lease. One for which the poller stopped waiting ended then.
func (j *job) traced(ack queue.Ack) {
	outcome := string(ack.Outcome)
	if ack.Kind != queue.AckDone {
		outcome = string(ack.Kind)
	}
	endSpan(j.spanned(), outcome, ack.Kind == queue.AckDone && !ack.Outcome.Good())
}

// span begins the span of one attempt. A step's name is the playbook's text; an item of its foreach
// may hold anything, and is left out.
func (a *attempts) span() (context.Context, trace.Span) {
	l := a.m.job.lease
	return telemetry.StartSpan(a.m.job.ctx, telemetry.SpanStep,
		telemetry.AttributeRun.String(l.Job.Run), telemetry.AttributeJob.String(l.Job.String()), telemetry.AttributeHost.String(l.Host),
		telemetry.AttributeStep.String(stepName(a.step)), telemetry.AttributeJobType.String(a.step.Uses), telemetry.AttributeAttempt.Int(a.cur.Attempts))
}

// endAttempt ends it. Anything but that the job is done is how the lease ends in its middle.
func endAttempt(span trace.Span, outcome core.Outcome, v *leaseEnd) {
	text := string(outcome)
	switch {
	case v != nil && v.kind != queue.AckDone:
		text = string(v.kind)
	case v != nil:
		outcome, text = v.outcome, string(v.outcome)
	}
	endSpan(span, text, !outcome.Good() && (v == nil || v.kind == queue.AckDone))
}

func endSpan(span trace.Span, outcome string, bad bool) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(telemetry.AttributeOutcome.String(outcome))
	if bad {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
