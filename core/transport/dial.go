package transport

import (
	"context"
	"crypto/fips140"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core/telemetry"
)

const clientVersion = "SSH-2.0-Turnus"

// algorithms are those that x/crypto holds secure, in its order; it leaves out
// SHA-1 key exchange, CBC and RC4.
//
// mlkem768x25519 stays before curve25519: it costs 0.2 ms more a handshake, both
// ends together (1.64 against 1.45 ms), beside 22 ms that OpenSSH spends, and it
// keeps recorded sessions unreadable for later quantum computers. DH group 16
// (110 ms) comes last and is used only when a host has nothing else.
//
// FIPS mode rejects X25519 itself, so only the NIST curves are offered there.
func algorithms() ssh.Config {
	s := ssh.SupportedAlgorithms()
	c := ssh.Config{KeyExchanges: s.KeyExchanges, Ciphers: s.Ciphers, MACs: s.MACs}
	if fips140.Enabled() {
		c.KeyExchanges = []string{ssh.KeyExchangeECDHP256, ssh.KeyExchangeECDHP384, ssh.KeyExchangeECDHP521}
		c.Ciphers = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherAES128CTR, ssh.CipherAES256CTR}
		c.MACs = []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM, ssh.HMACSHA256, ssh.HMACSHA512}
	}
	return c
}

// verifier decides about the key that a server shows.
type verifier interface {
	algorithms() []string // for host keys, in the order of preference
	check(at machine, key ssh.PublicKey) error
	unverified() bool // of the accepted key: it was pinned at the first contact
}

// A server that takes no more logins at the same time (MaxStartups) is dialled again.
const (
	crowdedFor    = 5 * time.Second // or the connect timeout, if that is shorter
	crowdedPause  = 50 * time.Millisecond
	crowdedLonger = time.Second // no pause is longer
)

// connect dials as dial does. It dials again if the server was crowded: that closes a connection
// before anything was sent.
func (p *Pool) connect(ctx context.Context, r route, via *conn, keys verifier) (*conn, error) {
	e := r.last()
	var began time.Time // of the crowd: the wait for a place before it does not count
	for pause := crowdedPause; ; pause = min(2*pause, crowdedLonger) {
		c, err := p.dial(ctx, r, via, keys)
		if began.IsZero() {
			began = time.Now()
		}
		if !errors.Is(err, errCrowded) || time.Since(began)+pause > min(crowdedFor, e.timeout) {
			return c, err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // spread, no secret
		case <-ctx.Done():
			return nil, e.ended(ctx, "dial", true)
		}
	}
}

// dial dials the last endpoint of r through via, which is nil without a jump
// host, and logs in once the verifier accepts the server's key. Waiting for a place does not count
// towards the connect timeout; TCP, handshake and authentication do. On success the connection owns
// via's lease, or its own place among the sockets.
func (p *Pool) dial(ctx context.Context, r route, via *conn, keys verifier) (*conn, error) {
	e := r.last()
	leave, err := p.admitHandshake(ctx, e.addr)
	if err != nil {
		return nil, e.ended(ctx, "dial", true)
	}
	defer leave()
	if err := p.dials.enter(ctx); err != nil {
		return nil, e.ended(ctx, "dial", true)
	}
	defer p.dials.leave()
	if via == nil { // a tunnel needs no file descriptor
		if err := p.socket(ctx); err != nil {
			return nil, e.ended(ctx, "dial", true)
		}
	}

	p.dialled.Add(1)
	ctx, span := telemetry.StartSpan(ctx, telemetry.SpanDial, telemetry.AttributeHost.String(e.name))
	tctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	c, err := p.handshake(tctx, ctx, r, via, keys)
	p.results.count(err)
	span.SetAttributes(telemetry.AttributeOutcome.String(string(resultOf(err))))
	telemetry.EndSpan(span, err)
	if err != nil {
		if via == nil {
			p.sockets.free.leave()
		}
		p.failed.Add(1)
		return nil, err
	}
	return c, nil
}

// handshake runs under ctx; outer distinguishes the caller's end from the timeout's.
func (p *Pool) handshake(ctx, outer context.Context, r route, via *conn, keys verifier) (*conn, error) {
	e := r.last()
	raw, at, err := p.reach(ctx, e, via)
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok:
		return nil, e.refusedHere(refused)
	case err != nil && outer.Err() != nil:
		return nil, e.ended(outer, "dial", true)
	case err != nil && ctx.Err() != nil:
		return nil, timeoutError(e, stageDial, e.timeout)
	case err != nil && via != nil:
		return nil, tunnelError(e, via, err)
	case err != nil:
		return nil, dialError(e, err)
	}
	h := newHandshakeConn(ctx, raw, p.cpu)
	// ssh.ClientConfig.Timeout covers TCP only (go#15113): closing the connection
	// ends a handshake that hangs. No deadlines are set (go#65930).
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	login := &authState{e: e, ctx: ctx, unverified: keys.unverified, scan: p.trust.scan}
	defer login.done()
	began := time.Now()
	sc, chans, reqs, err := p.converse(ctx, h, via, &ssh.ClientConfig{
		Config:            algorithms(),
		User:              e.user,
		ClientVersion:     clientVersion,
		HostKeyAlgorithms: keys.algorithms(),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if err := keys.check(at, key); err != nil {
				return err
			}
			h.stage.Store(int32(stageAuth))
			return nil
		},
		AuthCallback: login.next,
	}, e.addr)
	h.finish()
	if !stop() && err == nil { // the context ended in the last instant, and raw is being closed
		_ = sc.Close()
		err = net.ErrClosed
	}
	if err != nil {
		_ = raw.Close()
		switch {
		case outer.Err() != nil:
			return nil, e.ended(outer, "handshake", true)
		case ctx.Err() != nil:
			return nil, timeoutError(e, stage(h.stage.Load()), e.timeout)
		}
		return nil, handshakeError(e, h, login, err)
	}
	return p.newConn(r, sc, chans, reqs, via, at, keys.unverified(), time.Since(began)), nil
}

// converse runs the handshake. Closing a TCP connection ends its reads immediately; closing a
// tunnel does only once the jump host confirms, so a handshake behind a jump host that hangs is
// left behind when ctx ends. It ends with that connection.
func (p *Pool) converse(ctx context.Context, h *handshakeConn, via *conn, cfg *ssh.ClientConfig, addr string) (ssh.Conn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	if via == nil {
		return ssh.NewClientConn(h, addr, cfg)
	}
	type result struct {
		conn  ssh.Conn
		chans <-chan ssh.NewChannel
		reqs  <-chan *ssh.Request
		err   error
	}
	done := make(chan result)
	if !p.spawn(func() {
		var r result
		r.conn, r.chans, r.reqs, r.err = ssh.NewClientConn(h, addr, cfg)
		select {
		case done <- r:
		case <-ctx.Done():
			if r.err == nil {
				_ = r.conn.Close()
			}
		}
	}) {
		return nil, nil, nil, errPoolClosed
	}
	select {
	case r := <-done:
		return r.conn, r.chans, r.reqs, r.err
	case <-ctx.Done():
		return nil, nil, nil, context.Cause(ctx)
	}
}

// tunnelError explains why a jump host did not connect to e.
func tunnelError(e *endpoint, via *conn, err error) *Error {
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) {
		return e.unreachable("dial", "the connection to jump host "+via.e.name+" broke: try it: ssh -v "+via.e.name, err)
	}
	hint := "jump host " + via.e.name + " could not connect to " + e.addr + ": try it from there, and correct address: and port: in the inventory"
	if refused.Reason == ssh.Prohibited {
		hint = "jump host " + via.e.name + " forbids forwarding: set AllowTcpForwarding (or PermitOpen) in its sshd_config"
	}
	return e.unreachable("dial", hint, err)
}
