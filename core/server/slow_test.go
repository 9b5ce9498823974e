package server

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// A client that announces a body and does not send it holds no connection, whatever is answered:
// net/http waits for the rest of a body that no handler read, and a webhook's is read before its
// sender is known.
func TestTrapBodiesThatNeverComeHoldNoConnection(t *testing.T) {
	t.Parallel()
	hook := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	for name, request := range map[string]string{
		"no such route":  "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"no token":       "POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"no body wanted": "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"chunks":         "GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"a webhook's":    "POST /hooks/definitions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"a wrong token":  "POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nContent-Length: 1000\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, bounded := range []bool{true, false} {
				b := newBed(t, func(c *Config) { c.Hook = hook })
				b.server.arrive, b.server.hookTime = 100*time.Millisecond, 100*time.Millisecond
				patience := patience
				if !bounded { // the control: it is these bounds that end it
					b.server.arrive, b.server.hookTime, patience = time.Hour, time.Hour, 500*time.Millisecond
				}
				if over := answered(t, b.server, request, patience); over != bounded {
					t.Fatalf("with a bound %v: the connection ended: %v", bounded, over)
				}
			}
		})
	}
}

// answered sends what it is given, nothing else, and reports whether the server then closes the
// connection.
func answered(t *testing.T, h http.Handler, request string, patience time.Duration) bool {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	web := HTTP(h, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() { defer close(done); _ = web.Serve(listener) }()
	defer func() { must(t, web.Close()); <-done }()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.Copy(conn, strings.NewReader(request))
	must(t, err)
	must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.Copy(io.Discard, conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
