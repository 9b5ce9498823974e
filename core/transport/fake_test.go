package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// fake is a small SSH server for faults that OpenSSH does not show on demand.
type fake struct {
	cfg      *ssh.ServerConfig
	signer   ssh.Signer
	listener net.Listener

	onConn    func(net.Conn) bool // false: the connection was dealt with
	onExec    func(ch ssh.Channel, command, addr string) (status uint32)
	onSession func(open int) bool // false: refuse the channel
	onGlobal  func() bool         // of a global request; false: leave it unanswered
	cli       bool                // the host has a command line of its own and no shell: there is no proof of one

	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted int
	sessions int
}

func newSigner(tb testing.TB) ssh.Signer {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// startFake listens on ip and a port of the kernel's choice. Anybody may log in
// unless change sets something else.
func startFake(tb testing.TB, ip string, change func(*fake)) *fake {
	tb.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	return serveFake(tb, l, change)
}

func serveFake(tb testing.TB, l net.Listener, change func(*fake)) *fake {
	tb.Helper()
	f := &fake{cfg: &ssh.ServerConfig{NoClientAuth: true}, signer: newSigner(tb), listener: l, conns: map[net.Conn]bool{}}
	f.onExec = func(ch ssh.Channel, _, addr string) uint32 {
		_, _ = io.WriteString(ch, addr+"\n")
		return 0
	}
	if change != nil {
		change(f)
	}
	if f.signer != nil {
		f.cfg.AddHostKey(f.signer)
	}
	f.wg.Go(f.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		f.cut()
		f.wg.Wait()
	})
	return f
}

// cut ends all connections at the same time.
func (f *fake) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.accepted
}

func (f *fake) accept() {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[c] = true
		f.accepted++
		f.mu.Unlock()
		f.wg.Go(func() {
			defer func() {
				_ = c.Close()
				f.mu.Lock()
				delete(f.conns, c)
				f.mu.Unlock()
			}()
			if f.onConn == nil || f.onConn(c) {
				f.serve(c)
			}
		})
	}
}

func (f *fake) serve(c net.Conn) {
	sc, chans, reqs, err := ssh.NewServerConn(c, f.cfg)
	if err != nil {
		return
	}
	f.wg.Go(func() {
		for r := range reqs {
			if r.WantReply && (f.onGlobal == nil || f.onGlobal()) {
				_ = r.Reply(false, nil)
			}
		}
	})
	for nc := range chans {
		switch nc.ChannelType() {
		case "session":
			f.mu.Lock()
			ok := f.onSession == nil || f.onSession(f.sessions)
			if ok {
				f.sessions++
			}
			f.mu.Unlock()
			if !ok {
				_ = nc.Reject(ssh.ConnectionFailed, "open failed")
				continue
			}
			f.wg.Go(func() { f.session(nc, sc.LocalAddr().String()) })
		case "direct-tcpip":
			f.wg.Go(func() { f.forward(nc) })
		default:
			_ = nc.Reject(ssh.UnknownChannelType, "")
		}
	}
}

func (f *fake) session(nc ssh.NewChannel, addr string) {
	defer func() {
		f.mu.Lock()
		f.sessions--
		f.mu.Unlock()
	}()
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	for r := range reqs {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var m struct{ Command string }
		_ = ssh.Unmarshal(r.Payload, &m)
		_ = r.Reply(true, nil)
		f.wg.Go(func() {
			if _, id, found := strings.Cut(m.Command, "export TURNUS_EXEC="); found && !f.cli {
				id, _, _ = strings.Cut(id, "\n")
				_, _ = io.WriteString(ch, "turnus:"+id+"\n")
			}
			status := f.onExec(ch, m.Command, addr)
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{status}))
			_ = ch.Close()
		})
	}
}

func (f *fake) forward(nc ssh.NewChannel) {
	var m struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	_ = ssh.Unmarshal(nc.ExtraData(), &m)
	to, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(m.Host), Port: int(m.Port)})
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, "Connection refused")
		return
	}
	defer func() { _ = to.Close() }()
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	f.wg.Go(func() {
		_, _ = io.Copy(ch, to)
		_ = ch.Close()
	})
	_, _ = io.Copy(to, ch)
}

func (f *fake) host(name string) core.Host {
	a := f.listener.Addr().(*net.TCPAddr)
	h := core.Host{Name: name, Address: a.IP.String(), SSH: core.SSH{User: "u", Port: a.Port}}
	if f.signer != nil {
		h.SSH.HostKeys = []string{servers.AuthorizedKey(f.signer.PublicKey())}
	}
	return h
}

func run(tb testing.TB, p *Pool, h core.Host, command string) (string, error) {
	tb.Helper()
	var out strings.Builder
	_, err := p.Run(testContext(tb), h, Exec{Command: command, Stdout: &out})
	return strings.TrimSpace(out.String()), err
}
