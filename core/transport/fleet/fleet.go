// Package fleet owns simulated hosts: a real SSH server on loopback that is thousands of hosts at
// the same time, each with its own address, key, name, files and faults. It serves the demo,
// benchmarks and tests; nothing that manages real hosts imports it.
//
// It must not know the SSH pool, queues, plugins or playbooks. It is never
// reachable from another machine: see listen.
package fleet

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// MaxHosts is the most hosts that one fleet can be.
const MaxHosts = 250_000

// User is the login of a simulated host.
const User = "turnus"

// Config describes a fleet.
type Config struct {
	Hosts   int                 // 1 to MaxHosts
	Seed    uint64              // decides host keys, customers, sites and boot ids; the same seed is the same fleet
	Name    func(n int) string  // name of host n, counted from 0; nil: by role, number and customer
	Profile func(n int) Profile // faults of host n; nil: none has any
	Handle  Handler             // asked before the built-in commands; may be nil
	KeyDir  string              // folder for the client key, only this user's; "": a temporary one

	perHost bool // one listener for each host, as where a device cannot be bound; for tests
}

// Handler lets a test answer a command. It returns the exit code, and false to let the built-in
// interpreter answer. It must return soon after ctx ends.
type Handler func(ctx context.Context, c Command) (code int, ok bool)

// Stats counts what a fleet saw since it started. Open is a level, the rest only grow.
type Stats struct {
	Open       int64 // authenticated connections now
	Accepted   int64 // TCP connections
	Refused    int64 // came from or to something that is no loopback address of a host
	Dropped    int64 // closed before the handshake: MaxStartups, ban, host is down
	Handshakes int64 // completed and authenticated
	AuthFailed int64 // handshakes that ended without authentication
	Sessions   int64
	Commands   int64
}

type counters struct {
	open, accepted, refused, dropped, handshakes, authFailed, sessions, commands atomic.Int64
}

// Fleet is a running set of simulated hosts. Safe for concurrent use.
type Fleet struct {
	cfg      Config
	hosts    []*host
	byName   map[string]*host
	list     []core.Host
	keyDir   string
	signer   ssh.Signer
	clientPK string // wire form of the one key that may log in
	stats    counters
	scripts  scripts

	ctx       context.Context //nolint:containedctx // the life of the fleet, not of a call
	cancel    context.CancelFunc
	wg        sync.WaitGroup
	listeners []net.Listener
	closeOnce sync.Once
	unhook    func() bool

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]*host
}

// Start begins to listen and returns immediately. The fleet ends with ctx or Close, whichever comes
// first; Close must be called in any case.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	if cfg.Hosts < 1 || cfg.Hosts > MaxHosts {
		return nil, fmt.Errorf("fleet of %d hosts: %w: between 1 and %d are possible", cfg.Hosts, core.ErrInvalid, MaxHosts)
	}
	f := &Fleet{cfg: cfg, byName: make(map[string]*host, cfg.Hosts), conns: make(map[net.Conn]*host)}
	f.ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := f.makeClientKey(); err != nil {
		f.cancel()
		return nil, err
	}
	ports, err := f.listen(ctx)
	if err != nil {
		f.cancel()
		return nil, errors.Join(err, f.removeKey())
	}
	f.makeHosts(ports)
	for n, l := range f.listeners {
		fixed := -1
		if len(f.listeners) > 1 || cfg.perHost {
			fixed = n
		}
		f.wg.Go(func() { f.accept(l, fixed) })
	}
	f.unhook = context.AfterFunc(ctx, func() { _ = f.Close() })
	return f, nil
}

// makeClientKey makes the key that every host lets in, and writes it where only
// this user can read it.
func (f *Fleet) makeClientKey() error {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make the fleet's client key: %w", err)
	}
	if f.signer, err = ssh.NewSignerFromKey(priv); err != nil {
		return fmt.Errorf("make the fleet's client key: %w", err)
	}
	f.clientPK = string(f.signer.PublicKey().Marshal())
	block, err := ssh.MarshalPrivateKey(priv, "turnus simulated fleet")
	if err != nil {
		return fmt.Errorf("encode the fleet's client key: %w", err)
	}
	if f.keyDir = f.cfg.KeyDir; f.keyDir == "" {
		if f.keyDir, err = os.MkdirTemp("", "turnus-fleet-"); err != nil {
			return fmt.Errorf("write the fleet's client key: %w", err)
		}
	}
	if err := os.WriteFile(f.IdentityFile(), pem.EncodeToMemory(block), 0o600); err != nil {
		return errors.Join(fmt.Errorf("write the fleet's client key: %w", err), f.removeKey())
	}
	return nil
}

func (f *Fleet) removeKey() error {
	if f.cfg.KeyDir == "" {
		return os.RemoveAll(f.keyDir)
	}
	return os.RemoveAll(f.IdentityFile())
}

// IdentityFile is the private key that logs in everywhere; readable by this user
// only, and removed by Close.
func (f *Fleet) IdentityFile() string { return filepath.Join(f.keyDir, "id_ed25519") }

// Signer is the same key for clients that need no file.
func (f *Fleet) Signer() ssh.Signer { return f.signer }

// Hosts describes the hosts as an inventory would, in the order of their numbers.
// Callers must not change what the entries point to.
func (f *Fleet) Hosts() []core.Host { return append([]core.Host(nil), f.list...) }

// Profile returns the faults of a host by name, so that a demo can show what was planned.
func (f *Fleet) Profile(name string) (Profile, bool) {
	h, ok := f.byName[name]
	if !ok {
		return Profile{}, false
	}
	return *h.profile.Load(), true
}

// SetProfile changes the faults of a host for what begins from now on. Connections of a host that
// goes silent or shows another key end.
func (f *Fleet) SetProfile(name string, p Profile) error {
	h, ok := f.byName[name]
	if !ok {
		return fmt.Errorf("fleet host %q: %w", name, core.ErrNotFound)
	}
	h.profile.Store(&p)
	if p.Silent || p.ChangedKey {
		f.dropConns(h)
	}
	return nil
}

// Reboot drops a host's connections and brings it back with a new boot id after
// its profile's BootTime.
func (f *Fleet) Reboot(name string) error {
	h, ok := f.byName[name]
	if !ok {
		return fmt.Errorf("fleet host %q: %w", name, core.ErrNotFound)
	}
	h.reboot(0) // nobody's
	return nil
}

// Stats returns counts since Start.
func (f *Fleet) Stats() Stats {
	s := &f.stats
	return Stats{
		Open: s.open.Load(), Accepted: s.accepted.Load(), Refused: s.refused.Load(), Dropped: s.dropped.Load(),
		Handshakes: s.handshakes.Load(), AuthFailed: s.authFailed.Load(), Sessions: s.sessions.Load(), Commands: s.commands.Load(),
	}
}

// Close ends every connection and command, joins every goroutine and removes the client key. It may
// be called more than once, by several at the same time.
func (f *Fleet) Close() error {
	var err error
	f.closeOnce.Do(func() {
		if f.unhook != nil {
			f.unhook()
		}
		f.cancel()
		for _, l := range f.listeners {
			_ = l.Close() // it only fails when it is closed already
		}
		f.mu.Lock()
		f.closed = true
		for c := range f.conns {
			_ = c.Close() // unblocks the reader that owns it
		}
		f.mu.Unlock()
		f.wg.Wait()
		err = f.removeKey()
	})
	return err
}

// track registers a connection for Close and for reboots. It reports false when
// the fleet is closing.
func (f *Fleet) track(c net.Conn, h *host) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.conns[c] = h
	return true
}

func (f *Fleet) untrack(c net.Conn) {
	f.mu.Lock()
	delete(f.conns, c)
	f.mu.Unlock()
}

// dropConns closes every connection of one host.
func (f *Fleet) dropConns(h *host) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c, owner := range f.conns {
		if owner == h {
			_ = c.Close() // unblocks the reader that owns it
		}
	}
}

// wait sleeps, and reports false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	return core.Sleep(ctx, d) == nil
}
