package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// dialTimeout bounds the TCP connection and the handshake.
const dialTimeout = 3 * time.Second

// dialer opens the connections of one client. It is asked for each, so that renewed certificates
// are taken over, and so that a Sentinel or a Cluster cannot send a client that talks in the clear
// to another machine.
type dialer struct {
	files      *securefile.TLSSource // nil: without TLS
	serverName string                // expected; the address' host when empty
	insecure   bool                  // may talk in the clear to other machines
}

// refused is an error of this side, before anything was sent.
type refused struct{ error }

func (e refused) Unwrap() error { return e.error }

// handshake is a TLS handshake that failed: nothing was sent.
type handshake struct{ error }

func (e handshake) Unwrap() error { return e.error }

// greeting is a TCP connection without TLS. The client greets first, and sends nothing else before
// that is answered.
type greeting struct {
	*net.TCPConn
	addr     string
	answered atomic.Bool
}

// mute is of a server that did not answer the greeting: nothing was asked of it. The client unwraps
// what comes of a greeting, so it is bare.
type mute struct{ addr string }

func (e mute) Error() string {
	return e.addr + " ended the connection without an answer: it probably speaks TLS at this port, or is about to stop\nhint: rediss:// in place of redis:// talks TLS"
}

// tlsAlert is the first byte of an alert, which a server with TLS may send to a client without it.
const tlsAlert = 0x15

// Read implements net.Conn.
func (c *greeting) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	switch {
	case c.answered.Load():
	case n > 0 && b[0] != tlsAlert:
		c.answered.Store(true)
	case n > 0, errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return 0, mute{c.addr}
	}
	return n, err //nolint:wrapcheck // as the connection says it
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.files == nil && !d.insecure && network != "unix" && !local(addr) {
		return nil, refused{inClear(addr)}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{KeepAlive: time.Minute}).DialContext(ctx, network, addr)
	if err != nil {
		return conn, err
	}
	if d.files == nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			conn = &greeting{TCPConn: tcp, addr: addr}
		}
		return conn, nil
	}
	name := d.serverName
	if name == "" {
		name, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, d.files.Client(name))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if errors.Is(err, context.DeadlineExceeded) { // a Redis without TLS waits for more of what it takes for a command
			return nil, handshake{fmt.Errorf("%s took the connection and does not speak TLS at this port, or hangs\nhint: rediss://HOST:PORT with its TLS port, or set tls-port in its redis.conf", addr)}
		}
		return nil, handshake{fmt.Errorf("TLS with %s: %w", addr, err)}
	}
	return secure, nil
}

// inClear is the refusal to talk in the clear.
func inClear(addr string) error {
	return fmt.Errorf("redis url: %s is another machine, and passwords and jobs would cross the network unencrypted: %w\n"+
		"hint: rediss:// uses TLS (docs/operating-access.md#tls); on a network where nobody else can listen, add ?insecure=true", addr, core.ErrInvalid)
}

// local reports whether an address is this machine's own, by its text: names are not looked up.
func local(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && core.ThisMachine(host)
}

// dialer reads the parameters of TLS in the URL.
func (t *target) dialer() (*dialer, error) {
	d := &dialer{serverName: t.serverName, insecure: t.insecure || t.kind == "unix"}
	if !t.tls {
		if t.files != (securefile.TLSFiles{}) || t.serverName != "" {
			return nil, badURL("ca_file, cert_file, key_file and server_name are for TLS: rediss://, rediss-sentinel:// or rediss-cluster://")
		}
		for _, addr := range t.addrs {
			if !d.insecure && !local(addr) {
				return nil, inClear(addr)
			}
		}
		return d, nil
	}
	var err error
	if d.files, err = securefile.OpenTLS(t.files, nil); err != nil {
		return nil, fmt.Errorf("redis url: %w", err)
	}
	return d, nil
}

// setQuery takes what stands behind the question mark. An unknown name is refused: a misspelt
// insecure or ca_file must not be passed over.
func (t *target) setQuery(q url.Values) error {
	for name, values := range q {
		value := values[len(values)-1]
		switch name {
		case "db": // with the path
		case "sentinel_user":
			t.sentinelUser = value
		case "sentinel_password":
			t.sentinelPassword = value
		case "ca_file":
			t.files.CA = value
		case "cert_file":
			t.files.Cert = value
		case "key_file":
			t.files.Key = value
		case "server_name":
			t.serverName = value
		case "insecure":
			if value != "true" {
				return badURL("insecure=%s, expected true or nothing", value)
			}
			t.insecure = true
		default:
			return badURL("parameter %q, expected db, ca_file, cert_file, key_file, server_name, insecure, sentinel_user or sentinel_password", name)
		}
	}
	return nil
}
