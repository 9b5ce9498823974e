package service

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/pages"
	"github.com/turnus/turnus/core/server"
	"github.com/turnus/turnus/core/testparts"
)

// A browser that announces a body and does not send it, or does not read a page, holds no
// connection. Control: without the bounds of server.HTTP it does.
func TestTrapSlowBrowsersHoldNoConnection(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	p, err := pages.New(pages.Config{API: http.NotFoundHandler(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	handler := beside(p, http.NotFoundHandler())
	for name, c := range map[string]struct {
		request string
		reads   bool
	}{
		"half a login":            {"POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\ntoken=", true},
		"a style with a body":     {"GET /assets/app.css HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", true},
		"a page that is not read": {"GET /assets/app.css HTTP/1.1\r\nHost: x\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bounded := server.HTTP(handler, quiet)
				bounded.IdleTimeout = 0 // what ends the connection is no idle time
				for _, web := range []*http.Server{bounded, {Handler: handler}} {
					if ended := ends(t, web, c.request, c.reads); ended != (web == bounded) {
						t.Errorf("with bounds %v: the connection ended: %v", web == bounded, ended)
					}
				}
			})
		})
	}
}

// ends sends a request, and reports whether the server closes the connection within an hour: while
// the response is read, or before.
func ends(t *testing.T, web *http.Server, request string, reads bool) bool {
	t.Helper()
	client, served := net.Pipe()
	l := testparts.ListenOne(served)
	done := make(chan struct{})
	go func() { defer close(done); _ = web.Serve(l) }()
	defer func() { _ = client.Close(); _ = web.Close(); <-done }()
	if _, err := io.Copy(client, strings.NewReader(request)); err != nil {
		t.Fatal(err)
	}
	if !reads {
		<-time.After(time.Hour)
	}
	_ = client.SetReadDeadline(time.Now().Add(time.Hour))
	n, err := io.Copy(io.Discard, client)
	return err == nil && (reads || n == 0)
}
