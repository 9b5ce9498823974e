package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
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
	plugins []Plugin
	pools   map[string]*pool // by plugin name
	types   map[string]Type
	outputs map[string]outputSchema // by job type
	owner   map[string]*pool        // by job type
	timing  timing
	root    *folder
}

// New reads the plugin folders. It starts nothing, but for a plugin without manifest.json, which is
// asked once. It loads all plugins or none; the error then names everything that is wrong.
func New(cfg Config) (*Supervisor, error) {
	var r reach = nowhere{}
	if cfg.Reach != nil {
		r = cfg.Reach
	}
	return newSupervisor(cfg, r)
}

func newSupervisor(cfg Config, r reach) (*Supervisor, error) {
	log := cfg.Log
	if log == nil {
		log = slog.Default()
	}
	s := &Supervisor{
		root: &folder{parent: cfg.Socket}, pools: map[string]*pool{}, types: map[string]Type{}, outputs: map[string]outputSchema{}, owner: map[string]*pool{},
		timing: timing{
			look: 10 * time.Second, silence: 30 * time.Second,
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
	l := launch{root: s.root, reach: r, log: log, adapter: cfg.Adapter, sandbox: cfg.Sandbox}
	if err := s.load(cfg, l); err != nil {
		return nil, errors.Join(err, s.root.remove())
	}
	return s, nil
}

// load takes all plugins, or none.
func (s *Supervisor) load(cfg Config, l launch) error {
	builtins, err1 := loadBuiltins(cfg.Builtins, l)
	found, err2 := discover(cfg.Dirs, l)
	errs := []error{err1, err2, allow(found, cfg)}
	s.plugins = append(builtins, found...)
	slices.SortStableFunc(s.plugins, func(a, b Plugin) int { return cmp.Compare(a.Name, b.Name) })
	from := map[string]*Plugin{}
	for i := range s.plugins {
		p := &s.plugins[i]
		if i > 0 && s.plugins[i-1].Name == p.Name {
			errs = append(errs, fmt.Errorf("%w: plugin %s is there twice: %s and %s", core.ErrInvalid, p.Name, s.plugins[i-1].Argv[0], p.Argv[0]))
			continue
		}
		pl := &pool{
			plugin: p, launch: l, log: l.log, timing: s.timing, restart: newRestart(),
			processes: max(2, runtime.GOMAXPROCS(0)), hurry: make(chan struct{}),
			suspects: map[deadly]bool{}, poison: map[deadly]time.Time{},
		}
		s.pools[p.Name] = pl
		for _, t := range p.Manifest.Types {
			if other := from[t.Name]; other != nil {
				errs = append(errs, fmt.Errorf("%w: job type %s is declared by two plugins: %s %s and %s %s", core.ErrInvalid, t.Name, other.Name, other.Version, p.Name, p.Version))
				continue
			}
			from[t.Name], s.types[t.Name], s.owner[t.Name] = p, t, pl
			var err error
			s.outputs[t.Name], err = outputsOf(t)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// allow gives plugins what the operator lets them have. One that asks for more is refused, rather than started to
// fail in the middle of a run.
func allow(found []Plugin, cfg Config) error {
	var errs []error
	known := map[string]bool{}
	for i := range found {
		p := &found[i]
		known[p.Name] = true
		p.Allow = cfg.Allow[p.Name]
		if cfg.Sandbox != nil && cfg.Allow != nil && p.Manifest.Network && !p.Allow.Network {
			errs = append(errs, fmt.Errorf("%w: plugin %s %s asks for the network of this machine, which the sandbox does not give\nhint: --plugin-allow %s=network, once you trust it", core.ErrInvalid, p.Name, p.Version, p.Name))
		}
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

// loadBuiltins checks the built-ins; one that brings no manifest is asked.
func loadBuiltins(given []Plugin, l launch) ([]Plugin, error) {
	var out []Plugin
	var errs []error
	for _, p := range given {
		if len(p.Argv) == 0 || !filepath.IsAbs(p.Argv[0]) {
			errs = append(errs, fmt.Errorf("%w: plugin %s: program %q: expected an absolute path", core.ErrInvalid, p.Name, p.Argv))
			continue
		}
		err := p.Manifest.Validate()
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

// Plugins lists all known plugins, sorted by name.
func (s *Supervisor) Plugins() []Plugin { return slices.Clone(s.plugins) }

// PluginStats is how the processes of one plugin fare.
type PluginStats struct {
	Plugin    string
	Processes int  // that are there
	Starts    int  // since New
	Deaths    int  // since New: processes that died or did not start
	HeldBack  bool // it died too often: calls are refused for now
}

// Stats tells it of every plugin, sorted by name. It costs little.
func (s *Supervisor) Stats() []PluginStats {
	out := make([]PluginStats, 0, len(s.plugins))
	for i := range s.plugins {
		out = append(out, s.pools[s.plugins[i].Name].stats())
	}
	return out
}

// Type finds a job type by name.
func (s *Supervisor) Type(name string) (Type, bool) {
	t, ok := s.types[name]
	return t, ok
}

// Stop refuses new calls, lets those that run end until ctx does, and ends all
// processes: DRAIN, then TERM, then KILL to the process group. It returns when the last one is
// reaped. Twice is fine.
func (s *Supervisor) Stop(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, p := range s.pools {
		wg.Go(func() { p.stop(ctx) })
	}
	wg.Wait()
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

func (n nowhere) Get(_ context.Context, h core.Host, _ string, _ int64, _ io.Writer) (transport.FileInfo, error) {
	return transport.FileInfo{}, n.err(h)
}

func (n nowhere) Dial(_ context.Context, h core.Host, _ string) (net.Conn, error) {
	return nil, n.err(h)
}

func (n nowhere) Probe(_ context.Context, h core.Host) error { return n.err(h) }

func (n nowhere) Ready(_ context.Context, h core.Host) error { return n.err(h) }
