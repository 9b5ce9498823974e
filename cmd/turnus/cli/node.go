package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/metrics"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/queue/sealed"
	"github.com/turnus/turnus/core/queue/stash"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/core/worker"
	"github.com/turnus/turnus/plugins/host"
)

// nodeFlags say how this process works on jobs.
type nodeFlags struct {
	ssh      sshFlags
	login    userLoginFlags // of turnus run only
	secrets  secretFlags
	plugins  pluginFlags
	sandbox  sandboxFlags
	slots    int
	cpu, mem float64
	fetchDir string
	configs  string
	verbose  bool
	all      *pflag.FlagSet // of the command
}

func (f *nodeFlags) add(c *cobra.Command) {
	f.all = c.Flags()
	f.ssh.add(c)
	f.secrets.add(c)
	f.plugins.add(c)
	f.plugins.addDev(c)
	f.sandbox.add(c)
	c.Flags().IntVarP(&f.slots, "forks", "f", 256, "jobs at once on this node")
	c.Flags().Float64Var(&f.cpu, "cpu-limit", 0.9, "take no new job while the node's CPU is over this share; 0 switches it off")
	c.Flags().Float64Var(&f.mem, "memory-limit", 0.9, "take no new job while the node's memory is over this share; 0 switches it off")
	c.Flags().Var(&f.plugins.upload, "upload-rate", "most bytes a second that all jobs of this node together write to hosts, as 50MiB; 0: any")
	c.Flags().StringVar(&f.fetchDir, "fetch-dir", "fetched", "folder for files that playbooks fetch from hosts")
	c.Flags().StringVar(&f.configs, "config-dir", defaultConfigs, "git repository for versions of hosts' configurations; turnus configs shows them")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "log what the node, its plugins and connections do")
}

func (f *nodeFlags) check() error {
	if f.slots < 1 {
		return console.Invalid("--forks %d: expected at least 1 job at once", f.slots)
	}
	for _, limit := range []struct {
		flag  string
		share float64
	}{{"--cpu-limit", f.cpu}, {"--memory-limit", f.mem}} {
		if !(limit.share >= 0 && limit.share <= 1) {
			return console.Invalid("%s %v: expected a share from 0 to 1, as 0.9 for 90 %%; 0 switches it off", limit.flag, limit.share)
		}
	}
	if _, err := f.plugins.developed(); err != nil {
		return err
	}
	return f.sandbox.check()
}

// node is a worker with its connections and plugin processes.
type node struct {
	pool    *transport.Pool
	secrets *secrets.Store
	lent    bool // the store works for others, too, who close it
	plugins *host.Supervisor
	worker  *worker.Worker
	configs *configs.Repo

	unconfined []string // what plugins are not kept from, for people
	stopRun    context.CancelFunc
	done       chan error

	reporter     *worker.Reporter // nil: nobody is told
	reported     chan struct{}    // closed when it has ended
	stopReporter context.CancelFunc
}

// workerOf says what a node works for.
type workerOf struct {
	queue  queue.Queue
	name   string                         // of the node; HOST-PID when empty
	pool   string                         // whose hosts it takes; defaultPool when empty
	files  func(run, files string) string // resolves where a run's artifacts are
	data   string                         // folder of the process that may lie among these files; "": none does
	events func(worker.Event)             // nil: nobody wants them
	report bool                           // to the service: how it is, and what happens to jobs
	drain  func()                         // see worker.ReportConfig
	// metrics tells how the node is; scraped says that somebody can ask this process for them, else they are posted for servers.
	metrics *metrics.Registry
	scraped bool
	// outputs keeps what is too long for a result; nil: its middle is cut.
	outputs worker.KeepOutput
	traces  trace.TracerProvider // nil: nothing is traced
}

// loginMode says what a node logs in to hosts with.
type loginMode int

const (
	byUserLogins  loginMode = iota // keys, agent and passwords of the person who types the command, for that person's hosts
	byCredentials                  // credentials of the node's own file, for hosts that a tree, a server or a queue names
)

// reach makes the parts that a node has before it works: connections and plugins. The inventory may
// change, and may be nil for a while.
func (f *nodeFlags) reach(ctx context.Context, by loginMode, inv func() *inventory.Inventory, log *slog.Logger) (*node, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	store, err := f.secrets.open(log)
	if err != nil {
		return nil, err
	}
	pool, err := f.connect(ctx, by, inv, store, log)
	if err != nil {
		store.Close()
		return nil, err
	}
	fail := func(err error) (*node, error) {
		err = errors.Join(err, pool.Close())
		store.Close()
		return nil, err
	}
	cfg := host.Config{Reach: pool, Log: log}
	missing, err := f.sandbox.confine(&cfg)
	if err != nil {
		return fail(err)
	}
	sup, err := f.plugins.supervise(cfg)
	if err != nil {
		return fail(err)
	}
	return &node{pool: pool, plugins: sup, unconfined: missing, secrets: store}, nil
}

// connect makes the SSH pool.
func (f *nodeFlags) connect(ctx context.Context, by loginMode, inv func() *inventory.Inventory, store *secrets.Store, log *slog.Logger) (*transport.Pool, error) {
	if by == byUserLogins {
		logins, err := f.login.logins(ctx, inv, store, log)
		if err != nil {
			return nil, err
		}
		return f.ssh.pool(inv, logins.of, f.login.sshConfig, log)
	}
	if err := f.login.refuse(); err != nil {
		return nil, err
	}
	known := newCredentials(store)
	if err := known.check(ctx); err != nil {
		return nil, err
	}
	return f.ssh.pool(inv, known.of, "", log)
}

// work starts the worker.
func (n *node) work(f *nodeFlags, o workerOf, log *slog.Logger) error {
	q := o.queue
	cfg := worker.Config{
		Queue: q, Payload: q.Payload, Board: q, Plugins: n.plugins, Name: cmp.Or(o.name, nodeName()), Slots: f.slots, Pool: cmp.Or(o.pool, defaultPool),
		Secret:   n.secrets.Resolve,
		FilesDir: o.files, Withheld: n.own(f.all, o.data), FetchDir: f.fetchDir, KeepOutput: o.outputs, Events: func(e worker.Event) { n.event(o.events, e) }, Log: log, Traces: o.traces,
	}
	load := worker.NodeLoad()
	if f.cpu > 0 || f.mem > 0 {
		cfg.Load = load
		cfg.Limits = worker.Limits{CPU: shareOrAll(f.cpu), Memory: shareOrAll(f.mem)}
	}
	var err error
	if f.configs != "" {
		if n.configs, err = configs.New(f.configs); err != nil {
			return err
		}
		cfg.Configs = n.configs
	}
	if n.worker, err = worker.New(cfg); err != nil {
		return err
	}
	if o.metrics != nil {
		o.metrics.Source(n.measure(cmp.Or(o.pool, defaultPool)))
	}
	if o.report {
		n.reporter = worker.NewReporter(worker.ReportConfig{
			Worker: n.worker, Board: q, Feed: q, Version: version, Load: load, Drain: o.drain, Log: log,
			Metrics: o.posted(),
		})
		reporting, stop := context.WithCancel(context.Background())
		n.stopReporter, n.reported = stop, make(chan struct{})
		go func() { defer close(n.reported); n.reporter.Run(reporting) }()
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.stopRun, n.done = cancel, make(chan error, 1)
	go func() { n.done <- n.worker.Run(ctx) }()
	return nil
}

// own are the files of this process that others must not have: they may lie beside playbooks.
func (n *node) own(flags *pflag.FlagSet, data string) []string {
	files := settings.PrivateFiles(flags)
	if data != "" {
		files = append(files, data)
	}
	for _, c := range n.secrets.Credentials() {
		files = append(files, c.CAKey)
		files = append(files, c.IdentityFiles...)
	}
	return files
}

// event hands on what the worker tells. The reporter is there before the worker runs.
func (n *node) event(also func(worker.Event), e worker.Event) {
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

// stop drains: first the worker, which needs plugins and connections to finish what
// runs; then the plugin processes, which need connections; then the connections.
func (n *node) stop() error {
	var errs []error
	if n.worker != nil {
		n.stopRun()
		errs = append(errs, <-n.done)
	}
	if n.reporter != nil { // it tells the last events, and that the node is gone
		n.stopReporter()
		<-n.reported
	}
	if n.configs != nil {
		errs = append(errs, n.configs.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	errs = append(errs, n.plugins.Stop(ctx), n.pool.Close())
	if !n.lent {
		n.secrets.Close()
	}
	return errors.Join(errs...)
}

// queueFlags choose where runs wait.
type queueFlags struct {
	url, pool string
	keyring   keyringFlags
	patient   bool           // a queue that is away at the start is waited for
	remains   memory.Remains // of the queue in the process before this one
	states    string         // folder in which the states of jobs outlive a queue in the process; "" for none
	own       *memory.Queue  // the queue in the process, once it is open; nil over Redis
}

func (f *queueFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.url, "redis", os.Getenv("TURNUS_REDIS"), "Redis queue that other workers share: redis://, rediss://, unix://, redis-sentinel://, redis-cluster:// (TURNUS_REDIS)")
	c.Flags().Lookup("redis").DefValue = "" // --help would print the password
	settings.ReadsEnvironment(c.Flags(), "redis")
	f.keyring.add(c)
	c.Flags().StringVar(&f.pool, "pool", "", "worker pool in that Redis (default: the pool of the run's hosts, or \"default\")")
}

// defaultPool serves hosts whose inventory names no pool.
const defaultPool = "default"

// choosePool takes the pool of the hosts where --pool names none. Hosts of several pools are
// refused: a run has the workers of one pool, and those of another do not reach its hosts.
func (f *queueFlags) choosePool(launches []*launch.Launch) error {
	pools := map[string][]string{}
	for _, l := range launches {
		if err := launch.CheckPool(l.Playbook, l.Hosts, f.pool); err != nil {
			return &console.Exit{Code: console.ExitInvalid, Err: err}
		}
		for _, h := range l.Hosts {
			if pool := launch.PoolOf(l.Playbook, h); pool != "" {
				pools[pool] = append(pools[pool], h.Name)
			}
		}
	}
	if f.pool != "" {
		return nil
	}
	if len(pools) > 1 {
		names := slices.Sorted(maps.Keys(pools))
		for _, pool := range names { // several playbooks may have the same hosts
			slices.Sort(pools[pool])
			pools[pool] = slices.Compact(pools[pool])
		}
		return console.Invalid("the hosts are in the pools %s (%s); a run has the workers of one pool\nhint: --select 'host.pool == %q', one run for each pool",
			strings.Join(names, ", "), launch.ListPools(pools), names[0])
	}
	for pool := range pools {
		f.pool = pool
	}
	return nil
}

// open makes the queue, behind which all is sealed where there is a key ring, and says what of it an operator should know. closeQueue comes after its last use.
func (f *queueFlags) open(ctx context.Context, a *app) (q queue.Queue, closeQueue func() error, err error) {
	ring, err := f.keyring.open(a)
	if err != nil {
		return nil, nil, err
	}
	loud := func(text string) { a.Message(a.Paint(console.Yellow, "warning: ") + text) }
	if f.url == "" {
		f.own = memory.New(memory.Options{Remains: f.remains})
		closeQueue = func() error { f.own.Shutdown(); return nil }
		if f.states == "" {
			return sealed.New(f.own, ring, loud), closeQueue, nil
		}
		kept, err := stash.New(f.own, f.states)
		if err != nil {
			return nil, nil, errors.Join(err, closeQueue())
		}
		return sealed.New(kept, ring, loud), closeQueue, nil
	}
	client, err := redisconn.Dial(f.url)
	if err != nil {
		return nil, nil, err
	}
	r, err := redis.New(client, redis.Options{Pool: cmp.Or(f.pool, defaultPool)})
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	warnings, err := r.Preflight(ctx)
	if f.patient && errors.Is(err, core.ErrUnavailable) {
		a.Message(a.Paint(console.Yellow, "warning: ") + "the queue does not answer yet: " + err.Error())
		err = nil
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	for _, w := range warnings {
		a.Message(a.Paint(console.Yellow, "warning: ") + w)
	}
	return sealed.New(r, ring, loud), client.Close, nil
}
