// Package http owns the job type http: one request, from the worker or from the
// host, and what its answer must be. It imports only the sdk.
package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/outward"
)

// Params is the with: of a request.
type Params struct {
	URL       string            `json:"url" turnus:"secret,required,pattern=^https?://" jsonschema:"what to ask"`
	From      string            `json:"from,omitempty" turnus:"default=worker,enum=worker|host" jsonschema:"who asks: the worker, or the host through its connection"`
	Method    string            `json:"method,omitempty" turnus:"default=GET,pattern=^[A-Z]+$" jsonschema:"of the request"`
	Headers   map[string]string `json:"headers,omitempty" turnus:"secret" jsonschema:"of the request"`
	Body      string            `json:"body,omitempty" turnus:"secret" jsonschema:"of the request"`
	Expect    []int             `json:"expect,omitempty" turnus:"default=[200],min=1" jsonschema:"status codes that are good"`
	BodyMatch string            `json:"body_match,omitempty" jsonschema:"regular expression (RE2) that the first 1 MiB of the answer must match"`
	TLSVerify bool              `json:"tls_verify,omitempty" turnus:"default=true" jsonschema:"verify the certificate; false accepts any"`
	CA        string            `json:"ca,omitempty" jsonschema:"certificates (PEM) to trust instead of the system's"`
	Follow    bool              `json:"follow,omitempty" jsonschema:"follow redirects, at most 10"`
	Timeout   sdk.Duration      `json:"timeout,omitempty" turnus:"default=10s" jsonschema:"of the whole request"`
	Changed   bool              `json:"changed,omitempty" jsonschema:"whether a good answer counts as a change"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	if u, err := url.Parse(p.URL); err != nil || u.Hostname() == "" {
		bad.Add("/url", "expected http://HOST… or https://HOST…")
	}
	if _, err := regexp.Compile(p.BodyMatch); err != nil {
		bad.Add("/body_match", "%w", err)
	}
	if p.CA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(p.CA)) {
		bad.Add("/ca", "expected certificates in PEM")
	}
	return bad.Err()
}

// Outputs of a request.
type Outputs struct {
	Status    int     `json:"status" jsonschema:"status code of the answer"`
	Body      string  `json:"body" jsonschema:"the first 24 KiB, cut at white space"`
	Truncated bool    `json:"truncated,omitempty" jsonschema:"the body was longer"`
	Seconds   float64 `json:"seconds" jsonschema:"until the answer was read"`
}

const (
	maxMatched = 1 << 20
	maxKept    = 24 << 10 // as JSON
	maxHeader  = 64 << 10
	maxHops    = 10
)

type runOf = sdk.Run[Params, sdk.NoState]

// Def is the job type. From the worker it reaches inner networks only where they are among reach.
func Def(reach ...netip.Prefix) sdk.Def {
	guard := &outward.Guard{Allow: reach, Refused: errInner}
	return sdk.Job("http", func(ctx context.Context, r *runOf) error { return run(ctx, r, guard) },
		sdk.Summary("Make an HTTP request and judge the answer"),
		sdk.Description(description),
		sdk.Idempotent(false),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("Is the page up, as the worker sees it", sdk.With{"url": "https://shop.example.org/health", "body_match": `"ok"`}),
		sdk.Example("A service on the host's loopback address", sdk.With{"url": "http://127.0.0.1:8080/ready", "from": "host", "expect": []int{200, 204}}),
		sdk.Example("A call that changes something", sdk.With{"url": "https://api.example.org/drain", "method": "POST", "body": "{}", "headers": sdk.With{"Content-Type": "application/json"}, "changed": true}),
		sdk.SecretExample("With a token", sdk.With{"url": "https://api.example.org/me", "headers": sdk.With{"Authorization": "Bearer ${{ secrets.API_TOKEN }}"}}, "API_TOKEN"),
	)
}

const description = `
Makes one request, without proxies. It fails unless the status is one of ` + "`expect`" + ` and the body
matches ` + "`body_match`" + `. Use the playbook's ` + "`retry`" + ` to repeat it.

From the host, connections go through its SSH connection, names are resolved there, and the worker
speaks TLS. From the worker, the plugin's own process sends the request. It reaches no address of
the worker's own network: loopback, private and link-local networks, and metadata addresses of
clouds. Names and redirects do not change that. The operator can open a network:
` + "`--plugin-allow http=10.1.2.0/24`" + ` of the worker.

Check mode makes only GET and HEAD requests from the worker.
`

// errInner does not name the address: it is a name of the worker's network, and the reader may be
// none of it.
var errInner = errors.New("its address is in the worker's own network, which playbooks may not reach from the worker\n" +
	"hint: ask from the host (from: host), or start the worker with --plugin-allow http=NETWORK, as 10.1.2.0/24")

func run(ctx context.Context, r *runOf, guard *outward.Guard) error {
	p := r.Params
	looksOnly := p.Method == http.MethodGet || p.Method == http.MethodHead
	if r.Check && (!looksOnly || p.From == "host") {
		if p.Changed {
			r.Changed()
		}
		r.Explain("would request " + shown(p.URL))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.Timeout))
	defer cancel()
	client := newClient(r, guard)
	defer client.CloseIdleConnections()
	req, err := request(ctx, p)
	if err != nil {
		return sdk.Refuse("request: %w", err)
	}
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return failed(p, looksOnly, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMatched))
	r.Output("status", resp.StatusCode)
	r.Output("seconds", time.Since(begin).Round(time.Millisecond).Seconds())
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	kept := sdk.OutputText(text, maxKept)
	r.Output("body", kept)
	r.Output("truncated", len(kept) < len(text))
	if err != nil {
		return failed(p, looksOnly, fmt.Errorf("reading the answer: %w", err))
	}
	return judge(r, resp.StatusCode, body)
}

func request(ctx context.Context, p Params) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, p.Method, p.URL, strings.NewReader(p.Body))
	if err != nil {
		return nil, err
	}
	for name, value := range p.Headers {
		if strings.EqualFold(name, "Host") {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "turnus")
	}
	return req, nil
}

func newClient(r *runOf, guard *outward.Guard) *http.Client {
	p := r.Params
	transport := &http.Transport{
		DialContext:            guard.Dialer().DialContext,
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: !p.TLSVerify, //nolint:gosec // the operator says so, for this request
		},
	}
	if p.CA != "" {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(p.CA))
	}
	if p.From == "host" {
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
			return r.Host().Dial(ctx, address)
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		switch {
		case !p.Follow:
			return http.ErrUseLastResponse
		case len(via) >= maxHops:
			return fmt.Errorf("more than %d redirects", maxHops)
		}
		return nil
	}}
}

// failed names the request without its query, which may hold a token.
func failed(p Params, looksOnly bool, err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	refused := errors.Is(err, errInner)
	if refused { // without the address that the dialer puts before it
		err = errInner
	}
	failure := sdk.Failf("%s %s from the %s: %w", p.Method, shown(p.URL), p.From, err)
	if !refused {
		failure = failure.Retryable()
	}
	if looksOnly || refused && !p.Follow { // a redirect may follow a request that had effects
		return failure.Effects(sdk.EffectsNone)
	}
	return failure
}

func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the URL"
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}

func judge(r *runOf, status int, body []byte) error {
	p := r.Params
	answer := p.Method + " " + shown(p.URL)
	if !slices.Contains(p.Expect, status) {
		return sdk.Failf("%s: status %d, expected %v", answer, status, p.Expect).Retryable()
	}
	if p.BodyMatch != "" && !regexp.MustCompile(p.BodyMatch).Match(body) {
		return sdk.Failf("%s: the answer does not match %s", answer, p.BodyMatch).Retryable()
	}
	if p.Changed {
		r.Changed()
	}
	return nil
}
