package securefile_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, f securefile.TLSFiles, reported func(string)) *securefile.TLSSource {
	t.Helper()
	s, err := securefile.OpenTLS(f, reported)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shake is a handshake of the two.
func shake(t *testing.T, server, client *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	done := make(chan error, 1)
	go func() {
		a, err := l.Accept()
		if err == nil {
			err = tls.Server(a, server).Handshake()
			_ = a.Close()
		}
		done <- err
	}()
	b, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(b, client)
	clientErr = c.Handshake()
	if clientErr == nil { // what a server of TLS 1.3 thinks of the client comes afterwards
		_, _ = c.Read(make([]byte, 1))
	}
	_ = b.Close()
	return clientErr, <-done
}

func TestBothSidesAreHeldToTheCA(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	a, stranger := servers.CommonCA(t), servers.OtherCA(t)
	ca, foreignCA := a.CA(t, dir), stranger.CA(t, other)
	server, client, foreign := a.Sign(t, dir, "server", servers.LocalNames()...), a.Sign(t, dir, "client"), stranger.Sign(t, other, "client")
	mutual := open(t, securefile.TLSFiles{CA: ca, Cert: server.Cert, Key: server.Key}, nil).Server()
	plain := open(t, securefile.TLSFiles{Cert: server.Cert, Key: server.Key}, nil).Server()
	for _, tc := range []struct {
		name   string
		server *tls.Config
		files  securefile.TLSFiles
		host   string
		good   bool
	}{
		{"each knows the other", mutual, securefile.TLSFiles{CA: ca, Cert: client.Cert, Key: client.Key}, "localhost", true},
		{"nothing is asked of the client", plain, securefile.TLSFiles{CA: ca}, "localhost", true},
		{"no client's certificate", mutual, securefile.TLSFiles{CA: ca}, "localhost", false},
		{"a foreign client's", mutual, securefile.TLSFiles{CA: ca, Cert: foreign.Cert, Key: foreign.Key}, "localhost", false},
		{"another authority", plain, securefile.TLSFiles{CA: foreignCA}, "localhost", false},
		{"the system's authorities", plain, securefile.TLSFiles{}, "localhost", false},
		{"another name", plain, securefile.TLSFiles{CA: ca}, "queue.example.net", false},
	} {
		c, s := shake(t, tc.server, open(t, tc.files, nil).Client(tc.host))
		if (c == nil && s == nil) != tc.good {
			t.Errorf("%s: client %v, server %v", tc.name, c, s)
		}
	}
}

// A file that is half written leaves the former certificate in use; a whole one is taken over, and
// both are reported once.
func TestRenewalIsTakenOverWhole(t *testing.T) {
	dir := t.TempDir()
	a := servers.CommonCA(t)
	pair := a.Sign(t, dir, "server", "one.example.net")
	var said atomic.Pointer[string]
	s := open(t, securefile.TLSFiles{Cert: pair.Cert, Key: pair.Key}, func(text string) { said.Store(&text) })
	name := func() string {
		t.Helper()
		c, err := s.Server().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.DNSNames[0]
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.After(time.Minute); !ok(); {
			select {
			case <-deadline:
				t.Fatal("waited a minute for " + what)
			case <-tick.C:
			}
		}
	}
	text := func() string {
		if p := said.Load(); p != nil {
			return *p
		}
		return ""
	}
	next := a.Sign(t, t.TempDir(), "server", "two.example.net")
	move := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	move(next.Cert, pair.Cert)
	until("the half pair to be noticed", func() bool { return name() != "" && strings.Contains(text(), "cannot be used") })
	if got := name(); got != "one.example.net" {
		t.Errorf("half a pair is in use: %s", got)
	}
	move(next.Key, pair.Key)
	until("the whole pair", func() bool { return name() == "two.example.net" })
	if !strings.Contains(text(), "was renewed") {
		t.Errorf("reported %q", text())
	}
}

func TestWrongFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	a := servers.CommonCA(t)
	pair, other, ca := a.Sign(t, dir, "a"), a.Sign(t, dir, "b"), a.CA(t, dir)
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]securefile.TLSFiles{
		"/nonexistent":    {CA: "/nonexistent"},
		"empty":           {CA: empty},
		"go together":     {CA: ca, Cert: pair.Cert},
		"private key":     {Cert: pair.Cert, Key: other.Key},
		pair.Key + " hol": {CA: pair.Key},
	} {
		if _, err := securefile.OpenTLS(f, nil); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, expected %q", f, err, name)
		}
	}
}

// An HTTP client that dials by the files takes a renewed CA over with its next connection; the
// system's CAs stay beside a file's.
func TestCAsOfHTTP(t *testing.T) {
	dir := t.TempDir()
	a, stranger := servers.CommonCA(t), servers.OtherCA(t)
	pair := a.Sign(t, dir, "server", servers.LocalNames()...)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	own := open(t, securefile.TLSFiles{Cert: pair.Cert, Key: pair.Key}, nil).Certificate() // else the server has one of its own for clients that give no name
	server.TLS, server.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{*own}, MinVersion: tls.VersionTLS12}, true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ask := func(transport *http.Transport) (string, error) {
		t.Helper()
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Get(server.URL)
		if err != nil {
			return "", err
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		return string(text), err
	}
	ca := stranger.CA(t, dir)
	files := open(t, securefile.TLSFiles{CA: ca}, nil)
	renewing := &http.Transport{DialTLSContext: files.Dial, ForceAttemptHTTP2: true}
	if _, err := ask(renewing); !strings.Contains(fmt.Sprint(err), "unknown authority") {
		t.Fatalf("negative control, another certificate authority: %v", err)
	}
	text, err := os.ReadFile(a.CA(t, t.TempDir()))
	if err == nil {
		err = os.WriteFile(ca, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		proto, err := ask(renewing)
		if err == nil && proto == "HTTP/2.0" {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("waited a minute for the renewed CA: %q, %v", proto, err)
		case <-tick.C:
		}
	}
	both, err := securefile.SystemCAs(ca)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: both, MinVersion: tls.VersionTLS12}}); err != nil {
		t.Errorf("beside the system's: %v", err)
	}
	for name, path := range map[string]string{"no file": "/nonexistent", "no certificate": pair.Key} {
		if pool, err := securefile.SystemCAs(path); pool != nil || !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
