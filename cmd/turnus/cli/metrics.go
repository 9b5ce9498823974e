package cli

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/metrics"
	"github.com/turnus/turnus/core/securefile"
)

// metricsFlags say where a worker is asked how it is, and by whom.
type metricsFlags struct{ address, token, cert, key, clientCA string }

func (f *metricsFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.address, "metrics", "", "address to answer GET /metrics, /healthz and /readyz on, as 127.0.0.1:9470; port 0 takes a free one. Without it servers tell what the worker reports")
	fl.StringVar(&f.token, "metrics-token-file", "", "file with the token that a scrape must bring")
	fl.StringVar(&f.cert, "metrics-tls-cert", "", "certificate chain of that address, in PEM; needed where other machines reach it")
	fl.StringVar(&f.key, "metrics-tls-key", "", "its key, in PEM")
	fl.StringVar(&f.clientCA, "metrics-client-ca", "", "certificates, in PEM, of the authority whose clients may ask; instead of a token, or besides")
	settings.NamesFiles(fl, "metrics-tls-cert", "metrics-client-ca")
	settings.NamesSecretFiles(fl, "metrics-token-file", "metrics-tls-key")
}

// listen binds the address; nil where none is asked for.
func (f *metricsFlags) listen(ctx context.Context, log *slog.Logger, told func(string)) (*metrics.Listener, error) {
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
	c := metrics.ListenConfig{Address: f.address, Clients: f.clientCA != "", Log: log}
	if f.token != "" {
		var err error
		if c.Token, err = settings.ReadTokenFile(f.token); err != nil {
			return nil, fmt.Errorf("--metrics-token-file: %w", err)
		}
	}
	if f.cert != "" {
		files, err := securefile.OpenTLS(securefile.TLSFiles{Cert: f.cert, Key: f.key, CA: f.clientCA}, told)
		if err != nil {
			return nil, err
		}
		c.TLS = files.Server()
	}
	l, err := metrics.Listen(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	return l, nil
}

// measure is what a node tells of itself at a scrape.
func (n *node) measure(pool string) metrics.Source {
	return func(_ context.Context, emit metrics.Emit) {
		name, w := n.worker.Name(), n.worker.Stats()
		emit(metrics.WorkerUp, 1, name, pool)
		emit(metrics.WorkerSlots, float64(w.Slots), name)
		emit(metrics.WorkerRunning, float64(w.Running), name)
		emit(metrics.WorkerQueueUp, truth(!w.QueueAway), name)
		emit(metrics.ClockLeaps, float64(w.ClockLeaps), name)
		emit(metrics.WindowsMissed, float64(w.WindowsMissed), name)
		ssh := n.pool.Stats()
		emit(metrics.SSHConnections, float64(ssh.Open), name)
		for result, dials := range ssh.Results {
			emit(metrics.SSHDials, float64(dials), name, string(result))
		}
		for _, p := range n.plugins.Stats() {
			emit(metrics.PluginStarts, float64(p.Starts), name, p.Plugin)
			emit(metrics.PluginDeaths, float64(p.Deaths), name, p.Plugin)
			emit(metrics.PluginHeldBack, truth(p.HeldBack), name, p.Plugin)
		}
	}
}

// posted is what the node's reporter posts for servers to tell; nil where somebody can ask this process.
func (o *workerOf) posted() func(context.Context) ([]byte, error) {
	if o.metrics == nil || o.scraped {
		return nil
	}
	return o.metrics.Report
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
