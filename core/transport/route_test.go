package transport

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// lookup answers for a handful of hosts.
func lookup(hosts ...core.Host) func(string) (core.Host, bool) {
	return func(name string) (core.Host, bool) {
		for _, h := range hosts {
			if h.Name == name {
				return h, true
			}
		}
		return core.Host{}, false
	}
}

func via(h core.Host, jumps ...string) core.Host {
	h.SSH.ProxyJump = jumps
	return h
}

func TestRoutes(t *testing.T) {
	a := core.Host{Name: "a", Address: "10.0.0.1"}
	b := via(core.Host{Name: "b", Address: "10.0.0.2", SSH: core.SSH{User: "bob"}}, "a")
	c := via(core.Host{Name: "c", Address: "10.0.0.3"}, "d")
	d := via(core.Host{Name: "d", Address: "10.0.0.4"}, "c")
	self := via(core.Host{Name: "self"}, "self")
	p := newPool(t, func(cfg *Config) { cfg.Lookup, cfg.User = lookup(a, b, c, d, self), "me" })
	chain := make([]string, maxHops)
	for i := range chain {
		chain[i] = fmt.Sprintf("hop%d", i)
	}
	tests := []struct {
		name string
		host core.Host
		want string // user@addr of each hop, or the error
	}{
		{"direct", core.Host{Name: "h"}, "me@h:22"},
		{"none", via(core.Host{Name: "h"}, "none"), "me@h:22"},
		{"one", via(core.Host{Name: "h"}, "a"), "me@10.0.0.1:22 me@h:22"},
		{"a jump host's own jump host", via(core.Host{Name: "h"}, "b"), "me@10.0.0.1:22 bob@10.0.0.2:22 me@h:22"},
		{"two, outermost first; the second's own is not asked", via(core.Host{Name: "h"}, "a", "b"), "me@10.0.0.1:22 bob@10.0.0.2:22 me@h:22"},
		{"user and port", via(core.Host{Name: "h"}, "root@gw.example:2222"), "root@gw.example:2222 me@h:22"},
		{"user for a known host", via(core.Host{Name: "h"}, "eve@b"), "me@10.0.0.1:22 eve@10.0.0.2:22 me@h:22"},
		{"IPv6", via(core.Host{Name: "h"}, "[fd00::1]:2222", "fd00::2"), "me@[fd00::1]:2222 me@[fd00::2]:22 me@h:22"},
		{"circle", via(core.Host{Name: "h"}, "c"), "circle: c → d → c"},
		{"itself", self, "circle: self → self"},
		{"twice", via(core.Host{Name: "h"}, "a", "a"), "circle: a → a"},
		{"too long", via(core.Host{Name: "h"}, chain...), "longer than 8"},
		{"bad port", via(core.Host{Name: "h"}, "x:99999"), "expected a number from 1 to 65535"},
		{"bad name", via(core.Host{Name: "h"}, "a b"), "expected a host of the inventory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := p.resolve(tt.host)
			if err != nil {
				if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, expected %q", err, tt.want)
				}
				return
			}
			var got []string
			for _, e := range r {
				got = append(got, e.user+"@"+e.addr)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, expected %q", got, tt.want)
			}
		})
	}
}

func TestTrapJumpCircleIsAnErrorNotADeadlock(t *testing.T) { // reference ssh 7
	a := via(core.Host{Name: "a", Address: "127.35.0.1"}, "b")
	b := via(core.Host{Name: "b", Address: "127.35.0.2"}, "a")
	p := newPool(t, func(c *Config) { c.Lookup = lookup(a, b) })
	var wg sync.WaitGroup
	for _, h := range []core.Host{a, b, a, b} {
		wg.Go(func() {
			if _, err := run(t, p, h, "x"); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "circle") {
				t.Errorf("%s: %v", h.Name, err)
			}
		})
	}
	wg.Wait()
}

// A chain of two real jump hosts, shared by several hosts behind them.
func TestJumpHostsAgainstOpenSSH(t *testing.T) {
	key, public := servers.NewSSHKey(t)
	start := func() *servers.SSHD { return servers.StartSSHD(t, servers.Authorize(public)) }
	outer, inner := start().Host("outer"), via(start().Host("inner"), "outer")
	targets := servers.StartSSHD(t, servers.Authorize(public), servers.SSHDAddresses(6))
	p := newPool(t, func(c *Config) { offers(c).Identities, c.Lookup = []string{key}, lookup(outer, inner) })
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			h := via(targets.HostAt(i, fmt.Sprintf("t%d", i)), "inner")
			out, err := run(t, p, h, "set -- $SSH_CONNECTION; echo $3")
			if err != nil || out != h.Address {
				t.Errorf("%s: got %q, %v; expected %q", h.Name, out, err, h.Address)
			}
		})
	}
	wg.Wait()
	if st := p.Stats(); st.Dials != 8 || st.Open != 8 {
		t.Errorf("%+v: expected 6 hosts and each jump host once", st)
	}
	if err := p.Probe(testContext(t), via(targets.HostAt(0, "t0"), "inner")); err != nil {
		t.Error(err)
	}
}

func TestJumpHostFailures(t *testing.T) {
	s, p := startSSHD(t, servers.SSHDConfig("AllowTcpForwarding no"))
	limiter := s.Host("gate")
	f := startFake(t, "127.35.1.1", nil)
	p.cfg.Lookup = lookup(limiter, f.host("open"))
	_, err := run(t, p, via(core.Host{Name: "h", Address: "127.35.1.2"}, "gate"), "x")
	if !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), "AllowTcpForwarding") {
		t.Errorf("forbidden: got %v", err)
	}
	_, err = run(t, p, via(core.Host{Name: "h", Address: "127.35.1.2", SSH: core.SSH{Port: 1}}, "open"), "x")
	var e *Error
	if !errors.As(err, &e) || e.Host != "h" || !strings.Contains(err.Error(), "jump host open could not connect") {
		t.Errorf("refused: got %v", err)
	}
	p.cfg.Lookup = lookup(core.Host{Name: "dead", Address: "127.35.1.3", SSH: core.SSH{Port: 1}})
	_, err = run(t, p, via(core.Host{Name: "h"}, "dead"), "x")
	if !errors.As(err, &e) || e.Host != "dead" {
		t.Errorf("a jump host that refuses connections must be named: got %v", err)
	}
}

// A silent host behind a jump host times out, and the jump connection lives on.
func TestConnectTimeoutBehindAJumpHost(t *testing.T) {
	jump := startFake(t, "127.35.2.1", nil)
	silent := startFake(t, "127.35.2.2", func(f *fake) {
		f.onConn = func(c net.Conn) bool { _, _ = io.Copy(io.Discard, c); return false }
	})
	p := newPool(t, func(c *Config) { c.Lookup = lookup(jump.host("jump")) })
	h := via(silent.host("h"), "jump")
	h.SSH.ConnectTimeout = 100 * time.Millisecond
	if _, err := run(t, p, h, "x"); !errors.Is(err, core.ErrTimeout) {
		t.Errorf("got %v, expected a timeout", err)
	}
	if _, err := run(t, p, jump.host("jump"), "x"); err != nil {
		t.Error(err)
	}
	if st := p.Stats(); st.Dials != 2 {
		t.Errorf("%+v, expected one dial each", st)
	}
}

func TestDialFromTheHost(t *testing.T) {
	s, p := startSSHD(t)
	echo, err := net.Listen("tcp", "127.35.3.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = echo.Close(); wg.Wait() })
	c, err := p.Dial(testContext(t), s.Host("web1"), echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "ping"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "ping" {
		t.Fatalf("%q %v", buf, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := c.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	for range 2 {
		_ = c.Close()
	}
	_, err = p.Dial(testContext(t), s.Host("web1"), "127.35.3.2:1")
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, core.ErrUnreachable) || e.Op != "dial" {
		t.Errorf("refused address: got %v, which must not be the host's failure", err)
	}
	if _, err = p.Dial(testContext(t), s.Host("web1"), "nonsense"); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("bad address: got %v", err)
	}
	if st := p.Stats(); st.Open != 1 {
		t.Errorf("%+v, expected the connection to live on", st)
	}
}

func TestSSHConfig(t *testing.T) {
	key, public := servers.NewSSHKey(t)
	s := servers.StartSSHD(t, servers.Authorize(public))
	dir := t.TempDir()
	known, included, file := filepath.Join(dir, "known"), filepath.Join(dir, "more"), filepath.Join(dir, "config")
	write(t, known, []byte("fw-key "+servers.AuthorizedKey(s.HostKey)+"\n"))
	write(t, included, []byte(fmt.Sprintf("Host web* gate\n  HostKeyAlias fw-key\n  UserKnownHostsFile %s\n  IdentityFile %s\n  IdentitiesOnly yes\n", known, key)))
	write(t, file, []byte(fmt.Sprintf("Include %s\nHost web1 gate\n  HostName %s\n  Port %d\n  User %s\n  ConnectTimeout 60\n  ServerAliveInterval 5\nHost web2\n  ProxyJump gate\n  HostName %s\n  Port %d\n  User %s\n",
		included, s.Addresses[0], s.Port, s.User, s.Addresses[0], s.Port, s.User)))
	p := newPool(t, func(c *Config) { c.SSHConfig = file })
	for _, name := range []string{"web1", "web2"} {
		if _, err := run(t, p, core.Host{Name: name}, "true"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := p.resolve(core.Host{Name: "web1"})
	if err != nil || r[0].timeout != time.Minute || r[0].keepAlive != 5*time.Second || !r[0].onlyIdentities {
		t.Errorf("%+v %v", r, err)
	}
	r, err = p.resolve(core.Host{Name: "web1", SSH: core.SSH{User: "me", Port: 1, ConnectTimeout: time.Second}})
	if err != nil || r[0].user != "me" || r[0].timeout != time.Second || !strings.HasSuffix(r[0].addr, ":1") {
		t.Errorf("the inventory must rule over ssh_config: %+v %v", r, err)
	}
}

func TestSSHConfigThatCannotBeImported(t *testing.T) {
	for text, says := range map[string]string{
		"Match exec \"true\"\n  User x\n": "ssh -G",
		"Match user bob\n  User x\n":      "ssh -G",
		"Host x\n  Include \x00\n":        "",
	} {
		file := filepath.Join(t.TempDir(), "config")
		write(t, file, []byte(text))
		_, err := New(Config{SSHConfig: file})
		if says != "" && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%q: got %v", text, err)
		}
	}
	file := filepath.Join(t.TempDir(), "config")
	write(t, file, []byte("Host h\n  ProxyCommand nc %h %p\nHost i\n  Port x\n"))
	p := newPool(t, func(c *Config) { c.SSHConfig = file })
	for name, says := range map[string]string{"h": "use ProxyJump", "i": `port "x"`} {
		if _, err := p.resolve(core.Host{Name: name}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzSSHConfig(f *testing.F) {
	f.Add([]byte("Host *\n  Port 1\n  ProxyJump a,b\nMatch all\n User x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.Contains(strings.ToLower(string(text)), "include") {
			return // would read files of this machine
		}
		file := filepath.Join(t.TempDir(), "config")
		write(t, file, text)
		c, err := loadSSHConfig(file)
		if err != nil {
			return
		}
		_ = c.apply(&core.Host{Name: "h"}, &endpoint{})
	})
}
