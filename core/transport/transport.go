// Package transport owns SSH: dialling through jump hosts, verifying host
// keys, authenticating, pooling connections, and running commands, moving files
// and opening tunnels over them.
//
// It must not know playbooks, queues, plugins or jobs.
package transport

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/core"
)

// Config defines how a Pool dials. The zero value of a field means its default.
type Config struct {
	User           string                               // for hosts that name none; the process's user by default
	Credential     func(core.Host) (*Credential, error) // for a login; an error keeps the host from being dialled. Nothing is offered by default
	KnownHosts     []string                             // files; ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts by default
	Inventory      string                               // the inventory as an argument, for hints: -i hosts.ini; "-i INVENTORY" when empty
	NewKnownHosts  bool                                 // a file of KnownHosts that does not exist holds no keys yet; else it is an error
	FirstContact   []netip.Prefix                       // addresses of unknown hosts whose key may be pinned, where the host asks for it; none by default
	HostCAs        []string                             // "ssh-ed25519 AAAA…": keys of the certificate authorities for host certificates, which come before all other proofs
	SSHConfig      string                               // file to import; "none" by default
	Lookup         func(name string) (core.Host, bool)  // hosts named by ProxyJump
	ConnectTimeout time.Duration                        // TCP, handshake and authentication together, each hop again; 10 s
	KeepAlive      time.Duration                        // 15 s; two misses close
	Idle           time.Duration                        // a connection unused for so long is closed; 90 s
	MaxDials       int                                  // dials in flight; 256
	MaxConns       int                                  // TCP connections at the same time; three quarters of the file descriptor limit
	MaxSessions    int                                  // sessions on one connection; 8
	Log            *slog.Logger
	_              struct{}
}

func (c Config) withDefaults() (Config, error) {
	if c.User == "" {
		u, err := user.Current()
		if err != nil {
			return c, fmt.Errorf("default SSH user: %w", err)
		}
		c.User = u.Username
	}
	if c.Credential == nil {
		c.Credential = Always(&Credential{})
	}
	c.SSHConfig = cmp.Or(c.SSHConfig, "none")
	if c.Lookup == nil {
		c.Lookup = func(string) (core.Host, bool) { return core.Host{}, false }
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 10*time.Second)
	c.KeepAlive = cmp.Or(c.KeepAlive, 15*time.Second)
	c.Idle = cmp.Or(c.Idle, 90*time.Second)
	c.MaxDials = cmp.Or(c.MaxDials, 256)
	c.MaxConns = cmp.Or(c.MaxConns, socketsOf(Descriptors()))
	c.MaxSessions = cmp.Or(c.MaxSessions, 8)
	for what, d := range map[string]time.Duration{"ConnectTimeout": c.ConnectTimeout, "KeepAlive": c.KeepAlive, "Idle": c.Idle} {
		if d < 0 {
			return c, fmt.Errorf("%w: %s is %v, expected a positive duration", core.ErrInvalid, what, d)
		}
	}
	if c.MaxDials < 1 || c.MaxConns < 1 || c.MaxSessions < 1 {
		return c, fmt.Errorf("%w: MaxDials %d, MaxConns %d, MaxSessions %d: expected at least 1", core.ErrInvalid, c.MaxDials, c.MaxConns, c.MaxSessions)
	}
	return c, nil
}

// homeFile is a file in the process's ~/.ssh.
func homeFile(name string) string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".ssh", name)
}

// Pool keeps connections to hosts. Safe for concurrent use.
type Pool struct {
	cfg     Config
	trust   *trust
	ssh     *sshConfig
	dials   limiter   // dials in flight
	cpu     limiter   // handshakes that compute at this moment
	bufs    sync.Pool // of *[]byte, for standard output
	errBufs sync.Pool // for standard error

	ctx    context.Context //nolint:containedctx // ends when the pool closes; a pool is itself a lifetime, so it may hold one
	cancel context.CancelCauseFunc

	dialled, reused, failed atomic.Int64
	results                 results

	mu             sync.Mutex // guards what follows; never held over I/O
	closed         bool
	entries        map[string]*entry
	live           map[*conn]struct{} // every connection that stands, pooled or not
	serverLimiters map[string]*serverLimiter
	sockets        sockets
	wg             sync.WaitGroup
}

// New makes a pool. It reads known hosts immediately, and dials nothing.
func New(cfg Config) (*Pool, error) {
	sc, err := loadSSHConfig(cfg.SSHConfig)
	if err != nil {
		return nil, err
	}
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	tr, err := newTrust(cfg)
	if err != nil {
		return nil, err
	}
	p := &Pool{
		cfg: cfg, trust: tr, ssh: sc,
		dials: newLimiter(cfg.MaxDials), cpu: newLimiter(2 * runtime.GOMAXPROCS(0)),
		entries: map[string]*entry{}, live: map[*conn]struct{}{}, serverLimiters: map[string]*serverLimiter{}, sockets: newSockets(cfg.MaxConns),
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p, nil
}

// Probe proves that a new, authenticated connection works, past the pool. It
// logs in and opens a session: servers ban sources that connect and send nothing.
func (p *Pool) Probe(ctx context.Context, h core.Host) error {
	r, err := p.resolve(h)
	if err != nil {
		return err
	}
	s, err := p.session(ctx, r, true)
	if err != nil {
		return err
	}
	s.end()
	return nil
}

// Ready returns when a pooled connection to the host stands, so that what is asked of it next need
// not dial.
func (p *Pool) Ready(ctx context.Context, h core.Host) error {
	r, err := p.resolve(h)
	if err != nil {
		return err
	}
	c, _, err := p.acquire(ctx, r, sessionUse)
	if err != nil {
		return err
	}
	p.release(c, sessionUse)
	return nil
}

// Login returns the user as which the pool logs in to the host; "" if the host cannot be resolved.
func (p *Pool) Login(h core.Host) string {
	e, err := p.endpoint(h)
	if err != nil {
		return ""
	}
	return e.user
}

// Drop closes the host's pooled connections, as before a reboot. Commands and transfers over them
// end with an error.
func (p *Pool) Drop(h core.Host) {
	var drop []*conn
	for _, verified := range []bool{false, true} { // calls with secrets have connections of their own
		h.SSH.Verified = verified
		r, err := p.resolve(h)
		if err != nil {
			return
		}
		p.mu.Lock()
		if en := p.entries[r.key()]; en != nil {
			drop = append(drop, en.conns...)
		}
		p.mu.Unlock()
	}
	for _, c := range drop {
		p.discard(c)
		c.kill(errDropped)
		<-c.dead
	}
}

// Stats counts.
type Stats struct {
	Open   int // connections that stand now, those to jump hosts included
	Dials  int // connections that were tried
	Reused int // times that a connection served again
	Failed int // dials that failed

	Results map[Result]int // of the dials that have ended; none is missing
}

// Stats returns counts since New.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Open: len(p.live), Dials: int(p.dialled.Load()), Reused: int(p.reused.Load()), Failed: int(p.failed.Load()), Results: p.results.counts()}
}

// Close ends every connection and joins every goroutine of the pool. Calls in
// flight return errors. Safe to call twice.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	open := slices.Collect(maps.Keys(p.live))
	p.mu.Unlock()
	p.cancel(errPoolClosed)
	for _, c := range open {
		c.kill(errPoolClosed)
	}
	p.wg.Wait()
	return nil
}

// spawn runs f in a goroutine that Close joins. It reports false, and runs
// nothing, when the pool is closed.
func (p *Pool) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spawnLocked(f)
}

func (p *Pool) spawnLocked(f func()) bool {
	if p.closed {
		return false
	}
	p.wg.Go(f)
	return true
}
