package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// bodiless are requests that announce a body and do not send it, each with the handler's bound.
var bodiless = map[string]struct {
	request string
	within  time.Duration
}{
	"no such route":  {"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", readBody},
	"no token":       {"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", readBody},
	"no body wanted": {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", readBody},
	"chunks":         {"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", readBody},
	"a webhook":      {"POST /hooks/definitions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{", hookBody},
	"a wrong token":  {"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nContent-Length: 1000\r\n\r\n{", readBody},
}

// A client that announces a body and does not send it holds no connection, whatever the answer:
// net/http waits for the rest of a body that no handler read, and a webhook's is read before its
// sender is known. Control: without HTTP's bounds the connection stays open.
func TestTrapBodiesThatNeverComeHoldNoConnection(t *testing.T) {
	hook := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	newBed(t) // makes what beds share outside of a bubble
	for name, c := range bodiless {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, func(c *Config) { c.Hook = hook })
				web := HTTP(b.server, slog.New(slog.DiscardHandler))
				if took := answered(t, web, c.request); took < c.within || took > c.within+time.Second {
					t.Errorf("the connection ended after %v, expected %v", took, c.within)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ignores := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		for bounded, web := range map[bool]*http.Server{true: HTTP(ignores, slog.New(slog.DiscardHandler)), false: {Handler: ignores}} {
			if took := answered(t, web, bodiless["no body wanted"].request); (took < time.Hour) != bounded {
				t.Errorf("with bounds %v: the connection ended after %v", bounded, took)
			}
		}
	})
}

// answered sends what it is given, nothing else, and returns when the server closes the connection,
// at most an hour.
func answered(t *testing.T, web *http.Server, request string) time.Duration {
	t.Helper()
	begun := time.Now()
	conn, end := connect(t, web)
	defer end()
	_, err := io.Copy(conn, strings.NewReader(request))
	must(t, err)
	must(t, conn.SetReadDeadline(begun.Add(time.Hour)))
	_, _ = io.Copy(io.Discard, conn)
	return time.Since(begun)
}

// connect serves one connection in memory, which a bubble can wait for.
func connect(t *testing.T, web *http.Server) (net.Conn, func()) {
	t.Helper()
	client, served := net.Pipe()
	l := &one{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conn <- served
	done := make(chan struct{})
	go func() { defer close(done); _ = web.Serve(l) }()
	return client, func() { _ = client.Close(); must(t, web.Close()); <-done }
}

// one is a listener with one connection.
type one struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *one) Close() error   { close(l.closed); return nil }
func (l *one) Addr() net.Addr { return &net.TCPAddr{} }
