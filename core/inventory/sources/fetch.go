package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

// Times and bounds of one fetch.
const (
	fetchTime   = 3 * time.Minute
	requestTime = time.Minute
	maxAnswer   = 32 << 20  // of one page
	maxFetched  = 256 << 20 // of all answers of one fetch
)

// Fetcher asks sources. Its methods are safe for concurrent use.
type Fetcher struct {
	// Token returns the value of a secret; nil: there are none.
	Token func(ctx context.Context, name string) ([]byte, error)
	// Sandbox confines programs; nil does not.
	Sandbox *sandbox.Sandbox

	most int // bytes of all answers of one fetch; 0 is maxFetched
}

// Fetch returns all hosts of a source as they are now, or an error that names the source: there is
// no half of a generation. The generation is a valid inventory.
func (f *Fetcher) Fetch(ctx context.Context, s Source) (*Generation, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTime, fmt.Errorf("no answer within %v: %w", fetchTime, core.ErrTimeout))
	defer cancel()
	g := &Generation{Source: s.Name, Fetched: time.Now().UTC()}
	err := f.fetch(ctx, s, g)
	if err == nil && len(g.Body) > maxBody {
		err = fmt.Errorf("it has more than %d MiB: %w", maxBody>>20, core.ErrInvalid)
	}
	if err == nil {
		_, err = g.Summary(ctx)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("source %s (%s): %w", s.Name, s.Place(), err)
	}
	return g, nil
}

func (f *Fetcher) fetch(ctx context.Context, s Source, g *Generation) error {
	token, err := f.token(ctx, s)
	if err != nil {
		return err
	}
	defer clear(token)
	if s.Kind == Exec {
		return f.run(ctx, s, string(token), g)
	}
	c, err := newClient(s, string(token))
	if err != nil {
		return err
	}
	defer c.http.CloseIdleConnections()
	c.left = cmp.Or(f.most, maxFetched)
	c.most = c.left
	if s.Kind == NetBox {
		return fetchNetBox(ctx, c, s, g)
	}
	var body json.RawMessage
	if err := c.get(ctx, s.URL, func(r io.Reader) error {
		data, err := io.ReadAll(r)
		body = data
		return err
	}); err != nil {
		return err
	}
	if !json.Valid(body) {
		return notJSON(s.URL)
	}
	g.Body = string(body)
	return nil
}

func (f *Fetcher) token(ctx context.Context, s Source) ([]byte, error) {
	if s.Token == "" {
		return nil, nil
	}
	if f.Token == nil {
		return nil, fmt.Errorf("token %s: this process has no secrets: %w\nhint: --secrets FILE names them", s.Token, core.ErrInvalid)
	}
	token, err := f.Token(ctx, s.Token)
	if err != nil {
		return nil, fmt.Errorf("token %s: %w", s.Token, err)
	}
	if strings.ContainsFunc(string(token), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("token %s: its value has characters that no header may have: %w", s.Token, core.ErrInvalid)
	}
	return token, nil
}

// client asks one server.
type client struct {
	http   *http.Client
	header http.Header
	most   int // bytes of all its answers
	left   int // the rest of them
}

// bearerPrefix begins NetBox tokens of the second version.
const bearerPrefix = "nbt_"

func newClient(s Source, token string) (*client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second}
	if s.CA != "" {
		files, err := securefile.OpenTLS(securefile.TLSFiles{CA: s.CA}, nil)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		transport.TLSClientConfig, transport.DialTLSContext = files.Client(""), files.Dial
	}
	c := &client{header: http.Header{"Accept": {"application/json"}, "User-Agent": {"turnus"}}}
	switch {
	case token == "":
	case s.Kind == NetBox && !strings.HasPrefix(token, bearerPrefix):
		c.header.Set("Authorization", "Token "+token)
	default:
		c.header.Set("Authorization", "Bearer "+token)
	}
	c.http = &http.Client{Transport: transport, Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token would go along
	}}
	return c, nil
}

// get asks for a page of JSON. Errors have no query and nothing of the body.
func (c *client) get(ctx context.Context, u *url.URL, read func(io.Reader) error) error {
	shown := shownURL(u)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("GET %s: %w", shown, core.ErrInvalid)
	}
	req.Header = c.header.Clone()
	resp, err := c.http.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // its URL has the query
		}
		return fmt.Errorf("GET %s: %w: %w", shown, err, core.ErrUnavailable)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: the server answers %d: %s", shown, resp.StatusCode, statusText(resp.StatusCode))
	}
	bound := min(maxAnswer, c.left)
	body := &limited{r: resp.Body, left: bound}
	err = read(body)
	c.left -= bound - body.left
	if err != nil {
		switch {
		case c.left <= 0:
			return fmt.Errorf("GET %s: this answer and those before it have more than %d MiB: %w\nhint: filter: of the source asks for fewer records", shown, c.most>>20, core.ErrInvalid)
		case body.left <= 0:
			return fmt.Errorf("GET %s: the answer has more than %d MiB: %w", shown, maxAnswer>>20, core.ErrInvalid)
		}
		return fmt.Errorf("GET %s: %w", shown, err)
	}
	return nil
}

func statusText(code int) string {
	switch {
	case code == http.StatusUnauthorized:
		return "it does not know the token: check token: of the source"
	case code == http.StatusForbidden:
		return "the token may not read this: give it the permission to view"
	case code >= 300 && code < 400:
		return "it sends elsewhere, which is not followed: give the URL that it sends to"
	}
	return http.StatusText(code)
}

// shownURL is a URL without its query.
func shownURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func notJSON(u *url.URL) error {
	return fmt.Errorf("GET %s: the answer is not JSON: %w", shownURL(u), core.ErrInvalid)
}

// limited fails at the bound instead of ending there: half of an answer is none.
type limited struct {
	r    io.Reader
	left int
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("too long: %w", core.ErrInvalid)
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// clipped is a name of another system, for a message.
func clipped(text string) string { return yamlread.Clip(text) }
