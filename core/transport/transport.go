// Package transport owns SSH: dialling through jump hosts, verifying host
// keys, authenticating, pooling connections, and running commands, moving files
// and opening tunnels over them.
//
// It must not know playbooks, queues, plugins or jobs.
package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/turnus/turnus/core"
)

// Config says how a Pool dials. The zero value of a field means its default.
type Config struct {
	User           string                              // for hosts that name none; the process's user by default
	IdentityFiles  []string                            // tried for every host; ~/.ssh/id_* by default
	Agent          string                              // socket of an ssh-agent; "none" for no agent; SSH_AUTH_SOCK by default
	Passphrase     func(file string) ([]byte, error)   // for encrypted key files
	Password       func(h core.Host) (string, error)   // "" means none; called when the host's own SSH fields name none
	KnownHosts     []string                            // files; ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts by default
	HostCAs        []string                            // "ssh-ed25519 AAAA…": authorities for host certificates, first of all proofs
	SSHConfig      string                              // file to import; "none" by default
	Lookup         func(name string) (core.Host, bool) // hosts named by ProxyJump
	ConnectTimeout time.Duration                       // TCP, handshake and authentication together; 10 s
	KeepAlive      time.Duration                       // 15 s; two misses close
	Idle           time.Duration                       // a connection unused for so long is closed; 90 s
	MaxDials       int                                 // dials in flight; 256
	MaxSessions    int                                 // sessions on one connection; 8
	Log            *slog.Logger
	_              struct{}
}

// Pool keeps connections to hosts. Safe for concurrent use.
type Pool struct{ cfg Config }

// New makes a pool. It reads key files and known hosts at once, and dials nothing.
func New(cfg Config) (*Pool, error) { return &Pool{cfg: cfg}, errSkeleton }

// Exec is one command.
type Exec struct {
	Command string            // given to /bin/sh -c on the host
	Env     map[string]string // exported before the command
	Stdin   io.Reader         // nil: empty
	Stdout  io.Writer         // nil: discarded. Written by one goroutine at a time
	Stderr  io.Writer
	Fresh   bool // over a new connection, which is closed afterwards
}

// Exit is how a command ended.
type Exit struct {
	Code   int
	Signal string // without SIG, when a signal ended it; Code is then 128+n where known
}

// Run runs a command to its end. The error is nil whatever the exit code is. When ctx
// ends, the remote process group gets TERM, then KILL, and Run returns soon.
func (p *Pool) Run(ctx context.Context, h core.Host, e Exec) (Exit, error) {
	return Exit{}, errSkeleton
}

// Put says where and how to write a file.
type Put struct {
	Path   string // absolute
	Mode   uint32 // permission bits; 0 means 0644
	Owner  string // user[:group]; "" leaves it
	Size   int64  // -1: unknown
	SHA256 string // hex; "" takes what was read
	Backup string // suffix of a copy of the old file; "" keeps none
}

// Written is what Put wrote.
type Written struct {
	Size   int64
	SHA256 string
}

// Put writes a file: to PATH.part, verified by its hash on the host, then renamed.
func (p *Pool) Put(ctx context.Context, h core.Host, put Put, data io.Reader) (Written, error) {
	return Written{}, errSkeleton
}

// FileInfo describes what Get read.
type FileInfo struct {
	Size   int64
	Mode   uint32
	SHA256 string
}

// Get reads a file of at most maxSize bytes (0: any) into w.
func (p *Pool) Get(ctx context.Context, h core.Host, path string, maxSize int64, w io.Writer) (FileInfo, error) {
	return FileInfo{}, errSkeleton
}

// Dial opens a TCP connection from the host to address.
func (p *Pool) Dial(ctx context.Context, h core.Host, address string) (net.Conn, error) {
	return nil, errSkeleton
}

// Probe proves that a new, authenticated connection works, past the pool.
func (p *Pool) Probe(ctx context.Context, h core.Host) error { return errSkeleton }

// Drop closes the host's pooled connections, as before a reboot.
func (p *Pool) Drop(h core.Host) {}

// Stats counts.
type Stats struct {
	Open, Dials, Reused, Failed int
}

// Stats returns counts since New.
func (p *Pool) Stats() Stats { return Stats{} }

// Close ends every connection and joins every goroutine of the pool.
func (p *Pool) Close() error { return nil }

var errSkeleton = errors.New("skeleton")

// Error is what went wrong between the worker and a host. It wraps
// core.ErrUnreachable (name, route, port, authentication, lost connection), and
// core.ErrHostKey too when the key was refused.
type Error struct {
	Host   string
	Addr   string // host:port as dialled
	Op     string // resolve, dial, handshake, host key, authenticate, session, exec, put, get
	Hint   string // what to do next; may be empty
	Before bool   // nothing had been sent to the host yet: the command cannot have run
	Err    error
}

func (e *Error) Error() string {
	s := e.Host + " (" + e.Addr + "): " + e.Op + ": " + e.Err.Error()
	if e.Hint != "" {
		s += "\nhint: " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }
