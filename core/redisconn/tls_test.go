package redisconn_test

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts/servers"
)

// hello asks the server of a URL for one thing.
func hello(t *testing.T, rawURL string) error {
	t.Helper()
	c, err := redisconn.Dial(rawURL)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	conn, err := redisconn.New("test", c)
	if err != nil {
		return err
	}
	_, err = conn.Eval(t.Context(), redisconn.NewScript("hello", "return 1"), []string{"{default/0}:meta"})
	return err
}

// A connection over TLS is made when both sides know each other, and else the error shows what
// to do.
func TestTLSErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	server := servers.StartRedisTLS(t)
	dir := t.TempDir()
	stranger := servers.OtherCA(t)
	foreign, foreignCA := stranger.Sign(t, dir, "foreign"), stranger.CA(t, dir)
	expired := servers.CommonCA(t).SignFor(t, dir, "expired", -time.Minute)
	plain := servers.StartRedisTCP(t)
	with := func(change func(url.Values)) string {
		u, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		change(q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	pair := func(p servers.Pair) string {
		return with(func(q url.Values) { q.Set("cert_file", p.Cert); q.Set("key_file", p.Key) })
	}
	for _, tc := range []struct {
		name, url string
		kind      error
		say       string // empty: it works
	}{
		{"both know each other", server.URL(), nil, ""},
		{"by another name that the certificate has", with(func(q url.Values) { q.Set("server_name", "localhost") }), nil, ""},
		{"no authority", with(func(q url.Values) { q.Del("ca_file") }), core.ErrUnavailable, "?ca_file=FILE"},
		{"another authority", with(func(q url.Values) { q.Set("ca_file", foreignCA) }), core.ErrUnavailable, "?ca_file=FILE"},
		{"another name", with(func(q url.Values) { q.Set("server_name", "queue.example.net") }), core.ErrUnavailable, "?server_name=NAME"},
		{"no client's certificate", with(func(q url.Values) { q.Del("cert_file"); q.Del("key_file") }), core.ErrUnavailable, "?cert_file=FILE"},
		{"a foreign client's certificate", pair(foreign), core.ErrUnavailable, "?cert_file=FILE"},
		{"an expired client's certificate", pair(expired), core.ErrUnavailable, "?cert_file=FILE"},
		{"a server without TLS", "rediss://" + plain.Addr, core.ErrUnavailable, "does not speak TLS"},
		{"a server with TLS", "redis://" + server.Addr, core.ErrUnavailable, "rediss:// in place of redis://"},
		{"a server with TLS that says so", "redis://" + alerting(t), core.ErrUnavailable, "rediss:// in place of redis://"},
		{"neither", plain.URL(), nil, ""}, // negative control
		{"no such file", with(func(q url.Values) { q.Set("ca_file", "/nonexistent.pem") }), core.ErrInvalid, "/nonexistent.pem"},
		{"not a certificate", with(func(q url.Values) { q.Set("ca_file", server.Guard.Client.Key) }), core.ErrInvalid, "holds no certificate"},
		{"a key without its certificate", with(func(q url.Values) { q.Del("cert_file") }), core.ErrInvalid, "go together"},
		{"a misspelt parameter", server.URL() + "&cafile=x", core.ErrInvalid, `"cafile"`},
		{"files without TLS", "redis://127.0.0.1?ca_file=x", core.ErrInvalid, "rediss://"},
	} {
		if tc.name == "a server without TLS" && servers.TLSEverywhere() {
			continue
		}
		err := hello(t, tc.url)
		if tc.say == "" && err != nil || tc.say != "" && (!errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.say)) {
			t.Errorf("%s: %v, expected %q", tc.name, err, tc.say)
		}
		if err != nil && strings.Contains(err.Error(), "pass word") {
			t.Errorf("%s: the error has the password: %v", tc.name, err)
		}
	}
}

// alerting is a server that answers what is no TLS as TLS has it, with an alert: a protocol version
// that it does not know.
func alerting(t *testing.T) string {
	t.Helper()
	return serving(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write([]byte{0x15, 3, 1, 0, 2, 2, 70})
	})
}

// serving is the address of a server that deals with one connection after the other.
func serving(t *testing.T, deal func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			deal(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// Connections in the clear go to this machine only, unless the URL allows more; a Sentinel or a
// Cluster does not change that.
func TestOtherMachinesAreNotTalkedToInTheClear(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"redis://10.0.0.1", "redis://queue:6379/0", "redis://user:hunter2@queue", "redis-sentinel://127.0.0.1,s2/mymaster", "redis-cluster://localhost,10.1.1.1", "redis://[2001:db8::1]",
	} {
		c, err := redisconn.Dial(raw)
		if err == nil {
			_ = c.Close()
		}
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "insecure=true") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", raw, err)
		}
		said := raw + "?insecure=true" // negative control
		if c, err = redisconn.Dial(said); err != nil {
			t.Errorf("%s: %v", said, err)
		} else {
			_ = c.Close()
		}
	}
	for _, raw := range []string{"redis://127.0.0.1", "redis://localhost:7000", "redis://[::1]", "rediss://queue", "unix:///run/redis.sock", "rediss-sentinel://s1,s2/mymaster"} {
		if c, err := redisconn.Dial(raw); err != nil {
			t.Errorf("%s: %v", raw, err)
		} else {
			_ = c.Close()
		}
	}
	sentinel := liar(t)
	if err := hello(t, "redis-sentinel://"+sentinel+"/mymaster"); err == nil || !strings.Contains(err.Error(), "192.0.2.1:6379 is another machine") {
		t.Errorf("a Sentinel that names another machine: %v", err)
	}
}

// liar is a Sentinel on this machine whose master is on another.
func liar(t *testing.T) string {
	t.Helper()
	return serving(t, func(c net.Conn) {
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			answer := "-ERR unknown command\r\n"
			switch text := strings.ToLower(string(buf[:n])); {
			case strings.Contains(text, "get-master-addr-by-name"):
				answer = "*2\r\n$9\r\n192.0.2.1\r\n$4\r\n6379\r\n"
			case strings.Contains(text, "sentinels"):
				answer = "*0\r\n"
			}
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	})
}

// A certificate that is renewed, and a CA that is exchanged, are taken over by the client that is
// open.
func TestRenewedFilesAreTakenOver(t *testing.T) {
	t.Parallel()
	server := servers.StartRedisTLS(t)
	dir := t.TempDir()
	mine := servers.OtherCA(t).Sign(t, dir, "mine") // nobody trusts it
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("cert_file", mine.Cert)
	q.Set("key_file", mine.Key)
	u.RawQuery = q.Encode()
	c := servers.DialRedis(t, u.String())
	conn, err := redisconn.New("test", c)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		_, err := conn.Eval(t.Context(), redisconn.NewScript("hello", "return 1"), []string{"{default/0}:meta"})
		return err
	}
	if err := ask(); err == nil {
		t.Fatal("negative control: the server also takes the first certificate")
	}
	renewed := servers.CommonCA(t).Sign(t, t.TempDir(), "mine")
	for from, to := range map[string]string{renewed.Cert: mine.Cert, renewed.Key: mine.Key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Clean(to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	servers.Until(t, "the renewed certificate to be used", func() bool { return ask() == nil })
}
