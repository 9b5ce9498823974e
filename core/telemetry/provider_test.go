package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/core"
)

// cleanEnvironment takes out the variables of traces in this process's environment.
func cleanEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_HEADERS"} {
		t.Setenv(name, "")
	}
}

func openTraces(t *testing.T, c TraceConfig) *TraceProvider {
	t.Helper()
	p, err := OpenTraces(t.Context(), c)
	if err != nil || p == nil {
		t.Fatalf("%v, %v", p, err)
	}
	return p
}

func TestWhereSpansGo(t *testing.T) {
	for name, c := range map[string]struct {
		env      map[string]string
		endpoint string
		ratio    float64
		wanted   bool
		wrong    string // in the error
	}{
		"nowhere":          {},
		"flag":             {endpoint: "http://127.0.0.1:4318", wanted: true},
		"environment":      {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example.net"}, wanted: true},
		"traces only":      {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c.example.net/x"}, wanted: true},
		"disabled":         {env: map[string]string{"OTEL_SDK_DISABLED": "true"}, endpoint: "http://c:4318"},
		"exporter none":    {env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}, endpoint: "http://c:4318"},
		"no URL":           {endpoint: "collector:4318", wrong: "as http://127.0.0.1:4318"},
		"password":         {endpoint: "http://u:geheim@c:4318", wrong: "endpoint: expected a collector's URL"},
		"from environment": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4317"}, wrong: "OTEL_EXPORTER_OTLP_ENDPOINT: expected"},
		"gRPC":             {env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, endpoint: "http://c:4317", wrong: "only http/protobuf is spoken"},
		"ratio":            {ratio: 1.5, wrong: "expected 0 to 1"},
		"attributes":       {env: map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "nothing"}, endpoint: "http://c:4318", wrong: "OTEL_RESOURCE_ATTRIBUTES: expected"},
	} {
		t.Run(name, func(t *testing.T) {
			cleanEnvironment(t)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			p, err := OpenTraces(t.Context(), TraceConfig{Endpoint: c.endpoint, Ratio: c.ratio})
			defer func() { _ = p.Close() }()
			switch {
			case c.wrong == "" && (err != nil || (p != nil) != c.wanted || (p.Spans() != nil) != c.wanted):
				t.Errorf("provider %v, %v", p, err)
			case c.wrong != "" && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "geheim")):
				t.Errorf("%v, expected %q", err, c.wrong)
			}
		})
	}
}

// The standard variables set what is sent along; those of the environment about the service win.
func TestStandardVariablesAreHonoured(t *testing.T) {
	cleanEnvironment(t)
	var mu sync.Mutex
	var body []byte
	var header http.Header
	got := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ = io.ReadAll(r.Body)
		header = r.Header
	}))
	defer got.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", got.URL+"/deep")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=k1")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,team=net")
	p := openTraces(t, TraceConfig{Ratio: 1, Version: "v9"})
	_, span := BeginSpan(t.Context(), p.Spans(), SpanRequest)
	span.SetAttributes(AttributeStep.String(strings.Repeat("x", 10_000)))
	EndSpan(span, errors.New("geheim"))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	var m collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &m); err != nil || header.Get("X-Key") != "k1" {
		t.Fatalf("%v, header %v", err, header)
	}
	text := m.String()
	for want, there := range map[string]bool{"mine": true, "team": true, "v9": true, SpanRequest: true, "STATUS_CODE_ERROR": true, "geheim": false, strings.Repeat("x", maxValue+1): false} {
		if strings.Contains(text, want) != there {
			t.Errorf("%.20q in what was sent: expected %v", want, there)
		}
	}
}

func TestRatioAndWhatCameFromElsewhere(t *testing.T) {
	cleanEnvironment(t)
	p := openTraces(t, TraceConfig{Endpoint: "http://127.0.0.1:1", Ratio: 0})
	defer func() { _ = p.Close() }()
	const id = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for parent, recorded := range map[string]bool{"": false, id + "0": false, id + "1": true, "rubbish": false} {
		ctx, span := BeginSpan(UnderTrace(t.Context(), parent), p.Spans(), SpanRequest)
		if span.IsRecording() != recorded {
			t.Errorf("under %q: recorded is %v", parent, !recorded)
		}
		if next := Traceparent(ctx); !strings.HasSuffix(next, map[bool]string{true: "-01", false: "-00"}[recorded]) {
			t.Errorf("under %q the trace continues as %q", parent, next)
		}
		span.End()
	}
}

// A collector that hangs, or is away, delays neither the makers of spans, nor the end. The spans
// that wait for it are bounded.
func TestACollectorThatDoesNotAnswerSlowsNothing(t *testing.T) {
	cleanEnvironment(t)
	const many, waiting = 40_000, 1000
	release := make(chan struct{})
	var asked atomic.Int32
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	}))
	defer hangs.Close()
	defer close(release)
	for name, c := range map[string]struct {
		url     string
		waiting int
	}{"hangs": {hangs.URL, waiting}, "away": {"http://127.0.0.1:1", waiting}, "negative: without a bound": {hangs.URL, many}} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			p := openTraces(t, TraceConfig{Endpoint: c.url, Ratio: 1, Log: slog.New(slog.NewTextHandler(&log, nil)), waiting: c.waiting, flush: 100 * time.Millisecond})
			before, began := heap(), time.Now()
			for range many {
				_, span := BeginSpan(t.Context(), p.Spans(), SpanJob)
				span.SetAttributes(AttributeStep.String(strings.Repeat("x", maxValue)))
				span.End()
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("%d spans took %v", many, took)
			}
			if grown := int64(heap()) - int64(before); (grown > 12<<20) != (c.waiting == many) {
				t.Errorf("%d spans, of which %d may wait, hold %d MiB", many, c.waiting, grown>>20)
			}
			began = time.Now()
			if err := p.Close(); err != nil || time.Since(began) > time.Minute {
				t.Errorf("the end took %v: %v", time.Since(began), err)
			}
			if n := strings.Count(log.String(), "does not take traces"); n != 1 {
				t.Errorf("the log reports %d times that spans are lost: %s", n, &log)
			}
		})
	}
	if asked.Load() == 0 {
		t.Error("nobody asked the collector that hangs: the test shows nothing")
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Without tracing, a place that would make a span costs next to nothing.
func TestOffCostsNothing(t *testing.T) {
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() {
		_, span := StartSpan(ctx, SpanExec, AttributeHost.String("h"))
		EndSpan(span, nil)
	}); n > 1 { // the list of attributes
		t.Errorf("%v allocations", n)
	}
	if Traceparent(ctx) != "" || TraceID(ctx) != "" {
		t.Error("there is a trace")
	}
}

func BenchmarkOff(b *testing.B) {
	ctx := context.Background()
	for b.Loop() {
		_, span := StartSpan(ctx, SpanExec, AttributeHost.String("h"))
		EndSpan(span, nil)
	}
}
