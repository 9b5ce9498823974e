package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
)

// Bounds of what is kept for a collector that is slow, or away. Anything beyond is dropped
// immediately.
const (
	maxWaiting  = 4096             // spans
	maxBatch    = 512              // spans of one request
	maxValue    = 300              // characters of an attribute's value
	exportTime  = 30 * time.Second // of one request with its repetitions
	flushTime   = 2 * time.Second  // for the rest, at the end
	silence     = 5 * time.Minute  // between two lines of the log that spans were not taken
	tracesPath  = "/v1/traces"
	httpProto   = "http/protobuf"
	defaultName = "turnus"
)

// TraceConfig defines where spans go.
type TraceConfig struct {
	// Endpoint is the collector's URL, to which /v1/traces is added: http://127.0.0.1:4318. If it
	// is empty, OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_TRACES_ENDPOINT count. If they
	// are also empty, nothing is sent.
	Endpoint string
	Ratio    float64 // share of the traces that begin here and are recorded; those that came from elsewhere are as they were there
	Version  string
	Role     string       // what this process is: up, server, worker
	Log      *slog.Logger // discarded when nil

	waiting int           // maxWaiting when zero
	flush   time.Duration // flushTime when zero
}

// TraceProvider makes spans and sends them. It is safe for concurrent use.
type TraceProvider struct {
	*sdk.TracerProvider
	out   *spanExporter
	flush time.Duration
}

// Spans returns the tracer provider for the Config of rooms: nil if nobody wants spans.
func (p *TraceProvider) Spans() trace.TracerProvider {
	if p == nil {
		return nil
	}
	return p.TracerProvider
}

// TracesWanted reports whether the flag or the environment names a collector.
func TracesWanted(endpoint string) bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return endpoint != "" || fromEnvironment() != ""
}

// fromEnvironment is the name of the variable that names a collector.
func fromEnvironment() string {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// Check refuses what cannot work, and contacts nothing. Errors wrap core.ErrInvalid.
func (c TraceConfig) Check() error {
	if !(c.Ratio >= 0 && c.Ratio <= 1) {
		return fmt.Errorf("share of traces %v: expected 0 to 1, as 0.1 for one in ten: %w", c.Ratio, core.ErrInvalid)
	}
	if !TracesWanted(c.Endpoint) {
		return nil
	}
	name, text := "endpoint", c.Endpoint
	if text == "" {
		name = fromEnvironment()
		text = os.Getenv(name)
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("%s: expected a collector's URL, without user and query, as http://127.0.0.1:4318: %w", name, core.ErrInvalid) // it may hold a password
	}
	if p := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), httpProto); p != httpProto {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: only %s is spoken, mostly on port 4318: %w", p, httpProto, core.ErrInvalid)
	}
	return nil
}

// OpenTraces makes a provider, or none where nobody wants spans. Nothing is contacted. Errors wrap
// core.ErrInvalid.
func OpenTraces(ctx context.Context, c TraceConfig) (*TraceProvider, error) {
	if err := c.Check(); err != nil || !TracesWanted(c.Endpoint) {
		return nil, err
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	var options []otlptracehttp.Option
	if c.Endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(strings.TrimRight(c.Endpoint, "/")+tracesPath))
	}
	exp, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w: %w", core.ErrInvalid, err)
	}
	about, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", defaultName), attribute.String("service.version", c.Version), attribute.String("turnus.role", c.Role)),
		resource.WithFromEnv(), // last: it wins
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: expected name=value,name=value: %w", core.ErrInvalid), exp.Shutdown(ctx))
	}
	out := &spanExporter{to: exp, log: c.Log}
	out.life, out.end = context.WithCancel(context.WithoutCancel(ctx))
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxValue
	waiting := cmp.Or(c.waiting, maxWaiting)
	return &TraceProvider{out: out, flush: cmp.Or(c.flush, flushTime), TracerProvider: sdk.NewTracerProvider(
		sdk.WithResource(about), sdk.WithRawSpanLimits(limits), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.Ratio))),
		sdk.WithBatcher(out, sdk.WithMaxQueueSize(waiting), sdk.WithMaxExportBatchSize(min(waiting, maxBatch)), sdk.WithExportTimeout(exportTime)),
	)}, nil
}

// Close sends the remaining spans, for at most 2 s, and waits for all that the provider began. It
// is safe for nil.
func (p *TraceProvider) Close() error {
	if p == nil {
		return nil
	}
	late := time.AfterFunc(p.flush, p.out.end)
	defer late.Stop()
	err := p.Shutdown(context.Background()) // it ends: what is under way is cut off by then
	p.out.end()
	if err != nil {
		return fmt.Errorf("end traces: %w", err)
	}
	return nil
}

// spanExporter hands spans to the collector. Only the log has its failures: the library's own way
// is one handler for the whole process.
type spanExporter struct {
	to   sdk.SpanExporter
	log  *slog.Logger
	life context.Context //nolint:containedctx // the provider's life, which cuts off what is under way at its end
	end  context.CancelFunc

	mu       sync.Mutex
	reported time.Time
	lost     int // spans, since the last report
}

// ExportSpans implements sdk.SpanExporter.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	err := e.to.ExportSpans(ctx, spans)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		return nil
	}
	e.lost += len(spans)
	if e.reported.IsZero() || time.Since(e.reported) >= silence {
		e.log.Warn("the collector does not take traces; nothing else is affected", "spans_lost", e.lost, "error", err)
		e.reported, e.lost = time.Now(), 0
	}
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *spanExporter) Shutdown(ctx context.Context) error { return e.to.Shutdown(ctx) }
