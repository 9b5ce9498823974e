package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/core/worker"
	"github.com/turnus/turnus/plugins/host"
)

// nodeFlags say how this process works on jobs.
type nodeFlags struct {
	ssh      sshFlags
	plugins  pluginFlags
	slots    int
	cpu, mem float64
	fetchDir string
	verbose  bool
}

func (f *nodeFlags) add(c *cobra.Command) {
	f.ssh.add(c)
	f.plugins.add(c)
	c.Flags().IntVarP(&f.slots, "forks", "f", 256, "jobs at once on this node")
	c.Flags().Float64Var(&f.cpu, "cpu-limit", 0.9, "take no new job while the node's CPU is over this share; 0 switches it off")
	c.Flags().Float64Var(&f.mem, "memory-limit", 0.9, "take no new job while the node's memory is over this share; 0 switches it off")
	c.Flags().StringVar(&f.fetchDir, "fetch-dir", "fetched", "folder for files that playbooks fetch from hosts")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log what the node, its plugins and connections do")
}

// node is a worker with its connections and plugin processes.
type node struct {
	pool    *transport.Pool
	plugins *host.Supervisor
	worker  *worker.Worker
	stopRun context.CancelFunc
	done    chan error
}

// reach makes the parts that a node has before it works: connections and plugins.
func (f *nodeFlags) reach(ctx context.Context, inv *inventory.Inventory, log *slog.Logger) (*node, error) {
	pool, err := f.ssh.pool(ctx, inv)
	if err != nil {
		return nil, err
	}
	sup, err := f.plugins.supervisor(pool, log)
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return &node{pool: pool, plugins: sup}, nil
}

// work starts the worker on q. files resolves where a run's artifacts are.
func (n *node) work(f *nodeFlags, q queue.Queue, files func(run, files string) string, events func(worker.Event), log *slog.Logger) error {
	name, err := os.Hostname()
	if err != nil {
		name = "worker"
	}
	cfg := worker.Config{
		Queue: q, Payload: q.Payload, Plugins: n.plugins, Name: fmt.Sprintf("%s-%d", name, os.Getpid()), Slots: f.slots,
		FilesDir: files, FetchDir: f.fetchDir, Events: events, Log: log,
	}
	if f.cpu > 0 || f.mem > 0 {
		cfg.Load = worker.NodeLoad()
		cfg.Limits = worker.Limits{CPU: shareOrAll(f.cpu), Memory: shareOrAll(f.mem)}
	}
	if n.worker, err = worker.New(cfg); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stopRun, n.done = cancel, make(chan error, 1)
	go func() { n.done <- n.worker.Run(ctx) }()
	return nil
}

// shareOrAll makes 0, a limit switched off, one that is never reached.
func shareOrAll(limit float64) float64 {
	if limit <= 0 {
		return 2
	}
	return limit
}

// stop drains: first the worker, which needs plugins and connections to finish what
// runs; then the plugin processes, which need connections; then the connections.
func (n *node) stop() error {
	var errs []error
	if n.worker != nil {
		n.stopRun()
		errs = append(errs, <-n.done)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	errs = append(errs, n.plugins.Stop(ctx), n.pool.Close())
	return errors.Join(errs...)
}

// queueFlags choose where runs wait.
type queueFlags struct {
	url, pool string
}

func (f *queueFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.url, "redis", os.Getenv("TURNUS_REDIS"), "Redis queue that other workers share: redis://, rediss://, unix://, redis-sentinel://, redis-cluster:// (TURNUS_REDIS)")
	c.Flags().StringVar(&f.pool, "pool", "default", "name of the worker pool in that Redis")
}

// open makes the queue and says what of it an operator should know. close is never nil.
func (f *queueFlags) open(ctx context.Context, a *app) (q queue.Queue, closeQueue func() error, err error) {
	if f.url == "" {
		return memory.New(memory.Options{}), func() error { return nil }, nil
	}
	return nil, func() error { return nil }, errors.New("x")
}

// logger writes to stderr with -v, and is silent without.
func (a *app) logger(verbose bool) *slog.Logger {
	if !verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(lineWriter{a}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lineWriter writes log lines to stderr.
type lineWriter struct{ a *app }

func (w lineWriter) Write(p []byte) (int, error) {
	w.a.message(printable(strings.TrimRight(string(p), "\n")))
	return len(p), nil
}
