package service

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/telemetry"
)

// MetricsFlags define where a worker is asked how it is, and by whom.
type MetricsFlags struct{ address, token, cert, key, clientCA string }

// Add gives the command the flags.
func (f *MetricsFlags) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.address, "metrics", "", "address to answer GET /metrics, /healthz and /readyz on, as 127.0.0.1:9470; port 0 takes a free one. Without it servers publish the worker's figures")
	fl.StringVar(&f.token, "metrics-token-file", "", "file with the token that a scrape must bring")
	fl.StringVar(&f.cert, "metrics-tls-cert", "", "certificate chain of that address, in PEM; needed where other machines reach it")
	fl.StringVar(&f.key, "metrics-tls-key", "", "its key, in PEM")
	fl.StringVar(&f.clientCA, "metrics-client-ca", "", "certificates, in PEM, of the certificate authority whose clients may ask, with or without a token")
	settings.NamesFiles(fl, "metrics-tls-cert", "metrics-client-ca")
	settings.NamesSecretFiles(fl, "metrics-token-file", "metrics-tls-key")
}

// Listen binds the address; nil where none is asked for.
func (f *MetricsFlags) Listen(ctx context.Context, log *slog.Logger, reported func(string)) (*telemetry.Listener, error) {
	if f.address == "" {
		if f.token+f.cert+f.key+f.clientCA != "" {
			return nil, console.Invalid("--metrics-token-file, --metrics-tls-cert, --metrics-tls-key and --metrics-client-ca are for --metrics: give an address")
		}
		return nil, nil //nolint:nilnil // nobody asks
	}
	if (f.cert == "") != (f.key == "") {
		return nil, console.Invalid("--metrics-tls-cert and --metrics-tls-key go together")
	}
	if f.clientCA != "" && f.cert == "" {
		return nil, console.Invalid("--metrics-client-ca needs --metrics-tls-cert: clients show their certificates over TLS")
	}
	c := telemetry.ListenConfig{Address: f.address, Clients: f.clientCA != "", Log: log}
	if f.token != "" {
		var err error
		if c.Token, err = settings.ReadTokenFile(f.token); err != nil {
			return nil, fmt.Errorf("--metrics-token-file: %w", err)
		}
	}
	if f.cert != "" {
		files, err := securefile.OpenTLS(securefile.TLSFiles{Cert: f.cert, Key: f.key, CA: f.clientCA}, reported)
		if err != nil {
			return nil, err
		}
		c.TLS = files.Server()
	}
	l, err := telemetry.Listen(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	return l, nil
}
