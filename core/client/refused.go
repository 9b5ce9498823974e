package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// pollTime bounds the check of why a server ends connections.
const pollTime = time.Second

// refusal returns why the server ends connections of this client, if TLS has the reason; else it
// returns err. A server of TLS 1.3 checks the client's certificate after the client considers the
// connection made. A request that is being written meanwhile loses the server's reason: nothing is
// written here.
func (c *Client) refusal(ctx context.Context, err error) error {
	u, bad := url.Parse(c.server)
	if bad != nil || u.Scheme != "https" || !cutOff(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	conn, bad := (&tls.Dialer{Config: c.tls}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	if bad != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(pollTime))
	if _, said := conn.Read(make([]byte, 1)); said != nil && strings.Contains(said.Error(), "remote error: tls: ") {
		return said
	}
	return err
}

// cutOff reports whether a connection ended without a word that reached the request.
func cutOff(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "http2: client conn")
}
