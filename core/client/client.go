package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/telemetry"
)

// Config is the server that is asked, and the login there.
type Config struct {
	Server string // its URL: https://HOST[:PORT], http://127.0.0.1:PORT
	Token  string // "" asks without one
	// CAs are certificates, in PEM, that may sign the server's; the system's when empty.
	CAs         []byte
	Certificate *tls.Certificate // of this client, where the server asks for one
	// Insecure lets requests go over http to another machine, where everybody on the way can read
	// tokens.
	Insecure bool
	Agent    string        // of the User-Agent header
	Patience time.Duration // how long to keep asking a server that does not answer; 3 s when zero
}

// Client asks one server. It is safe for concurrent use.
type Client struct {
	server   string
	token    string
	agent    string
	patience time.Duration
	http     *http.Client
	tls      *tls.Config // as http's
	match    string      // see IfMatch
}

// Bounds of one request.
const (
	answerWithin = 60 * time.Second // what is not a stream
	maxAnswer    = 256 << 20        // bytes of one answer
)

// New checks the configuration; nothing is contacted. Errors wrap core.ErrInvalid.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.Server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("server %q: expected a URL as https://turnus.example.net or http://127.0.0.1:8470: %w\nhint: --server https://HOST[:PORT]; turnus context ls shows the servers that are kept", c.Server, core.ErrInvalid)
	}
	if u.Scheme == "http" && !c.Insecure && !core.ThisMachine(u.Hostname()) { // also without a token: a login sends and gets one
		return nil, fmt.Errorf("server %s: tokens and logins would go over the network in the clear: use https: %w\nhint: --server https://%s; or, on a network that is yours alone: turnus context set NAME --server %s --insecure-http",
			c.Server, core.ErrInvalid, u.Host, c.Server)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: answerWithin,
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.Certificate != nil {
		secure.Certificates = []tls.Certificate{*c.Certificate}
	}
	if len(c.CAs) > 0 {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(c.CAs) {
			return nil, fmt.Errorf("server %s: no certificate in the file of its certificate authority: expected PEM: %w", c.Server, core.ErrInvalid)
		}
	}
	transport.TLSClientConfig = secure.Clone()
	c.Patience = cmp.Or(c.Patience, 3*time.Second)
	return &Client{
		server: strings.TrimRight(u.String(), "/"), token: c.Token, agent: c.Agent, patience: c.Patience,
		http: &http.Client{Transport: transport, CheckRedirect: sameServer}, tls: secure,
	}, nil
}

// InProcess returns a client of a server in this process, which transport asks.
func InProcess(transport http.RoundTripper) *Client {
	return &Client{server: inProcess, patience: time.Millisecond, http: &http.Client{Transport: transport}}
}

// Local reports whether the record on this machine is asked, and no server.
func (c *Client) Local() bool { return c.server == inProcess }

// inProcess stands for the address of a server that has none.
const inProcess = "http://in-process"

// sameServer follows no redirect to another server, which would get the token.
func sameServer(next *http.Request, via []*http.Request) error {
	if first := via[0].URL; next.URL.Scheme != first.Scheme || next.URL.Host != first.Host || len(via) > 5 {
		return fmt.Errorf("it sends on to %s, which is not asked: name that server", next.URL.Host)
	}
	return nil
}

// Server is the address that is asked.
func (c *Client) Server() string { return c.server }

// Close lets idle connections go.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call is one request.
type call struct {
	what   string // for errors: "show run R"
	method string
	path   string // escaped
	query  url.Values
	body   any                       // JSON; nil is none
	raw    func() (io.Reader, error) // instead of body: bytes, from their beginning each time
	header http.Header
	again  bool    // asking twice is as once
	etag   *string // where the ETag of the answer goes; nil: it is not needed
}

// Backoff between tries of what may be asked again.
var again = core.Backoff{Interval: 100 * time.Millisecond, Max: time.Second}

// do asks and reads the answer into out, which may be nil.
func (c *Client) do(ctx context.Context, q call, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*answerWithin)
	defer cancel()
	until := time.Now().Add(c.patience)
	for n := 0; ; n++ {
		err := c.once(ctx, q, out)
		var e *Error
		if err == nil || !errors.As(err, &e) || !e.passing(q.again) || ctx.Err() != nil {
			return err
		}
		pause := again.Delay(n, 0)
		if time.Now().Add(pause).After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// passing reports whether asking again soon may do: the server did not take the request, or asking
// twice is as once.
func (e *Error) passing(again bool) bool {
	return errors.Is(e, core.ErrUnavailable) && (e.Status == 0 || again) || again && errors.Is(e, core.ErrUnknown)
}

func (c *Client) once(ctx context.Context, q call, out any) error {
	resp, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if q.etag != nil {
		*q.etag = resp.Header.Get("ETag")
	}
	if out == nil || resp.StatusCode == http.StatusNoContent {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProblem)) // so that the connection serves again
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &Error{Server: c.server, What: q.what, Status: resp.StatusCode, Detail: "the answer cannot be read: " + err.Error(), Err: core.ErrUnknown}
	}
	return nil
}

// send asks, and returns an answer that is no error.
func (c *Client) send(ctx context.Context, q call) (*http.Response, error) {
	target := c.server + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	var body io.Reader
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.what, err)
		}
		body = bytes.NewReader(text)
	}
	if q.raw != nil {
		var err error
		if body, err = q.raw(); err != nil {
			return nil, fmt.Errorf("%s: %w", q.what, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, q.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", q.what, core.ErrInvalid, err)
	}
	maps.Copy(req.Header, q.header)
	if trace := telemetry.Traceparent(ctx); trace != "" {
		req.Header.Set(telemetry.TraceHeader, trace)
	}
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if q.raw != nil {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.agent != "" {
		req.Header.Set("User-Agent", c.agent)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, context.Cause(ctx)
		}
		return nil, away(c.server, q.what, c.refusal(ctx, err))
	}
	if resp.StatusCode >= 300 {
		defer func() { _ = resp.Body.Close() }()
		return nil, problemOf(c.server, q.what, resp)
	}
	return resp, nil
}

// path joins escaped parts.
func path(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}
