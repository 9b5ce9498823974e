package ledger

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// postgresURL is a URL with its parameters of the connection.
type postgresURL struct {
	url      string // without what is ours
	insecure bool
}

// errURL replaces the error of the library, whose message may repeat the URL and with it a
// password.
func errURL() error {
	return fmt.Errorf("not a URL that PostgreSQL's programs read: expected postgres://USER@HOST/DATABASE: %w", core.ErrInvalid)
}

// parsePostgres reads a URL. Servers on other machines are verified in full unless the URL, or
// PGSSLMODE, has another mode. For them, a mode weaker than a verified certificate needs
// insecure=true in the URL.
func parsePostgres(raw string) (*pgx.ConnConfig, postgresURL, error) {
	var p postgresURL
	u, err := url.Parse(raw)
	if err != nil {
		return nil, p, errURL()
	}
	q := u.Query()
	switch q.Get("insecure") {
	case "":
	case "true":
		p.insecure = true
		q.Del("insecure")
		u.RawQuery = q.Encode()
		raw = u.String()
	default:
		return nil, p, fmt.Errorf("insecure=%s in the URL, expected true or nothing: %w", q.Get("insecure"), core.ErrInvalid)
	}
	p.url = raw
	config, err := pgx.ParseConfig(raw)
	if err != nil {
		return nil, p, filesOr(q, errURL())
	}
	host := exposed(config)
	if host == "" || p.insecure {
		return config, p, nil
	}
	if q.Get("sslmode") == "" && os.Getenv("PGSSLMODE") == "" {
		q.Set("sslmode", "verify-full")
		u.RawQuery = q.Encode()
		p.url = u.String()
		if config, err = pgx.ParseConfig(p.url); err != nil {
			return nil, p, filesOr(q, errURL())
		}
		host = exposed(config)
	}
	if host != "" {
		return nil, p, fmt.Errorf("%s is another machine, and with this sslmode somebody on the network could answer for it: %w\n"+
			"hint: leave sslmode out, or use verify-full, with sslrootcert=FILE for your own CA; where nobody else can listen, set insecure=true", host, core.ErrInvalid)
	}
	return config, p, nil
}

// filesOr names the file of the URL that cannot be read, or else gives the error.
func filesOr(q url.Values, or error) error {
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		path := q.Get(name)
		if path == "" || name == "sslrootcert" && path == "system" {
			continue
		}
		if _, err := os.ReadFile(path); err != nil {
			return fmt.Errorf("%s in the URL: %w: %w", name, err, core.ErrInvalid)
		}
	}
	files := securefile.TLSFiles{Cert: q.Get("sslcert"), Key: q.Get("sslkey")}
	if path := q.Get("sslrootcert"); path != "system" {
		files.CA = path
	}
	if _, err := securefile.OpenTLS(files, nil); err != nil {
		return err
	}
	return or
}

// exposed is a host of another machine that would be talked to without a verified certificate; ""
// is none.
func exposed(c *pgx.ConnConfig) string {
	if weak(c.Host, c.TLSConfig) {
		return c.Host
	}
	for _, f := range c.Fallbacks {
		if weak(f.Host, f.TLSConfig) {
			return f.Host
		}
	}
	return ""
}

func weak(host string, c *tls.Config) bool {
	if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || core.ThisMachine(host) {
		return false
	}
	return c == nil || c.InsecureSkipVerify && c.VerifyPeerCertificate == nil
}

// renewed gives new connections the certificates that are in the files now.
type renewed struct {
	url   string
	watch *securefile.Watch // nil: there are no files

	mu  sync.Mutex
	now *pgx.ConnConfig
}

func newRenewed(p postgresURL, config *pgx.ConnConfig) *renewed {
	r := &renewed{url: p.url, now: config}
	u, err := url.Parse(p.url)
	if err != nil {
		return r
	}
	var files []string
	for param, variable := range map[string]string{"sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"} {
		if path := cmp.Or(u.Query().Get(param), os.Getenv(variable)); path != "" && path != "system" {
			files = append(files, path)
		}
	}
	if len(files) > 0 {
		r.watch = securefile.NewWatch(files...)
	}
	return r
}

// connect is asked before each connection. Files that cannot be used, as while they are written,
// leave the former in use.
func (r *renewed) connect(_ context.Context, c *pgx.ConnConfig) error {
	if r.watch == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watch.Changed(securefile.MaxAge) {
		if next, err := pgx.ParseConfig(r.url); err == nil {
			r.now = next
		} else {
			r.watch.Again()
		}
	}
	c.TLSConfig, c.Fallbacks = r.now.TLSConfig, r.now.Fallbacks
	return nil
}

// tlsHint returns the hint about a handshake that failed; "" where err is none.
func tlsHint(err error) string {
	if err == nil {
		return ""
	}
	if strings.Contains(err.Error(), "server refused TLS connection") {
		return "the server does not speak TLS\nhint: set ssl = on there, with ssl_cert_file and ssl_key_file; in a network that nobody else can listen to, write insecure=true and sslmode=disable in the URL"
	}
	if strings.Contains(err.Error(), "requires a valid client certificate") {
		return "the server wants a client's certificate that a CA it knows has signed\nhint: sslcert=FILE and sslkey=FILE in the URL name one"
	}
	return securefile.ExplainTLS(err, securefile.TLSHints{
		CA: "sslrootcert=FILE in the URL", Cert: "sslcert=FILE and sslkey=FILE in the URL name one", Name: "the URL's host",
	})
}
