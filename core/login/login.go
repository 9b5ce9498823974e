// Package login owns who a person is by the word of an OpenID Connect provider, and what that
// person may do here: it verifies ID tokens, and maps their claims to a tenant and a role.
//
// It must not know HTTP routes, nor how sessions are kept.
package login

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/turnus/turnus/core"
)

// Bounds of what is believed.
const (
	MaxToken  = 64 << 10         // bytes of an ID token
	freshness = 10 * time.Minute // between a login and its word here: an ID token that was found later opens nothing
	skew      = time.Minute      // of the two clocks
	askTime   = 10 * time.Second // of one question to the provider
	maxLabel  = 60               // bytes of what a person is shown as
)

// ErrNoAccess is of somebody whom the provider knows, and no rule here.
var ErrNoAccess = errors.New("no access")

// Config holds whom to believe.
type Config struct {
	Issuer   string        // https://…, as the provider writes it; http:// on this machine only
	ClientID string        // that the provider has for Turnus: the audience of ID tokens
	Server   string        // HOST[:PORT] by which people reach this server; "": they are on this machine
	Session  time.Duration // how long a login is good for, from when the provider made it
	Rules    func() (Rules, error)
	HTTP     *http.Client // nil: one with bounds
}

// Person is somebody whom a rule lets in.
type Person struct {
	Name    string // for the audit log, ends with the identity: see core.SamePerson
	Tenant  string // Everyone: all
	Role    string
	Expires time.Time
	Login   string // names this login: the same ID token again has the same
}

// Everyone is the tenant of those who see all.
const Everyone = "*"

// Provider verifies. It is safe for concurrent use; it asks the provider's site when somebody
// comes, and not before.
type Provider struct {
	cfg Config

	mu    sync.Mutex
	found *oidc.Provider
}

// New checks the configuration; nothing is contacted. Errors wrap core.ErrInvalid.
func New(c Config) (*Provider, error) {
	u, err := url.Parse(c.Issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !core.ThisMachine(u.Hostname())) {
		return nil, fmt.Errorf("issuer %q: expected a URL as https://login.example.net/realm: %w", c.Issuer, core.ErrInvalid)
	}
	if c.ClientID == "" {
		return nil, fmt.Errorf("issuer %s: a client id is needed, as the provider has one for Turnus: %w", c.Issuer, core.ErrInvalid)
	}
	if c.Session < time.Minute || c.Session > 24*time.Hour {
		return nil, fmt.Errorf("a login that is good for %s: expected 1m to 24h: %w", c.Session, core.ErrInvalid)
	}
	if _, err := c.Rules(); err != nil {
		return nil, err
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{Timeout: askTime}
	}
	return &Provider{cfg: c}, nil
}

// Issuer returns the provider's URL, which a program that logs somebody in needs with ClientID.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// ClientID is the client id.
func (p *Provider) ClientID() string { return p.cfg.ClientID }

// discover reads the provider's document about itself, once it answers.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.cfg.HTTP), askTime)
	defer cancel()
	found, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("the OpenID provider %s: %w: %w", p.cfg.Issuer, core.ErrUnavailable, err)
	}
	p.found = found
	return found, nil
}

// claims are those that are checked by name.
type claims struct {
	Azp           string `json:"azp"`
	Email         string `json:"email"`
	EmailVerified bool   `json:"email_verified"`
	Username      string `json:"preferred_username"`
	Name          string `json:"name"`
}

// Nonce binds an ID token to the server that somebody logs in to: host is HOST[:PORT] of the
// server's URL, as that person typed it, salt is random. An ID token is made for a client id, which
// all servers of a provider may share: without this, one server could log in to another with the ID
// token that a person gave it.
func Nonce(host, salt string) string {
	host = strings.ToLower(host)
	host = strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
	sum := sha256.Sum256([]byte("turnus login\x00" + host + "\x00" + salt))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// minSalt is how long a salt is at least, in bytes.
const minSalt = 16

// Host returns the host, as HOST[:PORT], by which people reach this server. asked is the Host that
// a request names. The client chooses it, so it counts only for a server that people reach on their
// own machine.
func (p *Provider) Host(asked string) (string, error) {
	if p.cfg.Server != "" {
		return p.cfg.Server, nil
	}
	name := asked
	if n, _, err := net.SplitHostPort(asked); err == nil {
		name = n
	}
	if !core.ThisMachine(strings.Trim(name, "[]")) {
		return "", fmt.Errorf("this server does not know by which name people reach it: start it with --oidc-server HOST: %w", core.ErrInvalid)
	}
	return asked, nil
}

// bound returns an error unless a nonce was made for this server.
func (p *Provider) bound(nonce, salt, asked string) error {
	host, err := p.Host(asked)
	if err != nil {
		return err
	}
	if len(salt) < minSalt || nonce != Nonce(host, salt) {
		return fmt.Errorf("the ID token was made for a login to another server than %s: %w", host, core.ErrInvalid)
	}
	return nil
}

// keysAway begins go-oidc's error if the provider's keys cannot be fetched. go-oidc gives
// the text alone, no error to compare with. Only its beginning counts: the rest may be text of the
// token.
const keysAway = "failed to verify signature: fetching keys "

// Verify returns the person of an ID token, which must have the nonce of this server and the salt.
// asked is the Host of the request.
//
// A token that is not valid is core.ErrInvalid, a person without a rule is ErrNoAccess, and a
// provider that does not answer is core.ErrUnavailable. Messages contain nothing of the token.
func (p *Provider) Verify(ctx context.Context, idToken, salt, asked string) (Person, error) {
	if len(idToken) > MaxToken {
		return Person{}, fmt.Errorf("the ID token has more than %d bytes: %w", MaxToken, core.ErrInvalid)
	}
	found, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.cfg.HTTP), askTime)
	defer cancel()
	token, err := found.Verifier(&oidc.Config{ClientID: p.cfg.ClientID}).Verify(ctx, idToken)
	if err != nil && strings.HasPrefix(err.Error(), keysAway) {
		return Person{}, fmt.Errorf("the OpenID provider %s: %w: %w", p.cfg.Issuer, core.ErrUnavailable, err)
	}
	if err != nil {
		return Person{}, fmt.Errorf("the ID token is not valid: %w: %w", core.ErrInvalid, err)
	}
	var known claims
	var all map[string]any
	var signed json.RawMessage
	if err := errors.Join(token.Claims(&known), token.Claims(&all), token.Claims(&signed)); err != nil {
		return Person{}, fmt.Errorf("the ID token's claims cannot be read: %w: %w", core.ErrInvalid, err)
	}
	now := time.Now()
	switch {
	case token.Subject == "":
		return Person{}, fmt.Errorf("the ID token names no subject: %w", core.ErrInvalid)
	case (len(token.Audience) > 1 || known.Azp != "") && known.Azp != p.cfg.ClientID:
		return Person{}, fmt.Errorf("the ID token was made for another client: %w", core.ErrInvalid)
	case token.IssuedAt.After(now.Add(skew)) || now.Sub(token.IssuedAt) > freshness:
		return Person{}, fmt.Errorf("the ID token was not made within the last %s: log in again, and compare the clocks: %w", freshness, core.ErrInvalid)
	}
	if err := p.bound(token.Nonce, salt, asked); err != nil {
		return Person{}, err
	}
	rules, err := p.cfg.Rules()
	if err != nil {
		return Person{}, fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	if !known.EmailVerified {
		delete(all, "email") // anybody could have claimed it
	}
	rule, ok := rules.match(all)
	if !ok {
		return Person{}, fmt.Errorf("%s is known to %s, and no rule of the access file gives a tenant and a role: %w", known.label(), p.cfg.Issuer, ErrNoAccess)
	}
	sum := sha256.Sum256(signed) // not of the token as it is written: with white space, or other bits that pad, it is another text, and as valid
	return Person{
		Name: known.label() + " " + identity(p.cfg.Issuer, token.Subject), Tenant: rule.Tenant, Role: rule.Role,
		Expires: token.IssuedAt.Add(p.cfg.Session), Login: "login-" + shortText(sum[:15]),
	}, nil
}

// label returns the text that a person is shown as. It is for eyes: the identity behind it counts.
func (c claims) label() string {
	label := "somebody"
	for _, text := range []string{c.Email, c.Username, c.Name} {
		if text != "" {
			label = text
			break
		}
	}
	label = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" .@_+-", r) {
			return r
		}
		return '_'
	}, label)
	if len(label) > maxLabel {
		label = strings.ToValidUTF8(label[:maxLabel], "")
	}
	return label
}

// identity is one for issuer and subject, in the brackets that core.SamePerson looks for and that
// no name of a token may have.
func identity(issuer, subject string) string {
	sum := sha256.Sum256([]byte(issuer + "\x00" + subject))
	return "[" + shortText(sum[:15]) + "]"
}

func shortText(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// match is the first rule that holds.
func (r Rules) match(all map[string]any) (Rule, bool) {
	i := slices.IndexFunc(r.Access, func(rule Rule) bool { return has(all, rule.Claim, rule.Value) })
	if i < 0 {
		return Rule{}, false
	}
	return r.Access[i], true
}

// has reports whether a claim is, or lists, a value. A claim within another is written with dots.
func has(all map[string]any, claim, value string) bool {
	got, ok := all[claim]
	if !ok {
		first, rest, dotted := strings.Cut(claim, ".")
		inner, isMap := all[first].(map[string]any)
		return dotted && isMap && has(inner, rest, value)
	}
	switch got := got.(type) {
	case string:
		return got == value
	case []any:
		return slices.ContainsFunc(got, func(one any) bool { text, ok := one.(string); return ok && text == value })
	}
	return false
}
