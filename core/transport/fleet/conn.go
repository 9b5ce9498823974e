package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

var errRefused = errors.New("this simulated host lets nobody in")

// serve is the life of one TCP connection. It returns when the connection and
// everything that ran over it has ended.
func (f *Fleet) serve(c net.Conn, h *host) {
	defer func() { _ = c.Close() }() // often it is closed already
	p := h.profile.Load()
	source := addrOf(c.RemoteAddr())
	if !h.admit(source, p) {
		f.stats.dropped.Add(1)
		reset(c)
		return
	}
	if p.Silent {
		_, _ = io.Copy(io.Discard, c) // until the client or the fleet ends
		h.opened(source, p, false)
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	sc, channels, requests, err := f.handshake(ctx, c, h, p)
	h.opened(source, p, err == nil)
	if err != nil {
		f.stats.authFailed.Add(1)
		return
	}
	f.stats.handshakes.Add(1)
	f.stats.open.Add(1)
	defer f.stats.open.Add(-1)
	cn := &conn{fleet: f, host: h, tcp: c}
	cn.run(ctx, channels, requests)
	cancel() // ends the commands whose connection is gone
	cn.sessions.Wait()
	_ = sc.Wait() // joins the multiplexer; its error only means that the client left
}

// handshake exchanges keys and authenticates. Only the cheapest algorithms of
// each kind are offered, with a NIST curve for clients in FIPS mode: what a fleet
// measures is its client.
func (f *Fleet) handshake(ctx context.Context, c net.Conn, h *host, p *Profile) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	key, err := h.key(p.ChangedKey)
	if err != nil {
		return nil, nil, nil, err
	}
	cfg := &ssh.ServerConfig{
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeCurve25519, "curve25519-sha256@libssh.org", ssh.KeyExchangeECDHP256},
			Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES128CTR},
		},
		ServerVersion: "SSH-2.0-TurnusFleet",
		MaxAuthTries:  6,
		PublicKeyCallback: func(meta ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			if p.RefuseAuth || meta.User() != User || string(k.Marshal()) != f.clientPK {
				return nil, errRefused
			}
			return nil, nil //nolint:nilnil // permissions are optional
		},
	}
	cfg.AddHostKey(key)
	if p.KexDelay > 0 {
		c = &slowConn{Conn: c, ctx: ctx, delay: p.KexDelay}
	}
	return ssh.NewServerConn(c, cfg)
}

// slowConn delays the third write, which answers the client's key exchange; the
// first two are the version and the offer of algorithms.
type slowConn struct {
	net.Conn
	ctx    context.Context //nolint:containedctx // net.Conn's methods have none
	delay  time.Duration
	mu     sync.Mutex
	writes int
}

func (s *slowConn) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.writes++
	third := s.writes == 3
	s.mu.Unlock()
	if third && !wait(s.ctx, s.delay) {
		return 0, s.ctx.Err()
	}
	return s.Conn.Write(b)
}

// conn is one authenticated connection.
type conn struct {
	fleet    *Fleet
	host     *host
	tcp      net.Conn
	sessions sync.WaitGroup

	mu   sync.Mutex
	open int
}

// run answers what the client opens until the connection ends.
func (cn *conn) run(ctx context.Context, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
	for channels != nil || requests != nil {
		select {
		case r, ok := <-requests:
			if !ok {
				requests = nil
				continue
			}
			if r.WantReply { // also keepalive@openssh.com: sshd refuses it, which proves that it lives
				_ = r.Reply(false, nil) // when it fails, channels will be closed
			}
		case nc, ok := <-channels:
			if !ok {
				channels = nil
				continue
			}
			cn.channel(ctx, nc)
		}
	}
}

func (cn *conn) channel(ctx context.Context, nc ssh.NewChannel) {
	switch nc.ChannelType() {
	case "session":
		cn.session(ctx, nc)
	case "direct-tcpip":
		cn.forward(ctx, nc)
	default:
		_ = nc.Reject(ssh.UnknownChannelType, "unsupported channel type") // when it fails, the connection is gone
	}
}

func (cn *conn) session(ctx context.Context, nc ssh.NewChannel) {
	limit := cmp.Or(cn.host.profile.Load().MaxSessions, defaultMaxSessions)
	cn.mu.Lock()
	full := cn.open >= limit
	if !full {
		cn.open++
	}
	cn.mu.Unlock()
	if full {
		_ = nc.Reject(ssh.ConnectionFailed, "open failed") // sshd's words
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil {
		cn.release()
		return
	}
	cn.fleet.stats.sessions.Add(1)
	s := &session{conn: cn, ch: ch, env: map[string]string{}}
	cn.sessions.Go(func() {
		defer cn.release()
		s.serve(ctx, requests)
	})
}

func (cn *conn) release() {
	cn.mu.Lock()
	cn.open--
	cn.mu.Unlock()
}

// forward connects to another host of the fleet, and to nothing else.
func (cn *conn) forward(ctx context.Context, nc ssh.NewChannel) {
	if !cn.host.profile.Load().Forward {
		_ = nc.Reject(ssh.Prohibited, "port forwarding is off on this simulated host")
		return
	}
	var to struct {
		Addr       string
		Port       uint32
		OriginAddr string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(nc.ExtraData(), &to); err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, "malformed request")
		return
	}
	address := cn.fleet.resolve(to.Addr, int(to.Port))
	if address == "" {
		_ = nc.Reject(ssh.Prohibited, "this simulated bastion reaches hosts of its fleet only")
		return
	}
	cn.sessions.Go(func() { tunnel(ctx, nc, address) })
}

// resolve returns the address to dial for a host of the fleet by name or address;
// "" for everything else.
func (f *Fleet) resolve(addr string, port int) string {
	for n := range f.list {
		h := &f.list[n]
		if (h.Name == addr || h.Address == addr) && h.SSH.Port == port {
			return net.JoinHostPort(h.Address, itoa(port))
		}
	}
	return ""
}

func tunnel(ctx context.Context, nc ssh.NewChannel, address string) {
	var d net.Dialer
	out, err := d.DialContext(ctx, "tcp4", address)
	if err != nil {
		_ = nc.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer func() { _ = out.Close() }() // both directions have ended
	ch, requests, err := nc.Accept()
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = out.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { ssh.DiscardRequests(requests) })
	both.Go(func() {
		_, _ = io.Copy(out, ch) // an error ends the tunnel as EOF does
		if t, ok := out.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
	})
	_, _ = io.Copy(ch, out)
	_ = ch.CloseWrite()
	_ = ch.Close()
	both.Wait()
}

// allBytes is every byte value once, for hosts that write no text.
func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// floodTo writes n bytes in lines of 64 until ctx ends or the reader is gone.
func floodTo(ctx context.Context, w io.Writer, n int64) error {
	line := append(bytes.Repeat([]byte("x"), 63), '\n')
	block := bytes.Repeat(line, 512)
	for n > 0 && ctx.Err() == nil {
		b := block[:min(int64(len(block)), n)]
		if _, err := w.Write(b); err != nil {
			return err
		}
		n -= int64(len(b))
	}
	return ctx.Err()
}
