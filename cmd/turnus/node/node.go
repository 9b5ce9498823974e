// Package node owns the assembly of a worker node: flags, logins and credentials, SSH, the sandbox
// and the processes of plugins, the built-in job types, the worker.
//
// It must not know where the queue is, nor what a server keeps.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/core/worker"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

// Flags define how this process works on jobs.
type Flags struct {
	SSH         SSHFlags
	Login       UserLoginFlags // of turnus run only
	secrets     SecretFlags
	Plugins     PluginFlags
	sandbox     sandboxFlags
	Concurrency int
	cpu, mem    float64
	fetchDir    string
	configs     string
	Verbose     bool
	all         *pflag.FlagSet // of the command
}

// Add gives the command the flags.
func (f *Flags) Add(c *cobra.Command) {
	f.all = c.Flags()
	f.SSH.add(c)
	f.secrets.Add(c)
	f.Plugins.Add(c)
	f.Plugins.AddDev(c)
	f.sandbox.add(c)
	c.Flags().IntVarP(&f.Concurrency, "forks", "f", 256, "jobs that run at the same time on this node")
	c.Flags().Float64Var(&f.cpu, "cpu-limit", 0.9, "take no new job while the node's CPU is over this share; 0 switches it off")
	c.Flags().Float64Var(&f.mem, "memory-limit", 0.9, "take no new job while the node's memory is over this share; 0 switches it off")
	c.Flags().Var(&f.Plugins.upload, "upload-rate", "most bytes a second that all jobs of this node together write to hosts, as 50MiB; 0: any")
	c.Flags().StringVar(&f.fetchDir, "fetch-dir", "fetched", "folder for files that playbooks fetch from hosts")
	c.Flags().StringVar(&f.configs, "config-dir", DefaultConfigs, "git repository for versions of hosts' configurations; turnus hosts config shows them")
	c.Flags().BoolVarP(&f.Verbose, "verbose", "v", false, "log what the node, its plugins and connections do")
}

// Check refuses values that contradict each other.
func (f *Flags) Check() error {
	if f.Concurrency < 1 {
		return console.Invalid("--forks %d: expected a concurrency of at least 1\nhint: -f 10, or leave it out", f.Concurrency)
	}
	if f.SSH.ConnectTimeout < 0 { // a variable or a file of settings may have it
		return console.Invalid("--connect-timeout %v: expected a duration of 0 or more, such as 10s", f.SSH.ConnectTimeout)
	}
	for _, limit := range []struct {
		flag  string
		share float64
	}{{"--cpu-limit", f.cpu}, {"--memory-limit", f.mem}} {
		if !(limit.share >= 0 && limit.share <= 1) {
			return console.Invalid("%s %v: expected a share from 0 to 1, as 0.9 for 90 %%; 0 switches it off", limit.flag, limit.share)
		}
	}
	if _, err := f.Plugins.developed(); err != nil {
		return err
	}
	return f.sandbox.check()
}

// OpenConfigs opens the repository of hosts' configurations; nil where there is none.
func (f *Flags) OpenConfigs() (*configs.Repo, error) {
	if f.configs == "" {
		return nil, nil //nolint:nilnil // none is no error
	}
	return configs.New(f.configs)
}

// Node is a worker with its connections and plugin processes.
type Node struct {
	pool    *transport.Pool
	Secrets *secrets.Store
	Lent    bool // others also use the store, and close it
	Plugins *host.Supervisor
	Worker  *worker.Worker
	configs *configs.Repo

	sandbox *sandbox.Sandbox // nil: plugins are not confined
	stopRun context.CancelFunc
	Done    chan error

	reporter     *worker.Reporter // nil: the worker reports to nobody
	reported     chan struct{}    // closed when it has ended
	stopReporter context.CancelFunc
}

// WorkOptions holds what a node works for.
type WorkOptions struct {
	Queue  encrypted.Backend
	Name   string                         // of the node; HOST-PID when empty
	Pool   string                         // whose hosts it takes; defaultPool when empty
	Files  func(run, files string) string // resolves where a run's artifacts are
	Data   string                         // folder of the process that may lie among these files; "": none does
	Events func(worker.Event)             // nil: nobody wants them
	Few    bool                           // it works on few hosts, and ends: its heap need not be small
	Report bool                           // to the service: how it is, and what happens to jobs
	Drain  func()                         // see worker.ReportConfig
	// metrics reports how the node is; scraped is whether somebody can ask this process for them, else
	// they are posted for servers.
	Metrics *telemetry.Registry
	Scraped bool
	// outputs keeps what is too long for a result; nil: its middle is cut.
	Outputs worker.KeepOutput
	Traces  trace.TracerProvider // nil: nothing is traced
}

// LoginMode selects the credentials with which a node logs in to hosts.
type LoginMode int

// The login modes.
const (
	ByUserLogins  LoginMode = iota // keys, agent and passwords of the person who types the command, for that person's hosts
	ByCredentials                  // credentials of the node's own file, for hosts that a tree, a server or a queue names
)

// Reach makes the parts that a node has before it works: connections and plugins. The inventory may
// change, and may be nil for a while.
func (f *Flags) Reach(ctx context.Context, by LoginMode, inv func() *inventory.Inventory, log *slog.Logger) (*Node, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	store, err := f.secrets.Open(log)
	if err != nil {
		return nil, err
	}
	pool, err := f.connect(ctx, by, inv, store, log)
	if err != nil {
		store.Close()
		return nil, err
	}
	fail := func(err error) (*Node, error) {
		err = errors.Join(err, pool.Close())
		store.Close()
		return nil, err
	}
	cfg := host.Config{Reach: pool, Log: log}
	if err := f.sandbox.confine(&cfg, f.Plugins.only); err != nil {
		return fail(err)
	}
	sup, err := f.Plugins.supervise(cfg)
	if err != nil {
		return fail(err)
	}
	return &Node{pool: pool, Plugins: sup, sandbox: cfg.Sandbox, Secrets: store}, nil
}

// AddDial gives a command that dials hosts, and runs no jobs on them, its flags.
func (f *Flags) AddDial(c *cobra.Command) {
	f.SSH.add(c)
	f.secrets.Add(c)
	f.Login.Add(c)
}

// Dial makes the SSH pool of such a command, with the logins of the person who types it.
func (f *Flags) Dial(ctx context.Context, inv *inventory.Inventory, log *slog.Logger) (*transport.Pool, func(), error) {
	store, err := f.secrets.Open(log)
	if err != nil {
		return nil, nil, err
	}
	pool, err := f.connect(ctx, ByUserLogins, func() *inventory.Inventory { return inv }, store, log)
	if err != nil {
		store.Close()
		return nil, nil, err
	}
	return pool, func() { _ = pool.Close(); store.Close() }, nil
}

// connect makes the SSH pool.
func (f *Flags) connect(ctx context.Context, by LoginMode, inv func() *inventory.Inventory, store *secrets.Store, log *slog.Logger) (*transport.Pool, error) {
	if by == ByUserLogins {
		logins, err := f.Login.logins(ctx, inv, store, log)
		if err != nil {
			return nil, err
		}
		if f.SSH.firstContact, err = f.Login.networks(); err != nil {
			return nil, err
		}
		return f.SSH.pool(inv, logins.of, f.Login.sshConfig, log)
	}
	if err := f.Login.refuse(); err != nil {
		return nil, err
	}
	known := NewCredentials(store)
	if err := known.check(ctx); err != nil {
		return nil, err
	}
	return f.SSH.pool(inv, known.of, "", log)
}

// Work starts the worker.
func (n *Node) Work(f *Flags, o WorkOptions, log *slog.Logger) error {
	if !o.Few {
		settings.WorkHeap()
	}
	q := o.Queue
	cfg := worker.Config{
		Queue: q, Payload: q.Payload, Board: q, Plugins: n.Plugins, Name: cmp.Or(o.Name, nodeName()), Concurrency: f.Concurrency, Pool: cmp.Or(o.Pool, DefaultPool),
		Secret:   n.Secrets.Resolve,
		FilesDir: o.Files, Withheld: n.own(f.all, o.Data), FetchDir: f.fetchDir, KeepOutput: o.Outputs, Events: func(e worker.Event) { n.event(o.Events, e) }, Log: log, Traces: o.Traces,
	}
	load := worker.NodeLoad()
	if f.cpu > 0 || f.mem > 0 {
		cfg.Load = load
		cfg.Limits = worker.Limits{CPU: shareOrAll(f.cpu), Memory: shareOrAll(f.mem)}
	}
	var err error
	if n.configs, err = f.OpenConfigs(); err != nil {
		return err
	}
	cfg.Configs = n.configs
	if n.Worker, err = worker.New(cfg); err != nil {
		return err
	}
	if o.Metrics != nil {
		o.Metrics.Source(n.measure(cmp.Or(o.Pool, DefaultPool)))
	}
	if o.Report {
		n.reporter = worker.NewReporter(worker.ReportConfig{
			Worker: n.Worker, Board: q, Feed: q, Version: settings.Version(), Load: load, Drain: o.Drain, Log: log,
			Metrics: o.posted(),
		})
		reporting, stop := context.WithCancel(context.Background())
		n.stopReporter, n.reported = stop, make(chan struct{})
		go func() { defer close(n.reported); n.reporter.Run(reporting) }()
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stopRun, n.Done = cancel, make(chan error, 1)
	go func() { n.Done <- n.Worker.Run(ctx) }()
	return nil
}

// own are the files of this process that others must not have: they may lie beside playbooks.
func (n *Node) own(flags *pflag.FlagSet, data string) []string {
	files := settings.PrivateFiles(flags)
	if data != "" {
		files = append(files, data)
	}
	for _, c := range n.Secrets.Credentials() {
		files = append(files, c.CAKey)
		files = append(files, c.IdentityFiles...)
	}
	return files
}

// event passes on the worker's events. The reporter is there before the worker runs.
func (n *Node) event(also func(worker.Event), e worker.Event) {
	if n.reporter != nil {
		n.reporter.Event(e)
	}
	if also != nil {
		also(e)
	}
}

// nodeName is another one for each process of a machine.
func nodeName() string {
	name, err := os.Hostname()
	if err != nil {
		name = "worker"
	}
	return fmt.Sprintf("%s-%d", name, os.Getpid())
}

// shareOrAll makes 0, a limit switched off, one that is never reached.
func shareOrAll(limit float64) float64 {
	if limit <= 0 {
		return 2
	}
	return limit
}

// Stop drains: first the worker, which needs plugins and connections to finish what
// runs; then the plugin processes, which need connections; then the connections.
func (n *Node) Stop() error {
	var errs []error
	if n.Worker != nil {
		n.stopRun()
		errs = append(errs, <-n.Done)
	}
	if n.reporter != nil { // it sends the last events, and reports that the node is gone
		n.stopReporter()
		<-n.reported
	}
	if n.configs != nil {
		errs = append(errs, n.configs.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	errs = append(errs, n.Plugins.Stop(ctx), n.pool.Close())
	if !n.Lent {
		n.Secrets.Close()
	}
	return errors.Join(errs...)
}

// DefaultConfigs is the repository of configurations where no flag names one.
const DefaultConfigs = "configs.git"

// DefaultPool serves hosts whose inventory names no pool.
const DefaultPool = "default"

// Kill ends what runs on the node immediately.
func (n *Node) Kill() {
	if n.Worker != nil {
		n.Worker.Kill()
	}
}
