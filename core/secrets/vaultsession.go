package secrets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

const maxToken = 4096

// vaultSession is the token of a client: where it is from, and until when it holds.
type vaultSession struct {
	limiter chan struct{} // who logs in

	mu        sync.Mutex
	token     string
	ours      bool // got by logging in, so to be given back
	renewable bool
	until     time.Time // zero: for ever
	span      time.Duration
	stop      context.CancelFunc
	done      chan struct{}
	changed   chan struct{} // closed with the next token
}

// vaultAuth is Vault's answer about a token, when it makes, renews or checks one.
type vaultAuth struct {
	Auth struct {
		ClientToken   string `json:"client_token"`
		LeaseDuration int    `json:"lease_duration"` // s
		Renewable     bool   `json:"renewable"`
	} `json:"auth"`
	Data struct {
		TTL       int  `json:"ttl"` // s; 0 is for ever
		Renewable bool `json:"renewable"`
	} `json:"data"`
}

// token gives the token that holds, getting one where there is none. One caller logs in, the others
// wait.
func (c *vaultClient) token(ctx context.Context) (string, error) {
	if t := c.held(); t != "" {
		return t, nil
	}
	select {
	case c.session.limiter <- struct{}{}:
		defer func() { <-c.session.limiter }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if t := c.held(); t != "" {
		return t, nil
	}
	if c.cfg.AppRole != nil {
		return c.login(ctx)
	}
	token, err := c.given()
	if err != nil {
		return "", err
	}
	var about vaultAuth
	if err := c.call(ctx, http.MethodGet, "auth/token/lookup-self", token, nil, &about); err != nil {
		return "", fmt.Errorf("the token of this node: %w", err)
	}
	c.hold(token, false, about.Data.Renewable, about.Data.TTL)
	return token, nil
}

func (c *vaultClient) held() string {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.until.IsZero() && !s.until.After(time.Now()) {
		s.token = ""
	}
	return s.token
}

func (c *vaultClient) hold(token string, ours, renewable bool, seconds int) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	c.session.hold(token, ours, renewable, seconds)
}

// hold is called under mu.
func (s *vaultSession) hold(token string, ours, renewable bool, seconds int) {
	s.token, s.ours, s.renewable, s.until, s.span = token, ours, renewable, time.Time{}, time.Duration(seconds)*time.Second
	if s.span > 0 {
		s.until = time.Now().Add(s.span)
	}
	if s.changed != nil {
		close(s.changed)
	}
	s.changed = make(chan struct{})
}

// prolong notes that a token was renewed, unless it was refused and another has come since: that
// one holds.
func (c *vaultClient) prolong(token string, renewable bool, seconds int) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == token {
		s.hold(token, s.ours, renewable, seconds)
	}
}

// drop forgets a token that was refused, unless another has come since.
func (c *vaultClient) drop(token string) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == token {
		s.token = ""
	}
}

// ended distinguishes a token that has ended from one that may not do something: logging in again
// would not help the latter.
func (c *vaultClient) ended(ctx context.Context, token string) bool {
	var about vaultAuth
	err := c.call(ctx, http.MethodGet, "auth/token/lookup-self", token, nil, &about)
	s := (*vaultStatus)(nil)
	return errors.As(err, &s) && s.code == http.StatusForbidden
}

// replaceable reports whether a token that was refused can be followed by another.
func (c *vaultClient) replaceable(token string) bool {
	if c.cfg.AppRole != nil {
		return true
	}
	now, err := c.given()
	return err == nil && now != token
}

// given is the token of the environment, or of a file, as it is now.
func (c *vaultClient) given() (string, error) {
	if name := c.cfg.TokenEnv; name != "" {
		return one(os.Getenv(name), "the environment variable "+name)
	}
	data, err := readTrusted(c.cfg.TokenFile, maxToken, readableByOthers)
	defer clear(data)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	return one(string(data), c.cfg.TokenFile)
}

// one is a text that must be one word, as tokens are.
func one(text, from string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxToken || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "", fmt.Errorf("%s does not hold one token: %w", from, core.ErrInvalid)
	}
	return text, nil
}

func (c *vaultClient) login(ctx context.Context) (string, error) {
	a := c.cfg.AppRole
	id, err := one(os.Getenv(a.SecretIDEnv), "the environment variable "+a.SecretIDEnv)
	if a.SecretIDFile != "" {
		var data []byte
		if data, err = readTrusted(a.SecretIDFile, maxToken, readableByOthers); err == nil {
			id, err = one(string(data), a.SecretIDFile)
		}
		clear(data)
	}
	if err != nil {
		return "", fmt.Errorf("approle: secret id: %w", err)
	}
	var got vaultAuth
	err = c.call(ctx, http.MethodPost, "auth/"+cmp.Or(a.Mount, "approle")+"/login", "", map[string]string{"role_id": a.RoleID, "secret_id": id}, &got)
	if err != nil {
		return "", fmt.Errorf("log in by approle: %w", err)
	}
	token, err := one(got.Auth.ClientToken, "Vault's answer")
	if err != nil {
		return "", fmt.Errorf("log in by approle: %w", err)
	}
	c.hold(token, true, got.Auth.Renewable, got.Auth.LeaseDuration)
	return token, nil
}

// start keeps the token alive until stop: it is renewed once two thirds of its time are gone.
func (c *vaultClient) start() {
	ctx, cancel := context.WithCancel(context.Background())
	c.session.stop, c.session.done = cancel, make(chan struct{})
	go func() {
		defer close(c.session.done)
		c.keep(ctx)
	}()
}

// stop ends keeping, and gives a token back that was got by logging in.
func (c *vaultClient) stop() {
	c.session.stop()
	<-c.session.done
	s := &c.session
	s.mu.Lock()
	token, ours := s.token, s.ours
	s.token = ""
	s.mu.Unlock()
	if token != "" && ours {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := c.once(ctx, http.MethodPost, "auth/token/revoke-self", token, nil, nil); err != nil {
			c.log.Warn("the token for Vault was not revoked; it expires", "error", err)
		}
	}
	c.http.CloseIdleConnections()
}

// keep renews the token. Where that fails it is tried again until the token ends; the next caller
// then logs in.
func (c *vaultClient) keep(ctx context.Context) {
	failed := 0
	for ctx.Err() == nil {
		wait, changed := c.beforeRenewal(failed)
		select {
		case <-ctx.Done():
			return
		case <-changed:
			failed = 0
			continue
		case <-wait:
		}
		if err := c.renew(ctx); err != nil && ctx.Err() == nil {
			failed++
			c.log.Warn("the token for Vault could not be renewed", "error", err, "failed", failed)
			continue
		}
		failed = 0
	}
}

// beforeRenewal gives a channel that is ready when there is something to do, and one for a new
// token.
func (c *vaultClient) beforeRenewal(failed int) (wait <-chan time.Time, changed <-chan struct{}) {
	s := &c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	backoff := core.Backoff{Interval: time.Second, Max: time.Minute, Jitter: 0.2}
	switch {
	case failed > 0:
		return time.After(backoff.Delay(failed-1, 0.5)), s.changed
	case s.token == "" && c.cfg.AppRole == nil:
		return time.After(0), s.changed // check it now: an unused one also ends
	case s.token == "" || s.until.IsZero() || !s.renewable:
		return nil, s.changed
	}
	return time.After(max(time.Until(s.until)-s.span/3, time.Second)), s.changed
}

func (c *vaultClient) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	token := c.held()
	if token == "" {
		if c.cfg.AppRole != nil {
			return nil // the next use logs in
		}
		_, err := c.token(ctx)
		return err
	}
	var got vaultAuth
	err := c.call(ctx, http.MethodPost, "auth/token/renew-self", token, struct{}{}, &got)
	if s := (*vaultStatus)(nil); errors.As(err, &s) && !s.temporary() {
		c.drop(token) // it has ended, or may not be renewed any more
	}
	if err != nil {
		return err
	}
	c.prolong(token, got.Auth.Renewable, got.Auth.LeaseDuration)
	return nil
}
