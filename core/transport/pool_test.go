package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// eventually waits for a condition that other goroutines bring about.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			tb.Fatalf("%s: did not come about in a minute", what)
		}
	}
}

// blocker is a command that ends when it is asked to.
type blocker struct {
	mu      sync.Mutex
	running int
	release chan struct{}
}

func newBlocker() *blocker { return &blocker{release: make(chan struct{})} }

func (b *blocker) exec(ssh.Channel, string, string) uint32 {
	b.mu.Lock()
	b.running++
	b.mu.Unlock()
	<-b.release
	return 0
}

func (b *blocker) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running
}

func TestManyCallersShareOneDial(t *testing.T) {
	f := startFake(t, "127.33.0.1", nil)
	p := newPool(t, func(c *Config) { c.MaxSessions = 100 })
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := run(t, p, f.host("h"), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if st := p.Stats(); st.Dials != 1 || st.Open != 1 || f.count() != 1 {
		t.Errorf("%+v, %d connections at the server; expected 1", st, f.count())
	}
}

func TestCancelledFirstCallerDoesNotEndTheOthersDial(t *testing.T) {
	hold := make(chan struct{})
	f := startFake(t, "127.33.0.2", func(f *fake) { f.onConn = func(net.Conn) bool { <-hold; return true } })
	p := newPool(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := p.Run(ctx, f.host("h"), Exec{Command: "x"}); !errors.Is(err, context.Canceled) {
			t.Errorf("first caller: %v", err)
		}
	})
	eventually(t, "the dial", func() bool { return f.count() == 1 })
	wg.Go(func() {
		if _, err := run(t, p, f.host("h"), "x"); err != nil {
			t.Errorf("second caller: %v", err)
		}
	})
	waiting := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		n := 0
		for _, en := range p.entries {
			n += en.waiting
		}
		return n
	}
	eventually(t, "two waiters", func() bool { return waiting() == 2 })
	cancel()
	eventually(t, "one waiter", func() bool { return waiting() == 1 })
	close(hold)
	wg.Wait()
	if f.count() != 1 {
		t.Errorf("%d connections, expected 1", f.count())
	}
}

func TestLastCallerToLeaveCallsTheDialOff(t *testing.T) {
	f := startFake(t, "127.33.0.3", func(f *fake) {
		f.onConn = func(c net.Conn) bool { _, _ = io.Copy(io.Discard, c); return false }
	})
	p := newPool(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = p.Run(ctx, f.host("h"), Exec{Command: "x"}) })
	eventually(t, "the dial", func() bool { return f.count() == 1 })
	cancel()
	wg.Wait()
	eventually(t, "no connection left", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.conns) == 0
	})
}

func TestSecondConnectionWhenSessionsRunOut(t *testing.T) {
	b := newBlocker()
	f := startFake(t, "127.33.0.4", func(f *fake) { f.onExec = b.exec })
	p := newPool(t, func(c *Config) { c.MaxSessions = 2 })
	var wg sync.WaitGroup
	for range 2*maxPerHost + 3 {
		wg.Go(func() {
			if _, err := run(t, p, f.host("h"), "x"); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "all sessions of all connections", func() bool { return b.count() == 2*maxPerHost })
	if got := p.Stats().Open; got != maxPerHost {
		t.Errorf("%d connections, expected %d", got, maxPerHost)
	}
	close(b.release)
	wg.Wait()
}

// sshd's MaxSessions may be lower than the pool's: what was refused goes over
// another connection, and the refused one lives on.
func TestRefusedSessionDoesNotKillTheConnection(t *testing.T) {
	t.Parallel() // it waits
	s, p := startSSHD(t, servers.SSHDConfig("MaxSessions 1"))
	h := s.Host("web1")
	began := &firstWrite{make(chan struct{})}
	ctx, cancel := context.WithCancel(testContext(t))
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := p.Run(ctx, h, Exec{Command: "echo on; sleep 1000", Stdout: began})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("first command: %v", err)
		}
	})
	<-began.began
	if out, err := run(t, p, h, "echo two"); err != nil || out != "two" {
		t.Errorf("second command: %q %v", out, err)
	}
	if st := p.Stats(); st.Open != 2 {
		t.Errorf("%+v, expected two connections", st)
	}
	cancel()
	wg.Wait()
}

// A server may count a session for a moment after it ended.
func TestTrapRefusedSessionIsTriedAgain(t *testing.T) { // reference ssh 3: sshd's 11th session
	refusals := 2
	f := startFake(t, "127.33.0.5", func(f *fake) {
		f.onSession = func(int) bool { refusals--; return refusals < 0 }
	})
	p := newPool(t, nil)
	if _, err := run(t, p, f.host("h"), "x"); err != nil {
		t.Fatal(err)
	}
	if st := p.Stats(); st.Dials != 1 {
		t.Errorf("%+v, expected the same connection", st)
	}
}

func TestDeadIdleConnectionIsReplaced(t *testing.T) {
	f := startFake(t, "127.33.0.6", nil)
	p := newPool(t, nil)
	for i := range 3 {
		if _, err := run(t, p, f.host("h"), "x"); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		f.cut()
	}
}

func TestIdleConnectionsClose(t *testing.T) {
	f := startFake(t, "127.33.0.7", nil)
	p := newPool(t, func(c *Config) { c.Idle = 20 * time.Millisecond })
	if _, err := run(t, p, f.host("h"), "x"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no open connection", func() bool { return p.Stats().Open == 0 })
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.entries) != 0 || len(p.serverLimiters) != 0 {
		t.Errorf("%d entries and %d limiters are left", len(p.entries), len(p.serverLimiters))
	}
}

// patientKeepAlive gives a loaded machine two seconds to answer.
const patientKeepAlive = time.Second

func TestTrapKeepAliveNoticesASilentPeer(t *testing.T) { // go#19338
	t.Parallel() // it waits
	b := newBlocker()
	f := startFake(t, "127.33.0.8", func(f *fake) {
		f.onExec, f.onGlobal = b.exec, func() bool { return b.count() == 0 } // from the command on it is silent
	})
	t.Cleanup(func() { close(b.release) })
	p := newPool(t, func(c *Config) { c.KeepAlive = patientKeepAlive })
	_, err := run(t, p, f.host("h"), "x")
	var e *Error
	if !errors.As(err, &e) || e.Before || !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), "answers no more") {
		t.Errorf("got %v, expected a connection that does not answer any more", err)
	}
}

func TestKeepAliveKeepsAnAnsweringPeer(t *testing.T) { // negative control
	t.Parallel() // it waits
	b := newBlocker()
	answered := 0
	f := startFake(t, "127.33.0.9", func(f *fake) {
		f.onExec, f.onGlobal = b.exec, func() bool {
			if answered++; answered == 3 { // as often as the peer above is silent before its connection ends
				close(b.release)
			}
			return true
		}
	})
	p := newPool(t, func(c *Config) { c.KeepAlive = patientKeepAlive })
	if _, err := run(t, p, f.host("h"), "x"); err != nil {
		t.Error(err)
	}
}

// silent is a connection whose peer answers no request.
type silent struct {
	ssh.Conn
	reqs chan *ssh.Request
	over chan struct{}
}

func (c silent) SendRequest(string, bool, []byte) (bool, []byte, error) {
	<-c.over
	return false, nil, io.EOF
}

func (c silent) Close() error {
	select {
	case <-c.over:
	default:
		close(c.over)
		close(c.reqs)
	}
	return nil
}

// Keepalives have their own interval, whatever that of the check for idle connections is.
func TestSilentPeerIsClosedAfterThreeIntervals(t *testing.T) {
	for _, idle := range []time.Duration{10 * time.Second, 90 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, func(c *Config) { c.Idle = idle })
			peer := silent{reqs: make(chan *ssh.Request), over: make(chan struct{})}
			begin := time.Now()
			if !p.sockets.free.try() {
				t.Fatal("no place for a connection")
			}
			c := p.newConn(route{{keepAlive: 15 * time.Second}}, peer, nil, peer.reqs, nil, machine{}, false, 0)
			p.mu.Lock()
			c.lease(sessionUse)
			p.mu.Unlock()
			<-c.dead
			if took := time.Since(begin); took != 45*time.Second || !errors.Is(c.lost(), errNoAnswer) {
				t.Errorf("idle after %v: ended after %v: %v; expected 45s", idle, took, c.lost())
			}
		})
	}
}

// A connection of its own is not idle while its command runs. The command ends at the first
// keepalive: an idle connection is closed before that. Red without its lease.
func TestFreshConnectionIsNotIdleWhileItsCommandRuns(t *testing.T) {
	t.Parallel() // it waits
	asked := make(chan struct{}, 1)
	f := startFake(t, "127.33.0.19", func(f *fake) {
		f.onGlobal = func() bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return true
		}
		f.onExec = func(ch ssh.Channel, _, _ string) uint32 {
			cut := make(chan struct{})
			go func() {
				defer close(cut)
				_, _ = io.Copy(io.Discard, ch)
			}()
			select {
			case <-asked:
			case <-cut:
			}
			return 0
		}
	})
	p := newPool(t, func(c *Config) { c.KeepAlive, c.Idle = patientKeepAlive, patientKeepAlive })
	stdin, end := io.Pipe() // has no end before the command's
	defer func() { _ = end.Close() }()
	if _, err := p.Run(testContext(t), f.host("h"), Exec{Command: "x", Fresh: true, Stdin: stdin}); err != nil {
		t.Error(err)
	}
	if st := p.Stats(); st.Open != 0 {
		t.Errorf("%+v, expected no connection afterwards", st)
	}
}

func TestTrapOpeningASessionCanHang(t *testing.T) { // go#26643
	hang := make(chan struct{})
	f := startFake(t, "127.33.0.10", func(f *fake) { f.onSession = func(int) bool { <-hang; return false } })
	p := newPool(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := p.Run(ctx, f.host("h"), Exec{Command: "x"})
	close(hang)
	var e *Error
	if !errors.As(err, &e) || !e.Before || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, expected the deadline with Before", err)
	}
}

// A deadline that was set for the handshake must not end the connection later.
func TestTrapNoDeadlineOutlivesTheHandshake(t *testing.T) { // go#65930
	f := startFake(t, "127.33.0.11", nil)
	p := newPool(t, nil)
	h := f.host("h")
	h.SSH.ConnectTimeout = 250 * time.Millisecond
	for { // a loaded machine may need longer
		if _, err := run(t, p, h, "x"); err == nil {
			break
		}
		h.SSH.ConnectTimeout *= 2
	}
	before := p.Stats().Dials
	<-time.After(h.SSH.ConnectTimeout)
	if _, err := run(t, p, h, "x"); err != nil {
		t.Fatal(err)
	}
	if st := p.Stats(); st.Dials != before {
		t.Errorf("%+v, expected the same connection", st)
	}
}

func TestDropAndClose(t *testing.T) {
	f := startFake(t, "127.33.0.12", nil)
	p := newPool(t, nil)
	h := f.host("h")
	for range 2 {
		if _, err := run(t, p, h, "x"); err != nil {
			t.Fatal(err)
		}
		p.Drop(h)
		if st := p.Stats(); st.Open != 0 {
			t.Errorf("%+v after Drop", st)
		}
	}
	if st := p.Stats(); st.Dials != 2 {
		t.Errorf("%+v, expected two dials", st)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var e *Error
	if _, err := run(t, p, h, "x"); !errors.As(err, &e) || !e.Before || !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	b := newBlocker()
	f := startFake(t, "127.33.0.13", func(f *fake) { f.onExec = b.exec })
	t.Cleanup(func() { close(b.release) })
	p := newPool(t, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := run(t, p, f.host("h"), "x"); !errors.Is(err, core.ErrUnreachable) && !errors.Is(err, core.ErrUnavailable) {
			t.Errorf("got %v, expected a lost connection, or a pool that is closed", err)
		}
	})
	eventually(t, "the command", func() bool { return b.count() == 1 })
	_ = p.Close()
	wg.Wait()
}

// Connections are shared only where host, user, credentials, trust and path agree.
func TestConnectionsAreNotSharedAcrossTrust(t *testing.T) {
	f := startFake(t, "127.33.0.14", nil)
	p := newPool(t, nil)
	h := f.host("h")
	if _, err := run(t, p, h, "x"); err != nil {
		t.Fatal(err)
	}
	other := h
	other.SSH.HostKeys = []string{servers.AuthorizedKey(newSigner(t).PublicKey())}
	_, err := run(t, p, other, "x")
	expectHostKeyError(t, err, "CHANGED")
	user := h
	user.SSH.User = "v"
	if _, err := run(t, p, user, "x"); err != nil {
		t.Fatal(err)
	}
	if st := p.Stats(); st.Open != 2 {
		t.Errorf("%+v, expected two connections", st)
	}
}

// Output is never attributed to a wrong host: every one answers its own address.
func TestTrapNoOutputFromAWrongHost(t *testing.T) { // rundeck#2706
	const hosts, rounds = 300, 3
	p := newPool(t, func(c *Config) { c.MaxDials = 64 })
	list := make([]core.Host, hosts)
	for i := range list {
		list[i] = startFake(t, fmt.Sprintf("127.34.%d.%d", i/200, i%200+1), nil).host(fmt.Sprintf("h%d", i))
	}
	var wg sync.WaitGroup
	for round := range rounds {
		for i, h := range list {
			wg.Go(func() {
				want := fmt.Sprintf("%s:%d", h.Address, h.SSH.Port)
				if out, err := run(t, p, h, "who"); err != nil || out != want {
					t.Errorf("round %d, host %d: got %q, %v; expected %q", round, i, out, err, want)
				}
			})
		}
	}
	wg.Wait()
	// The right address with the wrong machine behind it is refused.
	swapped := list[0]
	swapped.Address, swapped.SSH.Port = list[1].Address, list[1].SSH.Port
	_, err := run(t, p, swapped, "who")
	expectHostKeyError(t, err, "CHANGED")
}

func TestEveryOpenSSHAnswersItsOwnName(t *testing.T) {
	key, public := servers.NewSSHKey(t)
	p := newPool(t, func(c *Config) { offers(c).Identities = []string{key} })
	var sshds []*servers.SSHD
	for i := range 4 {
		sshds = append(sshds, servers.StartSSHD(t, servers.Authorize(public), servers.SSHDConfig(fmt.Sprintf("SetEnv NAME=host%d", i))))
	}
	var wg sync.WaitGroup
	for range 5 {
		for i, s := range sshds {
			wg.Go(func() {
				if out, err := run(t, p, s.Host(fmt.Sprintf("host%d", i)), "echo $NAME"); err != nil || out != fmt.Sprintf("host%d", i) {
					t.Errorf("host%d: got %q, %v", i, out, err)
				}
			})
		}
	}
	wg.Wait()
}

func TestAtMostEightHandshakesPerServer(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	hold := make(chan struct{})
	f := startFake(t, "127.33.0.15", func(f *fake) {
		f.onConn = func(net.Conn) bool {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-hold
			mu.Lock()
			now--
			mu.Unlock()
			return true
		}
	})
	p := newPool(t, nil)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := p.Probe(testContext(t), f.host("h")); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "eight handshakes", func() bool { mu.Lock(); defer mu.Unlock(); return now == handshakesPerServer })
	close(hold)
	wg.Wait()
	if most != handshakesPerServer {
		t.Errorf("%d handshakes at the same time, expected %d", most, handshakesPerServer)
	}
}

func TestSilentHostsCostNobodyElse(t *testing.T) {
	silent := startFake(t, "127.33.0.16", func(f *fake) {
		f.onConn = func(c net.Conn) bool { _, _ = io.Copy(io.Discard, c); return false }
	})
	good := startFake(t, "127.33.0.17", nil)
	p := newPool(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 8 { // more than the CPU limiter admits
		wg.Go(func() { _, _ = p.Run(ctx, silent.host(fmt.Sprintf("s%d", i)), Exec{Command: "x"}) })
	}
	eventually(t, "silent connections", func() bool { return silent.count() == 8 })
	if _, err := run(t, p, good.host("h"), "x"); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait()
	eventually(t, "all places given back", func() bool { return len(p.cpu) == 0 && len(p.dials) == 0 })
}
