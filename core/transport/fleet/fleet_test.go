package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen at all; nothing here waits for it in a good run.
const patience = 30 * time.Second

func start(tb testing.TB, cfg Config) *Fleet {
	tb.Helper()
	f, err := Start(context.Background(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := f.Close(); err != nil {
			tb.Error(err)
		}
	})
	return f
}

// dial logs in to a host as a plain client would, with the pinned host key.
func dial(tb testing.TB, f *Fleet, h core.Host) (*ssh.Client, error) {
	tb.Helper()
	return dialBy(tb, f, h, f.IdentityFile())
}

func dialBy(tb testing.TB, f *Fleet, h core.Host, identity string) (*ssh.Client, error) {
	tb.Helper()
	pinned, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.SSH.HostKeys[0]))
	if err != nil {
		tb.Fatal(err)
	}
	key, err := os.ReadFile(identity)
	if err != nil {
		tb.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort(h.Address, strconv.Itoa(h.SSH.Port)), patience)
	if err != nil {
		return nil, err
	}
	stop := time.AfterFunc(patience, func() { _ = c.Close() })
	defer stop.Stop()
	sc, chans, reqs, err := ssh.NewClientConn(c, h.Name, &ssh.ClientConfig{
		User: h.SSH.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(pinned),
		Config: ssh.Config{KeyExchanges: []string{ssh.KeyExchangeCurve25519}},
	})
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return ssh.NewClient(sc, chans, reqs), nil
}

func mustDial(tb testing.TB, f *Fleet, h core.Host) *ssh.Client {
	tb.Helper()
	c, err := dial(tb, f, h)
	if err != nil {
		tb.Fatalf("%s: %v", h.Name, err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// run executes one command; code is -1 when there was no exit status.
func run(tb testing.TB, c *ssh.Client, cmd, stdin string) (stdout, stderr string, code int, err error) {
	tb.Helper()
	s, err := c.NewSession()
	if err != nil {
		return "", "", -1, err
	}
	defer func() { _ = s.Close() }()
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(stdin), &out, &errs
	err = s.Run(cmd)
	var exit *ssh.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		code = exit.ExitStatus()
	default:
		code = -1
	}
	return out.String(), errs.String(), code, err
}

// eventually waits for a condition that another goroutine brings about.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			tb.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// Output of one host shown as another's happened to others: rundeck#2706.
func TestTrapWrongHostUnderConcurrency(t *testing.T) {
	const n = 64
	for _, perHost := range []bool{false, true} {
		t.Run(fmt.Sprintf("perHost=%v", perHost), func(t *testing.T) {
			f := start(t, Config{Hosts: n, Seed: 7, perHost: perHost})
			var wg sync.WaitGroup
			for _, h := range f.Hosts() {
				wg.Go(func() {
					c, err := dial(t, f, h)
					if err != nil {
						t.Errorf("%s: %v", h.Name, err)
						return
					}
					defer func() { _ = c.Close() }()
					for _, cmd := range []string{"hostname", "uname -n", "cat /etc/hostname", "exec /bin/sh -c 'hostname'"} {
						out, _, code, err := run(t, c, cmd, "")
						if out != h.Name+"\n" || code != 0 {
							t.Errorf("%s: %q: got %q, exit %d, %v", h.Name, cmd, out, code, err)
						}
					}
				})
			}
			wg.Wait()
			if s := f.Stats(); s.Handshakes != n || s.Commands != 4*n || s.Refused != 0 {
				t.Errorf("stats: %+v", s)
			}
			eventually(t, "no connection is left open", func() bool { return f.Stats().Open == 0 })
		})
	}
}

func TestHostsAreDeterministicAndUsable(t *testing.T) {
	a := start(t, Config{Hosts: 500, Seed: 1}).Hosts()
	b := start(t, Config{Hosts: 500, Seed: 1}).Hosts()
	other := start(t, Config{Hosts: 500, Seed: 2}).Hosts()
	names, keys := map[string]bool{}, map[string]bool{}
	customers, groups, differ := map[string]bool{}, map[string]int{}, 0
	for i, h := range a {
		if h.Name != b[i].Name || h.SSH.HostKeys[0] != b[i].SSH.HostKeys[0] {
			t.Fatalf("host %d differs between two fleets of one seed: %+v, %+v", i, h, b[i])
		}
		if h.SSH.HostKeys[0] != other[i].SSH.HostKeys[0] {
			differ++
		}
		names[h.Name], keys[h.SSH.HostKeys[0]], customers[h.Customer] = true, true, true
		if h.HAGroup != "" {
			groups[h.HAGroup]++
		}
		if h.Labels["role"] == "" || h.Site == "" || !strings.HasSuffix(h.Name, "."+h.Customer) {
			t.Errorf("not like a real host: %+v", h)
		}
	}
	if len(names) != 500 || len(keys) != 500 || differ != 500 {
		t.Errorf("%d names, %d keys, %d keys that depend on the seed; want 500 each", len(names), len(keys), differ)
	}
	if len(customers) < 4 || len(groups) < 20 {
		t.Errorf("%d customers, %d HA groups", len(customers), len(groups))
	}
	for g, n := range groups {
		if n != 2 {
			t.Errorf("HA group %s has %d members", g, n)
		}
	}
}

func TestAddressesNumberHosts(t *testing.T) {
	for _, n := range []int{0, 1, 249, 250, 62_499, 62_500, MaxHosts - 1} {
		a := netip.MustParseAddr(addressOf(n))
		if got := numberOf(a); got != n {
			t.Errorf("host %d has address %v, which is number %d", n, a, got)
		}
	}
	for _, a := range []string{"127.0.0.1", "127.10.0.1", "127.10.1.251", "10.10.1.1", "::1"} {
		if got := numberOf(netip.MustParseAddr(a)); got != -1 {
			t.Errorf("%s is host %d", a, got)
		}
	}
}

// A fleet must not be reachable from another machine: a connection that was made to an address of
// the machine outside 127.0.0.0/8 is refused before anything is sent.
func TestOnlyLoopbackAddressesAreServed(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	if f.cfg.perHost {
		t.Log("no loopback device to bind: each host listens on 127.0.0.1 only")
		return
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{"127.0.0.1"} // loopback, but no host
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			targets = append(targets, n.IP.String())
		}
	}
	for _, target := range targets {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(target, strconv.Itoa(f.Hosts()[0].SSH.Port)), patience)
		if err != nil {
			continue // refused by the kernel
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if b, err := io.ReadAll(c); len(b) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s is served: %q, %v", target, b, err)
		}
		_ = c.Close()
	}
	if s := f.Stats(); s.Refused != s.Accepted {
		t.Errorf("stats: %+v", s)
	}
	mustDial(t, f, f.Hosts()[0]) // negative control: the address of a host is served
}

func TestFleetRefusesStrangers(t *testing.T) {
	f := start(t, Config{Hosts: 2})
	h := f.Hosts()[0]
	h.SSH.User = "root"
	if _, err := dial(t, f, h); err == nil {
		t.Error("another user was let in")
	}
	stranger := start(t, Config{Hosts: 1})
	h = f.Hosts()[0]
	if _, err := dialBy(t, f, h, stranger.IdentityFile()); err == nil {
		t.Error("another key was let in")
	}
	eventually(t, "both failures are counted", func() bool { return f.Stats().AuthFailed == 2 })
}

func TestClientKeyIsPrivateAndRemoved(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	st, err := os.Stat(f.IdentityFile())
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", st, err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.IdentityFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

func TestFleetEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f, err := Start(ctx, Config{Hosts: 3})
	if err != nil {
		t.Fatal(err)
	}
	c := mustDial(t, f, f.Hosts()[2])
	cancel()
	if err := c.Wait(); err == nil {
		t.Error("the connection ended without an error")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartRefusesNonsense(t *testing.T) {
	for _, n := range []int{-1, 0, MaxHosts + 1} {
		if f, err := Start(context.Background(), Config{Hosts: n}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%d hosts: %v, %v", n, f, err)
		}
	}
}

func TestHandlerAnswersFirst(t *testing.T) {
	var got Command
	f := start(t, Config{Hosts: 1, Handle: func(_ context.Context, c Command) (int, bool) {
		if !strings.HasPrefix(c.Script, "mine") {
			return 0, false
		}
		got = c
		b, _ := io.ReadAll(c.Stdin)
		fmt.Fprintf(c.Stdout, "%s got %s", c.Host, b)
		return 42, true
	}})
	c := mustDial(t, f, f.Hosts()[0])
	line := `export A='it'\''s'; exec /bin/sh -c 'export B=2; mine "$A"'`
	out, _, code, _ := run(t, c, line, "input")
	if want := f.Hosts()[0].Name + " got input"; out != want || code != 42 {
		t.Errorf("got %q, exit %d; want %q, 42", out, code, want)
	}
	if got.Line != line || got.Script != `mine "$A"` || got.Env["A"] != "it's" || got.Env["B"] != "2" {
		t.Errorf("the handler saw %+v", got)
	}
	if out, _, code, _ := run(t, c, "echo built-in", ""); out != "built-in\n" || code != 0 {
		t.Errorf("what the handler declines: %q, exit %d", out, code)
	}
}
