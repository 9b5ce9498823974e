package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/plugins/host"
)

const runTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traced runs steps on one host and returns the spans, by name.
func (l *lab) traced(steps string, changes ...change) map[string][]sdk.ReadOnlySpan {
	l.t.Helper()
	recorder := tracetest.NewSpanRecorder()
	la := l.submit("r", 1, steps, changes...)
	cfg := l.config()
	cfg.Traces = sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	n := l.start(cfg)
	l.results(la)
	n.drain()
	spans := map[string][]sdk.ReadOnlySpan{}
	for _, s := range recorder.Ended() {
		spans[s.Name()] = append(spans[s.Name()], s)
	}
	return spans
}

func attributes(s sdk.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, kv := range s.Attributes() {
		all[string(kv.Key)] = kv.Value.String()
	}
	return all
}

func underRun(o *launch.Options, _ *queue.Run) { o.Trace = runTrace }

// Each lease is a span of its own under the run; one that continues is linked to it, and has a mark
// of that.
func TestAResumedJobIsANewSpanOfTheRun(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.State == nil {
				return host.Outcome{Suspended: true, ResumeAfter: time.Hour, State: &host.State{Version: 1, JSON: json.RawMessage(`{}`)}}, nil
			}
			return host.Outcome{Changed: true}, nil
		}
		spans := l.traced("steps: [{name: a, uses: command, with: {run: hidden-line}}]", underRun)
		jobs := spans[telemetry.SpanJob]
		if len(jobs) != 2 || len(spans[telemetry.SpanStep]) != 2 {
			t.Fatalf("spans %v", spans)
		}
		run := telemetry.UnderTrace(context.Background(), runTrace)
		for i, s := range jobs {
			if telemetry.TraceID(run) != s.SpanContext().TraceID().String() || s.Parent().SpanID().String() != "b7ad6b7169203331" {
				t.Errorf("lease %d is not under the run: %v", i, s.Parent())
			}
			if got := spans[telemetry.SpanStep][i].Parent().SpanID(); got != s.SpanContext().SpanID() {
				t.Errorf("step %d is under %v", i, got)
			}
		}
		first, second := attributes(jobs[0]), attributes(jobs[1])
		if first["turnus.outcome"] != "suspend" || first["turnus.resumed"] != "" || len(jobs[0].Links()) != 0 {
			t.Errorf("first lease: %v, links %v", first, jobs[0].Links())
		}
		if second["turnus.outcome"] != "changed" || second["turnus.resumed"] != "true" || len(jobs[1].Links()) != 1 || second["turnus.host"] != "h00000" {
			t.Errorf("second lease: %v, links %v", second, jobs[1].Links())
		}
		for _, e := range l.events {
			if e.Host != "" && e.Trace != telemetry.TraceID(run) {
				t.Errorf("%s is of trace %q", e.Kind, e.Trace)
			}
		}
	})
}

// Each attempt is a span; a bad one is marked, without the text of the reason. An item of foreach
// is not marked.
func TestAttemptsAreSpansWithoutWhatTheyHold(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.Attempt == 1 {
				return host.Outcome{Failed: true, Reason: "hidden reason"}, nil
			}
			return host.Outcome{Outputs: map[string]any{"x": "hidden output"}}, nil
		}
		spans := l.traced("vars: {v: hidden-var}\nsteps: [{name: a, uses: command, foreach: [hidden-item], with: {run: \"hidden ${{ vars.v }}\"}, retry: {attempts: 2, interval: 1s}}]", underRun)
		steps := spans[telemetry.SpanStep]
		if len(steps) != 2 || steps[0].Status().Code != codes.Error || steps[1].Status().Code == codes.Error {
			t.Fatalf("spans %v", steps)
		}
		if a := attributes(steps[1]); a["turnus.outcome"] != "unchanged" || a["turnus.attempt"] != "2" || a["turnus.step"] != "a" || a["turnus.job_type"] != "command" {
			t.Errorf("second attempt: %v", a)
		}
		text, err := json.Marshal(tracetest.SpanStubsFromReadOnlySpans(append(steps, spans[telemetry.SpanJob]...)))
		if err != nil || !contains(text, "command") || contains(text, "hidden") {
			t.Errorf("%s, %v", text, err)
		}
	})
}

// Without a provider nothing is recorded; the trace of the run continues to the plugin and to the
// log all the same.
func TestAWorkerThatSendsNothingHandsTheTraceOn(t *testing.T) {
	inLab(t, func(l *lab) {
		var got []string
		l.plugins.do = func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			got = append(got, telemetry.Traceparent(ctx))
			return host.Outcome{}, errors.ErrUnsupported
		}
		l.one("steps: [{name: a, uses: command, with: {run: x}}]", underRun)
		if len(got) != 1 || got[0] != runTrace {
			t.Errorf("the plugin got %q, expected %s", got, runTrace)
		}
	})
	inLab(t, func(l *lab) {
		l.plugins.do = func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			if trace := telemetry.Traceparent(ctx); trace != "" {
				t.Errorf("a run without a trace has %s", trace)
			}
			return host.Outcome{}, nil
		}
		l.one("steps: [{name: a, uses: command, with: {run: x}}]")
	})
}

func contains(text []byte, part string) bool { return strings.Contains(string(text), part) }
