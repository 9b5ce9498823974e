package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

const (
	maxVaultAnswer = 4 << 20
	vaultTries     = 3
)

// vaultClient reads key-value engines of one Vault, and keeps its token alive. Safe for concurrent
// use.
type vaultClient struct {
	cfg   Vault
	base  *url.URL
	http  *http.Client
	log   *slog.Logger
	retry core.Backoff

	session vaultSession

	mu     sync.Mutex
	mounts map[string]vaultMount // by the first word of a path
}

// vaultMount is a key-value engine: where it begins, and whether it keeps versions.
type vaultMount struct {
	path string // with a slash at its end
	v2   bool
}

func newVaultClient(cfg Vault, log *slog.Logger) (*vaultClient, error) {
	base, err := cfg.url()
	if err != nil {
		return nil, err
	}
	transport, err := cfg.transport(log)
	if err != nil {
		return nil, err
	}
	c := &vaultClient{
		cfg: cfg, base: base, log: log, mounts: map[string]vaultMount{},
		retry: core.Backoff{Interval: 200 * time.Millisecond, Max: 2 * time.Second, Jitter: 0.2},
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token would go along
		}},
	}
	c.session.limiter = make(chan struct{}, 1)
	return c, nil
}

// vaultStatus is an answer other than 200 or 204. It holds nothing of the answer's body.
type vaultStatus struct {
	code int
	what string // METHOD PATH
}

func (e *vaultStatus) Error() string {
	why := http.StatusText(e.code)
	switch {
	case e.code == http.StatusForbidden:
		why = "its policy does not allow it, or the token has ended"
	case e.code == http.StatusNotFound:
		why = "there is nothing"
	case e.code == http.StatusServiceUnavailable:
		why = "it is sealed, or not ready"
	case e.code >= 300 && e.code < 400:
		why = "it sends elsewhere, which is not followed: give the address of the active node, or of what stands before it"
	}
	return fmt.Sprintf("Vault answers %d to %s: %s", e.code, e.what, why)
}

// Is translates to the errors that cross rooms.
func (e *vaultStatus) Is(target error) bool {
	switch {
	case e.temporary():
		return target == core.ErrUnavailable
	case e.code == http.StatusNotFound:
		return target == core.ErrNotFound
	}
	return target == core.ErrInvalid
}

// temporary: 412 is a replica that has not caught up, 429 too many requests.
func (e *vaultStatus) temporary() bool {
	return e.code >= 500 || e.code == http.StatusTooManyRequests || e.code == http.StatusPreconditionFailed
}

// call sends one request, again while Vault does not answer or is not available. into gets the
// answer's JSON.
func (c *vaultClient) call(ctx context.Context, method, path, token string, body, into any) error {
	for n := 0; ; n++ {
		err := c.once(ctx, method, path, token, body, into)
		if err == nil || !errors.Is(err, core.ErrUnavailable) || n == vaultTries-1 {
			return err
		}
		if core.Sleep(ctx, c.retry.Delay(n, 0.5)) != nil {
			return err
		}
	}
}

func (c *vaultClient) once(ctx context.Context, method, path, token string, body, into any) error {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("vault: %w", err)
		}
		defer clear(data)
		payload = bytes.NewReader(data)
	}
	what := method + " " + path
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath("v1", path).String(), payload)
	if err != nil {
		return fmt.Errorf("vault: %s: %w", what, core.ErrInvalid)
	}
	req.Header.Set("X-Vault-Request", "true") // which agents ask for, so that no browser is led to them
	if token != "" {
		req.Header.Set("X-Vault-Token", token)
	}
	if c.cfg.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", c.cfg.Namespace)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("Vault %s does not answer: %w: %w", c.base.Host, plainError(err), core.ErrUnavailable)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := readAtMost(resp.Body, maxVaultAnswer)
	defer clear(data)
	switch {
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent:
		return &vaultStatus{resp.StatusCode, what}
	case err != nil:
		return fmt.Errorf("the answer of Vault to %s broke off: %w", what, core.ErrUnavailable)
	case len(data) > maxVaultAnswer:
		return fmt.Errorf("the answer of Vault to %s is longer than %d MiB: %w", what, maxVaultAnswer>>20, core.ErrInvalid)
	case into == nil:
		return nil
	}
	if json.Unmarshal(data, into) != nil { // its error may quote the answer
		return fmt.Errorf("the answer of Vault to %s is not the JSON that was expected: is %s a Vault? %w", what, c.base.Host, core.ErrInvalid)
	}
	return nil
}

// plainError takes the URL out of an HTTP client's error: its caller names the place.
func plainError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// authorized sends a request with the node's token. One that is refused is replaced once, where
// there is a way to get another.
func (c *vaultClient) authorized(ctx context.Context, method, path string, body, into any) error {
	for again := false; ; again = true {
		token, err := c.token(ctx)
		if err != nil {
			return err
		}
		err = c.call(ctx, method, path, token, body, into)
		if s := (*vaultStatus)(nil); again || !errors.As(err, &s) || s.code != http.StatusForbidden || !c.ended(ctx, token) || !c.replaceable(token) {
			return err
		}
		c.drop(token)
	}
}

// read gives one field of one entry.
func (c *vaultClient) read(ctx context.Context, p vaultPath) ([]byte, error) {
	m, err := c.mount(ctx, p.path)
	if err != nil {
		return nil, err
	}
	path := p.path
	if m.v2 {
		path = m.path + "data/" + strings.TrimPrefix(p.path, m.path)
	}
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	err = c.authorized(ctx, http.MethodGet, path, nil, &answer)
	defer clear(answer.Data)
	if errors.Is(err, core.ErrNotFound) {
		return nil, fmt.Errorf("Vault has nothing at %s, or its newest version was deleted: %w", p.path, core.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	data := answer.Data
	if m.v2 {
		var versioned struct {
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal(data, &versioned) != nil || len(versioned.Data) == 0 || string(versioned.Data) == "null" {
			return nil, fmt.Errorf("Vault has no version of %s: %w", p.path, core.ErrNotFound)
		}
		data = versioned.Data
		defer clear(data)
	}
	return fieldOf(data, p)
}

// fieldOf gives a text as it is, and any other value as its JSON.
func fieldOf(data json.RawMessage, p vaultPath) ([]byte, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return nil, fmt.Errorf("%s is no entry of a key-value engine: %w", p.path, core.ErrInvalid)
	}
	defer func() {
		for _, v := range fields {
			clear(v)
		}
	}()
	raw, ok := fields[p.field]
	if !ok {
		return nil, fmt.Errorf("%s has no field %q: %w", p.path, yamlread.Clip(p.field), core.ErrNotFound)
	}
	var text string
	switch {
	case string(raw) == "null":
		return nil, fmt.Errorf("the field %q of %s is null: %w", yamlread.Clip(p.field), p.path, core.ErrNotFound)
	case json.Unmarshal(raw, &text) == nil:
		return []byte(text), nil
	}
	return bytes.Clone(raw), nil
}

// mount asks once how an engine is mounted, as Vault's own command line does.
func (c *vaultClient) mount(ctx context.Context, path string) (vaultMount, error) {
	c.mu.Lock()
	for at, m := range c.mounts {
		if strings.HasPrefix(path, at) {
			c.mu.Unlock()
			return m, nil
		}
	}
	c.mu.Unlock()
	var answer struct {
		Data struct {
			Path    string            `json:"path"`
			Type    string            `json:"type"`
			Options map[string]string `json:"options"`
		} `json:"data"`
	}
	err := c.authorized(ctx, http.MethodGet, "sys/internal/ui/mounts/"+path, nil, &answer)
	if err != nil {
		return vaultMount{}, fmt.Errorf("how %s is mounted: %w", path, err)
	}
	m := vaultMount{strings.Trim(answer.Data.Path, "/") + "/", answer.Data.Options["version"] == "2"}
	if t := answer.Data.Type; t != "kv" && t != "generic" || !strings.HasPrefix(path, m.path) {
		return m, fmt.Errorf("%s is in an engine of the type %q, and only key-value engines hold secrets to be read: %w", path, yamlread.Clip(t), core.ErrInvalid)
	}
	c.mu.Lock()
	c.mounts[m.path] = m
	c.mu.Unlock()
	return m, nil
}
