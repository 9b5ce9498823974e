package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

const (
	startTimeout    = 20 * time.Second
	describeGrace   = time.Second
	condemnedGraces = 6 // how many Graces the other calls of a condemned process have left
)

// Supervisor owns the processes. Safe for concurrent use.
type Supervisor struct {
	cfg    Config
	launch launch
	timing timing
	root   *folder

	mu      sync.Mutex
	pools   map[string]*pool   // by plugin name: where calls go that begin now; built-ins may share one
	types   map[string]jobType // by name
	sources []*origin          // of all plugins but the built-in ones
	leaving map[*pool]bool     // of former versions that still have calls
	stopped bool
	stop    chan struct{}  // closed when stopped
	wg      sync.WaitGroup // ends of former versions
}

// jobType is a job type with its plugin, and the processes that have it.
type jobType struct {
	Type
	outputs outputSchema
	plugin  *Plugin
	pool    *pool
}

// New reads the plugin folders. It starts nothing, except a plugin without manifest.json, which is
// asked once. It loads all plugins or none; the error then names everything that is wrong.
func New(cfg Config) (*Supervisor, error) {
	var r reach = nowhere{}
	if cfg.Reach != nil {
		r = cfg.Reach
	}
	return newSupervisor(cfg, r)
}

func newSupervisor(cfg Config, r reach) (*Supervisor, error) {
	log := cmp.Or(cfg.Log, slog.Default())
	s := &Supervisor{
		cfg: cfg, root: &folder{parent: cfg.Socket}, pools: map[string]*pool{}, types: map[string]jobType{}, leaving: map[*pool]bool{}, stop: make(chan struct{}),
		timing: timing{
			inspect: 10 * time.Second, silence: 30 * time.Second,
			idle:   cmp.Or(cfg.Idle, 2*time.Minute),
			grace:  cmp.Or(cfg.Grace, 5*time.Second),
			maxAge: cmp.Or(cfg.MaxAge, 6*time.Hour),
			start:  startTimeout,
			now:    time.Now,
		},
	}
	if cfg.UploadRate > 0 {
		r = &boundedReach{reach: r, uploads: newLimiter(cfg.UploadRate)}
	}
	s.launch = launch{root: s.root, reach: r, log: log, adapter: cfg.Adapter, sandbox: cfg.Sandbox}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.root.remove())
	}
	return s, nil
}

// load takes all plugins, or none.
func (s *Supervisor) load() error {
	builtins, err1 := loadBuiltins(s.cfg.Builtins, s.launch)
	found, sources, err2 := discover(s.cfg, s.launch)
	errs := []error{err1, err2, allow(found, s.cfg)}
	s.sources = sources
	for name, path := range s.cfg.Dev {
		path, err := filepath.Abs(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		src := newOrigin(name, path, true)
		src.seen = src.mark()
		p, tree, err := s.read(context.Background(), src)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		src.tree = tree
		s.sources, found = append(s.sources, src), append(found, p)
	}
	from := map[string]*origin{}
	for _, src := range s.sources {
		from[src.name] = src
	}
	all := append(builtins, found...)
	slices.SortStableFunc(all, func(a, b Plugin) int { return cmp.Compare(a.Name, b.Name) })
	for i, p := range all {
		if i > 0 && all[i-1].Name == p.Name {
			errs = append(errs, fmt.Errorf("%w: plugin %s is there twice: %s and %s", core.ErrInvalid, p.Name, all[i-1].Argv[0], p.Argv[0]))
			continue
		}
		errs = append(errs, s.putLocked(from[p.Name], p))
	}
	return errors.Join(errs...)
}

// replace has calls that begin from now on go to a new version of a plugin. Those that run end in
// the processes of the former one.
func (s *Supervisor) replace(src *origin, p Plugin) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.pools[p.Name]
	switch {
	case s.stopped:
		return fmt.Errorf("%w: plugin %s: the worker is stopping", core.ErrUnavailable, p.Name)
	case old != nil && old.source != src:
		return fmt.Errorf("%w: a plugin %s is there already: %s", core.ErrConflict, p.Name, old.plugin.Argv[0])
	case old != nil && reflect.DeepEqual(*old.plugin, p):
		return nil
	}
	if err := s.putLocked(src, p); err != nil {
		return err
	}
	s.launch.log.Info("plugin is taken", "plugin", p.Name, "version", p.Version, "folder", src.path)
	if old != nil {
		s.leaving[old] = true
		s.endLocked(old)
	}
	return nil
}

// putLocked makes a plugin and its job types known, in place of those of its former version.
func (s *Supervisor) putLocked(src *origin, p Plugin) error {
	pl, err := s.poolLocked(src, &p)
	if err != nil {
		return err
	}
	var errs []error
	types := map[string]jobType{}
	for _, t := range p.Manifest.Types {
		if t.Name == KeysType {
			errs = append(errs, fmt.Errorf("%w: job type %s of plugin %s %s: Turnus has a job type of this name: use another name", core.ErrInvalid, t.Name, p.Name, p.Version))
			continue
		}
		if has, ok := s.types[t.Name]; ok && has.plugin.Name != p.Name {
			other := has.plugin
			errs = append(errs, fmt.Errorf("%w: job type %s is declared by two plugins: %s %s and %s %s", core.ErrInvalid, t.Name, other.Name, other.Version, p.Name, p.Version))
			continue
		}
		outputs, err := outputsOf(t)
		errs = append(errs, err)
		types[t.Name] = jobType{t, outputs, &p, pl}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	maps.DeleteFunc(s.types, func(_ string, t jobType) bool { return t.plugin.Name == p.Name })
	maps.Copy(s.types, types)
	s.pools[p.Name] = pl
	pl.serve(&p)
	return nil
}

// poolLocked returns the pool of the processes that a built-in shares with others, or a new one.
func (s *Supervisor) poolLocked(src *origin, p *Plugin) (*pool, error) {
	for _, pl := range s.pools {
		if p.Process == "" || pl.plugin.Process != p.Process {
			continue
		}
		if !slices.Equal(pl.plugin.Argv, p.Argv) || !reflect.DeepEqual(pl.plugin.Allow, p.Allow) {
			return nil, fmt.Errorf("%w: the plugins %s and %s share processes, and differ in how these are started or what they need", core.ErrInvalid, pl.serves[0].Name, p.Name)
		}
		return pl, nil
	}
	pl := &pool{
		plugin: p, source: src, launch: s.launch, log: s.launch.log, timing: s.timing, restart: newRestart(),
		processes: max(2, runtime.GOMAXPROCS(0)), hurry: make(chan struct{}),
		suspects: map[deadly]bool{}, poison: map[deadly]time.Time{},
	}
	if p.Process != "" {
		pl.plugin = &Plugin{Name: p.Process, Version: p.Version, Argv: p.Argv, Allow: p.Allow, Process: p.Process}
	}
	if old := s.pools[p.Name]; old != nil {
		was := old.stats()
		pl.starts, pl.deaths = was.Starts, was.Deaths
	}
	return pl, nil
}

// use returns the job type as it is now; leave is owed for its pool.
func (s *Supervisor) use(ctx context.Context, name string) (jobType, error) {
	if err := s.inspect(ctx, name); err != nil {
		return jobType{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.types[name]
	if !ok {
		return t, fmt.Errorf("%w: no plugin has the job type %q", core.ErrInvalid, name)
	}
	t.pool.users++
	return t, nil
}

// inspect sees to it that the job type is known as the files on disk have it now.
func (s *Supervisor) inspect(ctx context.Context, name string) error {
	s.mu.Lock()
	t, ok := s.types[name]
	s.mu.Unlock()
	switch {
	case !ok:
		return s.seek(ctx)
	case t.pool.source == nil:
		return nil
	}
	return s.refresh(ctx, t.pool.source)
}

func (s *Supervisor) leave(p *pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.users--
	s.endLocked(p)
}

// endLocked ends the processes of a former version that nobody calls any more.
func (s *Supervisor) endLocked(p *pool) {
	if !s.leaving[p] || p.users > 0 || s.stopped {
		return
	}
	delete(s.leaving, p)
	s.wg.Go(func() {
		p.stop(context.Background())
		p.source.drop(p.plugin)
	})
}

// allow gives plugins what the operator lets them have. One that asks for more is refused, rather
// than started to fail in the middle of a run.
func allow(found []Plugin, cfg Config) error {
	var errs []error
	known := map[string]bool{}
	for name := range cfg.Dev {
		known[name] = true
	}
	for i := range found {
		known[found[i].Name] = true
		errs = append(errs, permit(&found[i], cfg))
	}
	for name, a := range cfg.Allow {
		if !known[name] {
			errs = append(errs, fmt.Errorf("%w: plugin %q may have more than others, and is in no plugin folder", core.ErrInvalid, name))
		}
		for _, path := range a.Read {
			if !filepath.IsAbs(path) {
				errs = append(errs, fmt.Errorf("%w: plugin %s may read %q; expected an absolute path", core.ErrInvalid, name, path))
			}
		}
	}
	return errors.Join(errs...)
}

// permit is allow of one plugin.
func permit(p *Plugin, cfg Config) error {
	p.Allow = cfg.Allow[p.Name]
	if cfg.Sandbox != nil && cfg.Allow != nil && p.Manifest.Network && !p.Allow.Network {
		return fmt.Errorf("%w: plugin %s %s asks for the network of this machine, which the sandbox does not give\nhint: --plugin-allow %s=network, once you trust it", core.ErrInvalid, p.Name, p.Version, p.Name)
	}
	return nil
}

// loadBuiltins completes the built-ins; one that brings no manifest is asked. A manifest that it
// brings is not validated at each start: a test of the program that has it does that.
func loadBuiltins(given []Plugin, l launch) ([]Plugin, error) {
	var out []Plugin
	var errs []error
	for _, p := range given {
		if len(p.Argv) == 0 || !filepath.IsAbs(p.Argv[0]) {
			errs = append(errs, fmt.Errorf("%w: plugin %s: program %q: expected an absolute path", core.ErrInvalid, p.Name, p.Argv))
			continue
		}
		var err error
		if len(p.Manifest.Types) == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
			p.Manifest, err = l.describe(ctx, p)
			cancel()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		p.Name, p.Version = p.Manifest.Name, p.Manifest.Version
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}

// currentLocked returns the pools of all known plugins, each once.
func (s *Supervisor) currentLocked() []*pool {
	all := map[*pool]bool{}
	for _, p := range s.pools {
		all[p] = true
	}
	return slices.Collect(maps.Keys(all))
}

// Plugins lists all known plugins, sorted by name.
func (s *Supervisor) Plugins() []Plugin {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Plugin
	for _, pl := range s.currentLocked() {
		for _, p := range pl.serves {
			all = append(all, *p)
		}
	}
	slices.SortFunc(all, func(a, b Plugin) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// PluginStats is how the processes of one plugin fare, or those that built-ins share.
type PluginStats struct {
	Plugin    string // or the name of the shared processes
	Processes int    // that are there
	Starts    int    // since New
	Deaths    int    // since New: processes that died or did not start
	Blocked   bool   // it died too often: calls are refused until its pause has ended
}

// Stats returns the stats of all processes, sorted by name. It costs little.
func (s *Supervisor) Stats() []PluginStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := core.Map(s.currentLocked(), (*pool).stats)
	slices.SortFunc(out, func(a, b PluginStats) int { return cmp.Compare(a.Plugin, b.Plugin) })
	return out
}

// Type finds a job type by name, as the files on disk have it now.
func (s *Supervisor) Type(name string) (Type, bool) {
	if name == KeysType {
		return keysType(), true
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	_ = s.inspect(ctx, name) // of a version that is broken the call reports why; what is known of it is the last good one
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.types[name]
	if ok {
		t.Plugin = t.plugin.Name + " " + t.plugin.Version
	}
	return t.Type, ok
}

// Stop refuses new calls, lets those that run end until ctx does, and ends all
// processes: DRAIN, then TERM, then KILL to the process group. It returns when the last one is
// reaped. Twice is fine.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopped {
		close(s.stop)
	}
	s.stopped = true
	all, origins := slices.AppendSeq(s.currentLocked(), maps.Keys(s.leaving)), s.sources
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { p.stop(ctx) })
	}
	wg.Wait()
	s.wg.Wait()
	for _, src := range origins { // a process that described a version has ended when its turn is free
		src.turn <- struct{}{}
		<-src.turn
	}
	return s.root.remove()
}

// nowhere is the reach of a supervisor without a transport.
type nowhere struct{}

func (nowhere) err(h core.Host) error {
	return fmt.Errorf("%w: %s: this process has no SSH transport", core.ErrUnreachable, h.Name)
}

func (n nowhere) Run(_ context.Context, h core.Host, _ transport.Exec) (transport.Exit, error) {
	return transport.Exit{}, n.err(h)
}

func (n nowhere) Put(_ context.Context, h core.Host, _ transport.Put, _ io.Reader) (transport.Written, error) {
	return transport.Written{}, n.err(h)
}

func (n nowhere) Get(_ context.Context, h core.Host, _ string, _ core.Become, _ int64, _ io.Writer) (transport.FileInfo, error) {
	return transport.FileInfo{}, n.err(h)
}

func (n nowhere) Dial(_ context.Context, h core.Host, _ string) (net.Conn, error) {
	return nil, n.err(h)
}

func (n nowhere) Probe(_ context.Context, h core.Host) error { return n.err(h) }

func (n nowhere) Ready(_ context.Context, h core.Host) error { return n.err(h) }
