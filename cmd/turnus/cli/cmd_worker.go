package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/core/worker"
)

func (a *app) workerCmd() *cobra.Command { return a.workerService().cmd }

// workerFlags are the parts of a worker.
type workerFlags struct {
	node    node.Flags
	queue   service.QueueFlags
	outputs outputFlags
	metrics service.MetricsFlags
	logs    service.LogFlags
	trace   service.TraceFlags
	name    string
	files   string   // folder
	sources []string // of the inventory
}

func (f *workerFlags) add(c *cobra.Command) {
	f.node.Add(c)
	f.queue.Add(c)
	f.outputs.add(c)
	f.logs.Add(c)
	f.metrics.Add(c)
	f.trace.Add(c)
	fl := c.Flags()
	fl.StringArrayVarP(&f.sources, "inventory", "i", localrun.InventoryFromEnv(), "inventory with the jump hosts, which do not travel with a job (repeatable; TURNUS_INVENTORY)")
	settings.ReadsEnvironment(fl, "inventory")
	fl.StringVar(&f.name, "name", "", "name of the worker, by which it is cordoned and drained (default: HOST-PID)")
	fl.StringVar(&f.files, "files", "", "copy of the project, or of its folder of playbooks, with the files that playbooks send to hosts; without it such steps fail")
}

// check refuses what contradicts itself, before anything is opened.
func (f *workerFlags) check() error {
	if f.queue.URL == "" {
		return console.Invalid("worker needs a queue\nhint: --redis rediss://HOST:6379/0")
	}
	return errors.Join(f.node.Check(), f.logs.Check(), f.trace.Check())
}

func (a *app) workerService() longRunning {
	var f workerFlags
	c := &cobra.Command{
		Use:   "worker --redis URL",
		Short: "Work on the runs of a Redis queue until a signal",
		Long: `Work on the runs of a Redis queue until a signal. Any number of workers share
a queue. SIGTERM or Ctrl-C drains: nothing new is taken, steps that run finish, and
other workers continue with the rest; a second signal cancels what runs.

Without --server only the first and last 32 KiB of an output are kept. With --server the named
server keeps the whole. With --metrics Prometheus scrapes the worker itself, which also serves
/healthz and /readyz. Without it servers publish the worker's figures.`,
		Example: `  turnus worker --redis rediss://queue:6379/0 -f 200
  turnus worker --redis rediss-sentinel://s1,s2,s3/mymaster --files /srv/playbooks
  turnus worker --redis rediss://queue:6379/0 --server https://turnus.example.net:8470 --token-file worker.token
  turnus worker --redis rediss://queue:6379/0 --metrics 127.0.0.1:9470`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.work(cmd.Context(), &f) },
	}
	f.add(c)
	return longRunning{cmd: c, check: f.check, queue: &f.queue}.settable()
}

// work runs until it is asked to stop.
func (a *app) work(ctx context.Context, f *workerFlags) (err error) {
	f.logs.Verbose = f.node.Verbose
	log, err := f.logs.Open(a.Console)
	if err != nil {
		return err
	}
	manager, err := service.Supervised()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, manager.Close()) }()
	var inv *inventory.Inventory
	if len(f.sources) > 0 {
		if inv, err = inventory.Load(ctx, f.sources); err != nil {
			return err
		}
		if err := inv.Shared(); err != nil {
			return err
		}
	}
	server, err := f.outputs.client()
	if err != nil {
		return err
	}
	var outputs worker.KeepOutput
	if server != nil {
		defer server.Close()
		outputs = server.PutOutput
	}
	listener, err := f.metrics.Listen(ctx, log, a.Message)
	if err != nil {
		return err
	}
	if listener != nil {
		defer func() { err = errors.Join(err, listener.Close()) }()
	}
	traces, err := f.trace.Open(ctx, "worker", log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.Close()) }()
	measured := telemetry.NewRegistry(settings.Version(), 0)
	q, closeQueue, err := f.queue.Open(ctx, a.Console)
	if err != nil {
		return err
	}
	n, err := f.node.Reach(ctx, node.ByCredentials, func() *inventory.Inventory { return inv }, log)
	if err != nil {
		return errors.Join(err, closeQueue())
	}
	stop := sync.OnceValue(n.Stop)
	defer func() { err = errors.Join(err, stop(), closeQueue()) }()
	if err := node.Unconfined(a.Console, n); err != nil {
		return err
	}
	f.node.Plugins.ReportDev(a.Console)
	node.WarnWithoutCredentials(a.Console, n)
	root := f.files
	if root != "" {
		if root, err = filepath.Abs(root); err != nil {
			return err
		}
	}
	events := func(e worker.Event) {
		switch e.Kind {
		case worker.QueueAway, worker.QueueBack, worker.SessionLost, worker.ClockLeaped, worker.Overloaded, worker.Eased, worker.Draining:
			a.Message(string(e.Kind) + ": " + e.Text)
		}
	}
	events = node.JobLog(log, events)
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	ctx, _, release := a.Signals(ctx, drainingSteps, a.Message, n.Kill)
	defer release()
	o := node.WorkOptions{
		Queue: q, Name: f.name, Pool: f.queue.Pool, Files: func(_, files string) string { return catalog.FilesIn(root, files) }, Events: events, Report: true,
		Outputs: outputs, Metrics: measured, Scraped: listener != nil, Traces: traces.Spans(),
		Drain: func() {
			a.Message("an order came to drain: " + drainingSteps)
			drain()
		},
	}
	if err := n.Work(&f.node, o, log); err != nil {
		return err
	}
	if listener != nil {
		listener.Handle("GET /metrics", measured)
		listener.Health(n.Worker.Stuck, n.Worker.Unready)
		a.Message("metrics on " + listener.Addr())
	}
	a.Message(fmt.Sprintf("working as %s with concurrency %d on pool %s", n.Worker.Name(), f.node.Concurrency, cmp.Or(f.queue.Pool, node.DefaultPool)))
	a.WarnError(manager.Ready(n.Worker.Stuck))
	select {
	case <-ctx.Done():
		a.WarnError(manager.Stopping())
		return stop()
	case err := <-n.Done:
		n.Done <- err // for stop
		return err
	}
}

// outputFlags name the server that keeps what is too long for a result.
type outputFlags struct{ server, tokenFile, caFile, certFile, keyFile string }

func (f *outputFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.server, "server", "", "URL of a server that keeps outputs over 64 KiB whole")
	fl.StringVar(&f.tokenFile, "token-file", "", "file with the token for it: a worker's of all tenants (TURNUS_TOKEN holds the token itself)")
	fl.StringVar(&f.caFile, "ca-file", "", "certificates, in PEM, of the certificate authority that signed the server's")
	fl.StringVar(&f.certFile, "cert-file", "", "certificate of this client, in PEM, where the server asks for one")
	fl.StringVar(&f.keyFile, "key-file", "", "its key, in PEM")
	settings.NamesFiles(fl, "ca-file", "cert-file")
	settings.NamesSecretFiles(fl, "token-file", "key-file")
}

// client is nil where no server is named.
func (f *outputFlags) client() (*client.Client, error) {
	if f.server == "" {
		if f.tokenFile != "" || f.caFile != "" || f.certFile != "" || f.keyFile != "" {
			return nil, console.Invalid("--token-file, --ca-file, --cert-file and --key-file are for --server: name the server that keeps outputs")
		}
		return nil, nil
	}
	r := remote.Flags{Server: f.server, TokenFile: f.tokenFile, CAFile: f.caFile, CertFile: f.certFile, KeyFile: f.keyFile}
	return r.Client(time.Minute)
}

// drainingSteps explains the effect of the first signal on a worker.
const drainingSteps = "draining: steps that run finish, other workers continue with the rest; once more cancels them"
