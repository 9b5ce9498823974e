package service

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/telemetry"
)

// TraceFlags define where a long-running process sends its spans, and how many.
type TraceFlags struct {
	endpoint string
	ratio    float64
}

// Add gives the command the flags.
func (f *TraceFlags) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.endpoint, "otlp-endpoint", "", "URL of an OpenTelemetry collector that takes traces over HTTP, as http://127.0.0.1:4318 (default: OTEL_EXPORTER_OTLP_ENDPOINT, or none)")
	fl.Float64Var(&f.ratio, "trace-ratio", 1, "share of the runs that are traced, from 0 to 1; those that come with a trace are sampled as it decides")
}

// Check refuses what cannot work, before anything is opened.
func (f *TraceFlags) Check() error {
	if err := (telemetry.TraceConfig{Endpoint: f.endpoint, Ratio: f.ratio}).Check(); err != nil {
		return console.Invalid("--otlp-endpoint, --trace-ratio: %w", err)
	}
	return nil
}

// Open makes what the process sends its spans with; nil where nobody wants any.
func (f *TraceFlags) Open(ctx context.Context, role string, log *slog.Logger) (*telemetry.TraceProvider, error) {
	return telemetry.OpenTraces(ctx, telemetry.TraceConfig{Endpoint: f.endpoint, Ratio: f.ratio, Version: settings.Version(), Role: role, Log: log})
}
