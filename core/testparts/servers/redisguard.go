package servers

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/securefile"
)

// The user that has the rights of the doctor on each server, and its password.
const (
	RedisUser = "turnus"
	Password  = "pass word/of?tests" //nolint:gosec // of servers that tests make
)

// RedisGuard is how a server is guarded: always by a user with the least rights, and, where it has
// certificates, by TLS on both sides.
type RedisGuard struct {
	CA             string
	Server, Client Pair
}

// NewRedisGuard writes certificates into the folder where secure asks for them.
func NewRedisGuard(tb testing.TB, dir string, secure bool) *RedisGuard {
	tb.Helper()
	g := &RedisGuard{}
	if !secure {
		return g
	}
	a := CommonCA(tb)
	g.CA = a.CA(tb, dir)
	g.Server, g.Client = a.Sign(tb, dir, "server", LocalNames()...), a.Sign(tb, dir, "client")
	return g
}

// Secure reports whether the server speaks TLS.
func (g *RedisGuard) Secure() bool { return g.CA != "" }

// listen are the arguments by which a server listens on a port.
func (g *RedisGuard) listen(port string) []string {
	if !g.Secure() {
		return []string{"--port", port}
	}
	return []string{
		"--port", "0", "--tls-port", port, "--tls-cert-file", g.Server.Cert, "--tls-key-file", g.Server.Key, "--tls-ca-cert-file", g.CA,
		"--tls-auth-clients", "yes", "--tls-replication", "yes", "--tls-cluster", "yes",
	}
}

// Arguments returns the arguments of a server on a port of 127.0.0.1 that e2e tests start without
// this package.
func (g *RedisGuard) Arguments(tb testing.TB, port string) []string {
	tb.Helper()
	return append(g.listen(port), aclArguments(tb, redisconn.DoctorRole)...)
}

func aclArguments(tb testing.TB, role redisconn.Role) []string {
	tb.Helper()
	rules, err := redisconn.ACLRules(role, Password)
	must(tb, err)
	return append([]string{"--user", RedisUser}, rules...)
}

// query returns the query of a URL for TLS.
func (g *RedisGuard) query() url.Values {
	q := url.Values{}
	if g.Secure() {
		q.Set("ca_file", g.CA)
		q.Set("cert_file", g.Client.Cert)
		q.Set("key_file", g.Client.Key)
	}
	return q
}

// URL is how the user reaches what is at host, which may be several; kind is "", -sentinel or
// -cluster.
func (g *RedisGuard) URL(kind, host, path string, more ...string) string {
	scheme := "redis"
	if g.Secure() {
		scheme = "rediss"
	}
	q := g.query()
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	text := scheme + kind + "://" + url.UserPassword(RedisUser, Password).String() + "@" + host + path
	if len(q) > 0 {
		text += "?" + q.Encode()
	}
	return text
}

// Options are those of an administrator's client, without retries.
func (g *RedisGuard) Options(tb testing.TB, addr string) *goredis.Options {
	tb.Helper()
	return &goredis.Options{Addr: addr, MaxRetries: -1, TLSConfig: g.config(addr)}
}

// config is nil without TLS.
func (g *RedisGuard) config(addr string) *tls.Config {
	if !g.Secure() {
		return nil
	}
	files, err := securefile.OpenTLS(securefile.TLSFiles{CA: g.CA, Cert: g.Client.Cert, Key: g.Client.Key}, nil)
	if err != nil {
		panic(err) // this package wrote them
	}
	name, _, _ := net.SplitHostPort(addr)
	return files.Client(name)
}

// URL is how the user with the least rights reaches the server.
func (s *Redis) URL() string {
	if s.Socket {
		return "unix://" + url.UserPassword(RedisUser, Password).String() + "@" + s.Addr
	}
	return s.Guard.URL("", s.Addr, "")
}

// Open returns a new connection to the server, on which nothing was sent yet.
func (s *Redis) Open(ctx context.Context) (net.Conn, error) {
	if config := s.Guard.config(s.Addr); config != nil {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", s.Addr)
	}
	network := "tcp"
	if s.Socket {
		network = "unix"
	}
	return (&net.Dialer{}).DialContext(ctx, network, s.Addr)
}

// User is a client of the user with the least rights, as Turnus makes it, until the test ends.
func (s *Redis) User(tb testing.TB) *goredis.Client {
	tb.Helper()
	c := DialRedis(tb, s.URL())
	return c.(*goredis.Client) //nolint:forcetypeassert // one server
}

// DialRedis is the client of a URL until the test ends.
func DialRedis(tb testing.TB, rawURL string) goredis.UniversalClient {
	tb.Helper()
	c, err := redisconn.Dial(rawURL)
	must(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}
