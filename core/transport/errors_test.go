package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// Every way not to reach a host is an error of its own.
func TestUnreachable(t *testing.T) {
	t.Parallel() // it waits
	closed, err := net.Listen("tcp", "127.31.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := closed.Addr().(*net.TCPAddr).Port
	_ = closed.Close()
	reset := func(c net.Conn) {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	raw := func(ip string, on func(net.Conn)) core.Host {
		return startFake(t, ip, func(f *fake) { f.onConn = func(c net.Conn) bool { on(c); return false } }).host("h")
	}
	short := func(h core.Host) core.Host { h.SSH.ConnectTimeout = 2 * time.Second; return h } // to come as far as they let it
	wait := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	tests := []struct {
		name string
		host core.Host
		op   string
		says string
	}{
		{"name does not resolve", core.Host{Name: "no-such-host.invalid"}, "resolve", `name "no-such-host.invalid" does not resolve`},
		{"refused", core.Host{Name: "h", Address: "127.31.0.1", SSH: core.SSH{Port: refusing}}, "dial", "connection refused"},
		{"no route", core.Host{Name: "h", Address: "255.255.255.255"}, "dial", "no route"},
		{"silent server", short(raw("127.31.0.2", wait)), "handshake", "silent"},
		{"stuck key exchange", short(raw("127.31.0.3", func(c net.Conn) {
			_, _ = io.WriteString(c, "SSH-2.0-stuck\r\n")
			wait(c)
		})), "handshake", "key exchange not done"},
		{"wrong protocol", raw("127.31.0.4", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = c.Read(make([]byte, 100))
		}), "handshake", `wrong protocol: it sends "HTTP/1.1 400 Bad Request": `},
		{"a word, and a reset", raw("127.31.0.8", func(c net.Conn) {
			_, _ = io.WriteString(c, "go away\r\n")
			_, _ = c.Read(make([]byte, 100))
			reset(c)
		}), "handshake", `connection reset after the server sent "go away": `},
		{"over MaxStartups", raw("127.31.0.9", func(c net.Conn) {
			_, _ = io.WriteString(c, "Exceeded MaxStartups\r\n")
			_, _ = c.Read(make([]byte, 100))
			reset(c)
		}), "handshake", `turned the connection away with "Exceeded MaxStartups": `},
		{"closed without a word", raw("127.31.0.5", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 100)) // what is unread when closing would make it a reset
		}), "handshake", "without a word"},
		{"reset in the handshake", raw("127.31.0.6", func(c net.Conn) {
			_, _ = io.WriteString(c, "SSH-2.0-broken\r\n")
			_, _ = io.ReadFull(c, make([]byte, 40))
			reset(c)
		}), "handshake", "connection lost during the handshake"},
		{"no common key exchange", startFake(t, "127.31.0.7", func(f *fake) {
			f.cfg.KeyExchanges = []string{ssh.InsecureKeyExchangeDH1SHA1}
		}).host("h"), "handshake", "no common algorithm for key exchange"},
		{"bad address", core.Host{Name: "h", Address: "a b"}, "resolve", "expected a DNS name"},
	}
	p := newPool(t, nil)
	t.Cleanup(func() { // all have ended
		got := p.Stats().Results
		for result, least := range map[Result]int{DialRefused: 1, DialNoRoute: 1, DialTimeout: 2, DialName: 1, DialHandshake: 4} {
			if got[result] < least {
				t.Errorf("%d dials are counted as %s, expected at least %d: %v", got[result], result, least, got)
			}
		}
		if got[DialOK]+got[DialAuth]+got[DialHostKey]+got[DialCalledOff] > 0 {
			t.Errorf("counted %v", got)
		}
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, p, tt.host, "x")
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, expected an *Error", err)
			}
			if e.Op != tt.op || !e.Before || e.Host != tt.host.Name || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got op %q, before %v: %v\nexpected op %q and %q", e.Op, e.Before, err, tt.op, tt.says)
			}
			if !errors.Is(err, core.ErrUnreachable) && !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%v: not core.ErrUnreachable", err)
			}
			if e.Hint == "" && !errors.Is(err, core.ErrInvalid) {
				t.Error("no hint")
			}
		})
	}
}

// A host that takes one login at a time, and somebody is at it, resets the others. OpenSSH sends
// the reason before its version; a host of the fleet sends nothing. When the reset comes depends on
// the moment; what it means does not.
func TestFullHostIsNoWrongProtocol(t *testing.T) {
	t.Parallel()
	f, err := fleet.Start(t.Context(), fleet.Config{Hosts: 1, Profile: fleet.All(fleet.MaxStartups(1))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for name, h := range map[string]core.Host{
		"OpenSSH": servers.StartSSHD(t, servers.SSHDConfig("MaxStartups 1")).Host("web1"),
		"fleet":   f.Hosts()[0],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := admitted(t, h)
			_, err := run(t, newPool(t, nil), h, "true")
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, core.ErrUnreachable) || !e.Before || !strings.Contains(e.Hint, "MaxStartups") && !strings.Contains(e.Hint, "connection limit") ||
				strings.Contains(err.Error(), "wrong protocol") {
				t.Errorf("got %v, expected to hear of a limit of connections", err)
			}
			_ = first.Close()
		})
	}
}

// A host that is full for a moment is dialled again, and nobody hears of it.
func TestFullHostIsDialledAgain(t *testing.T) {
	t.Parallel()
	sshd, p := startSSHD(t, servers.SSHDConfig("MaxStartups 1"))
	h := sshd.Host("web1")
	first := admitted(t, h)
	done := make(chan error, 1)
	go func() {
		_, err := run(t, p, h, "true")
		done <- err
	}()
	eventually(t, "a dial was turned away", func() bool { return p.Stats().Results[DialHandshake] > 0 })
	_ = first.Close()
	if err := <-done; err != nil {
		t.Errorf("got %v, expected a login after the other one had left", err)
	}
}

// A dial that waited long for a place is repeated as any other. The host is outside of the bubble:
// while it is awaited, no time passes. Red with the wait counted.
func TestFullHostIsDialledAgainAfterALongWaitForAPlace(t *testing.T) {
	f := startFake(t, "127.33.0.20", func(f *fake) { f.onConn = func(net.Conn) bool { return f.count() > 1 } })
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, func(c *Config) { c.MaxDials = 1 })
		if err := p.dials.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- p.Probe(testContext(t), f.host("h")) }()
		<-time.After(2 * crowdedFor)
		p.dials.leave()
		if err := <-done; err != nil {
			t.Errorf("got %v, expected a second dial", err)
		}
	})
}

// admitted opens a connection that takes the only place of a host.
func admitted(t *testing.T, h core.Host) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort(h.Target(), strconv.Itoa(h.SSH.Port)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestResultsOfDials(t *testing.T) {
	for want, err := range map[Result]error{
		DialOK:        nil,
		DialHostKey:   &Error{Op: "host key", Err: mark(errors.New("changed"), core.ErrHostKey, core.ErrUnreachable)},
		DialAuth:      &Error{Op: "authenticate", Err: errors.New("login refused")},
		DialTimeout:   &Error{Op: "authenticate", Err: fmt.Errorf("%w: slow", core.ErrTimeout)},
		DialCalledOff: &Error{Op: "dial", Err: context.Canceled},
		DialOther:     errors.New("what"),
	} {
		if got := resultOf(err); got != want {
			t.Errorf("%v counts as %s, expected %s", err, got, want)
		}
	}
	var r results
	for range 3 {
		r.count(nil)
	}
	if got := r.counts(); got[DialOK] != 3 || len(got) != len(allResults()) || len(r) != len(allResults()) {
		t.Errorf("%v", got)
	}
}

func TestTrapConnectTimeoutCoversTheHandshake(t *testing.T) { // go#15113
	f := startFake(t, "127.31.1.1", func(f *fake) {
		f.onConn = func(c net.Conn) bool { _, _ = io.Copy(io.Discard, c); return false }
	})
	h := f.host("h")
	h.SSH.ConnectTimeout = 50 * time.Millisecond
	_, err := run(t, newPool(t, nil), h, "x")
	if !errors.Is(err, core.ErrTimeout) || !errors.Is(err, core.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, expected core.ErrTimeout, and not the caller's deadline", err)
	}
}

func TestCallersContextEndsADial(t *testing.T) {
	f := startFake(t, "127.31.1.2", func(f *fake) {
		f.onConn = func(c net.Conn) bool { _, _ = io.Copy(io.Discard, c); return false }
	})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := newPool(t, nil).Run(ctx, f.host("h"), Exec{Command: "x"})
	var e *Error
	if !errors.As(err, &e) || !e.Before || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, core.ErrUnreachable) {
		t.Errorf("got %v, expected the caller's deadline with Before", err)
	}
}

func TestServerThatEndsTheLogin(t *testing.T) {
	f := startFake(t, "127.31.1.3", func(f *fake) {
		f.cfg.NoClientAuth = false
		f.cfg.PasswordCallback = func(c ssh.ConnMetadata, _ []byte) (*ssh.Permissions, error) {
			return nil, errors.New("no")
		}
		f.cfg.MaxAuthTries = 1
	})
	_, err := run(t, newPool(t, func(c *Config) {
		offers(c).Password = func(context.Context, core.Host) (string, error) { return "hunter2", nil }
	}), f.host("h"), "x")
	var e *Error
	if !errors.As(err, &e) || e.Op != "authenticate" || !strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, expected a refused login that lists the password, without showing it", err)
	}
}

// FIPS mode rejects X25519, so the handshake must offer NIST curves there.
func TestTrapFIPSModeNeedsNISTKeyExchange(t *testing.T) { // reference ssh 9
	if os.Getenv("GODEBUG") == "fips140=on" {
		if c := algorithms(); len(c.KeyExchanges) == 0 || c.KeyExchanges[0] != ssh.KeyExchangeECDHP256 {
			t.Errorf("key exchanges %v", c.KeyExchanges)
		}
		s, p := startSSHD(t)
		if _, err := run(t, p, s.Host("web1"), "true"); err != nil {
			t.Error(err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTrapFIPSModeNeedsNISTKeyExchange$")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=on")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSessionLimit(t *testing.T) {
	f := startFake(t, "127.31.2.1", func(f *fake) { f.onSession = func(int) bool { return false } })
	_, err := run(t, newPool(t, nil), f.host("h"), "x")
	var e *Error
	if !errors.As(err, &e) || e.Op != "session" || !e.Before || !strings.Contains(e.Hint, "MaxSessions") {
		t.Errorf("got %v, expected a session limit", err)
	}
}

// No bare TCP connection is ever made: each one speaks SSH and logs in, or
// newer servers ban the worker.
func TestTrapNoBareTCPProbes(t *testing.T) { // ansible#86325
	s, p := startSSHD(t)
	h := s.Host("web1")
	for range 3 {
		if err := p.Probe(testContext(t), h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run(t, p, h, "true"); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	opened, accepted := strings.Count(s.Log(), "Connection from "), strings.Count(s.Log(), "Accepted publickey ")
	if opened != 4 || accepted != 4 {
		t.Errorf("%d connections, %d logins; expected 4 and 4\n%s", opened, accepted, s.Log())
	}
}

func TestErrorsAreTranslated(t *testing.T) {
	e := &endpoint{name: "h", addr: "h:22"}
	for err, says := range map[error]string{
		syscall.EHOSTUNREACH: "no route", syscall.ENETUNREACH: "no route",
		syscall.ECONNRESET: "reset", syscall.EMFILE: "ulimit",
	} {
		if got := dialError(e, &net.OpError{Op: "dial", Err: err}); !strings.Contains(got.Error(), says) || !errors.Is(got, err) {
			t.Errorf("%v: got %v", err, got)
		}
	}
}
