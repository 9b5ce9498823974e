package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// Error is a failure between the worker and a host. It wraps core.ErrUnreachable (name, route,
// port, authentication, lost connection). If the key was refused, it also wraps core.ErrHostKey. If
// the connection was lost after a command was sent, it also wraps core.ErrUnknown. When the
// caller's context ended, it wraps the context's error and not core.ErrUnreachable.
type Error struct {
	Host   string
	Addr   string // host:port as dialled
	Op     string // resolve, dial, handshake, host key, authenticate, session, exec, put, get
	Hint   string // what to do next; may be empty
	Before bool   // nothing had been sent to the host yet: the command cannot have run
	Err    error
}

func (e *Error) Error() string {
	s := e.Host
	if name, _, err := net.SplitHostPort(e.Addr); err == nil && name == e.Host {
		s = e.Addr // the name once is enough
	} else if e.Addr != "" {
		s += " (" + e.Addr + ")"
	}
	s += ": " + e.Op + ": " + e.Err.Error()
	if e.Hint != "" {
		s += "\nhint: " + e.Hint
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

var (
	errDropped    = errors.New("connection dropped on request")
	errIdle       = errors.New("connection closed after idling")
	errNoAnswer   = errors.New("host answers no more")
	errCrowded    = errors.New("server takes no more logins at the same time")
	errPoolClosed = fmt.Errorf("%w: connection pool is closed", core.ErrUnavailable)
)

// marked gives an error further identities for errors.Is without changing its text.
type marked struct {
	error
	marks []error
}

func (m *marked) Unwrap() []error { return append([]error{m.error}, m.marks...) }

func mark(err error, marks ...error) error { return &marked{err, marks} }

func (e *endpoint) fail(op, hint string, before bool, err error) *Error {
	return &Error{Host: e.name, Addr: e.addr, Op: op, Hint: hint, Before: before, Err: err}
}

// unreachable is a failure to reach e before anything was sent.
func (e *endpoint) unreachable(op, hint string, err error) *Error {
	return e.fail(op, hint, true, mark(err, core.ErrUnreachable))
}

// ended is the caller's context ending during op.
func (e *endpoint) ended(ctx context.Context, op string, before bool) *Error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = mark(cause, err)
	}
	return e.fail(op, "", before, err)
}

// dialError explains why no TCP connection came about.
func dialError(e *endpoint, err error) *Error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		hint := "correct the name, or set address: of the host in the inventory"
		if dns.IsTimeout || dns.IsTemporary {
			hint = "the name server did not answer: check the worker's resolver, or set address: of the host in the inventory"
		}
		return e.unreachable("resolve", hint, &dnsError{dns})
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return e.unreachable("dial", "nothing listens there: start sshd on the host, or set port: in the inventory", mark(errors.New("connection refused"), err))
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EADDRNOTAVAIL):
		return e.unreachable("dial", "check the worker's routes and firewalls, or set proxy_jump: in the inventory", fmt.Errorf("no route: %w", err))
	case errors.Is(err, syscall.ECONNRESET):
		return e.unreachable("dial", "a firewall or a connection limit on the way refuses this worker; compare on the worker: ssh -v HOST", fmt.Errorf("connection reset: %w", err))
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return e.unreachable("dial", "raise the worker's limit of open files: ulimit -n, or LimitNOFILE= of the unit", err)
	}
	return e.unreachable("dial", "", err)
}

// dnsError has the content of a DNSError, with the name once.
type dnsError struct{ *net.DNSError }

func (e *dnsError) Error() string {
	s := fmt.Sprintf("name %q does not resolve: %s", e.Name, e.Err)
	if e.Server != "" {
		s += " (asked " + e.Server + ")"
	}
	return s
}

func (e *dnsError) Unwrap() error { return e.DNSError }

// timeoutError explains what had not happened when the connect timeout ran out.
func timeoutError(e *endpoint, stage stage, limit time.Duration) *Error {
	switch stage {
	case stageDial:
		return e.unreachable("dial", "no answer at all: is the host up, and does a firewall drop packets? Compare on the worker: ssh -v HOST",
			fmt.Errorf("%w: no TCP connection after %v", core.ErrTimeout, limit))
	case stageSilent:
		return e.unreachable("handshake", "sshd is overloaded, or another service listens there: set port: in the inventory",
			fmt.Errorf("%w: server was silent for %v after accepting the connection", core.ErrTimeout, limit))
	case stageHandshake:
		return e.unreachable("handshake", "the host or the network is very slow; raise connect_timeout: in the inventory",
			fmt.Errorf("%w: key exchange not done after %v", core.ErrTimeout, limit))
	}
	return e.unreachable("authenticate", "a slow login (DNS, PAM, LDAP) on the host; raise connect_timeout: in the inventory",
		fmt.Errorf("%w: not logged in after %v", core.ErrTimeout, limit))
}

// foreign explains a server that sent something other than the version of SSH 2.
func foreign(e *endpoint, said string, err error) *Error {
	switch {
	case strings.HasPrefix(said, "Exceeded MaxStartups"):
		return e.unreachable("handshake", "sshd takes no more logins at the same time: raise MaxStartups in its sshd_config, or lower the concurrency of the run (-f)",
			mark(fmt.Errorf("server turned the connection away with %q: %w", said, err), errCrowded))
	case strings.HasPrefix(said, "Not allowed at this time"):
		return e.unreachable("handshake", "sshd takes no login from this worker for a while (PerSourcePenalties); see its log: journalctl -u ssh",
			fmt.Errorf("server turned the connection away with %q: %w", said, err))
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return e.unreachable("handshake", "a firewall or proxy on the way cuts connections, or another service answers there: set port: in the inventory",
			fmt.Errorf("connection reset after the server sent %q: %w", said, err))
	}
	return e.unreachable("handshake", "another service answers there: set port: in the inventory", fmt.Errorf("wrong protocol: it sends %q: %w", said, err))
}

// handshakeError explains why the SSH handshake failed.
func handshakeError(e *endpoint, h *handshakeConn, tries *authState, err error) *Error {
	stage := stage(h.stage.Load())
	if own, ok := errors.AsType[*Error](err); ok { // the host key check speaks for itself
		return own
	}
	if algo, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		return e.unreachable("handshake",
			fmt.Sprintf("the host offers only %s; update its SSH server, or its sshd_config; compare: ssh -v HOST", strings.Join(algo.RequestedAlgorithms, ", ")), err)
	}
	broken := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed)
	switch {
	case stage == stageAuth:
		return tries.refused(e, broken, err)
	case stage == stageHandshake && !h.spoke.Load(), strings.Contains(err.Error(), "version string"), strings.Contains(err.Error(), "overflow reading version"):
		return foreign(e, h.said(), err)
	case broken && stage == stageSilent:
		return e.unreachable("handshake", "sshd drops connections over MaxStartups or from banned sources; see its log: journalctl -u ssh",
			mark(fmt.Errorf("server closed the connection without a word: %w", err), errCrowded))
	case broken:
		return e.unreachable("handshake", "a firewall, a connection limit or a crash of sshd cut the handshake; see the host's log: journalctl -u ssh",
			fmt.Errorf("connection lost during the handshake: %w", err))
	}
	return e.unreachable("handshake", "", err)
}
