package login_test

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var roles = []string{"viewer", "operator", "approver", "admin"}

const access = `access:
  - {claim: groups, value: noc, tenant: "*", role: operator}
  - {claim: email, value: alice@example.net, tenant: acme, role: admin}
  - {claim: realm_access.roles, value: see, tenant: globex, role: viewer}
`

func rules(t *testing.T, text string) func() (login.Rules, error) {
	t.Helper()
	r, err := login.ParseRules("access.yaml", []byte(text), roles)
	if err != nil {
		t.Fatal(err)
	}
	return func() (login.Rules, error) { return r, nil }
}

// here is the server that people reach, salt that of their logins.
const here, salt = "127.0.0.1:8470", "0123456789abcdef"

func open(t *testing.T, p *servers.OIDC) *login.Provider {
	t.Helper()
	p.Nonce = login.Nonce(here, salt)
	l, err := login.New(login.Config{Issuer: p.Issuer, ClientID: servers.OIDCClient, Session: time.Hour, Rules: rules(t, access)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// with is a copy of claims with more, or others.
func with(claims map[string]any, more ...any) map[string]any {
	out := maps.Clone(claims)
	for i := 0; i+1 < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

func TestClaimsGiveTenantAndRole(t *testing.T) {
	p := servers.StartOIDC(t)
	l := open(t, p)
	for _, tc := range []struct {
		name         string
		claims       map[string]any
		tenant, role string // empty: no access
	}{
		{"a group", map[string]any{"sub": "1", "groups": []string{"x", "noc"}}, "*", "operator"},
		{"a group as a text", map[string]any{"sub": "1", "groups": "noc"}, "*", "operator"},
		{"the first rule counts", map[string]any{"sub": "1", "groups": []string{"noc"}, "email": "alice@example.net", "email_verified": true}, "*", "operator"},
		{"an address", map[string]any{"sub": "1", "email": "alice@example.net", "email_verified": true}, "acme", "admin"},
		{"a claim within another", map[string]any{"sub": "1", "realm_access": map[string]any{"roles": []string{"see"}}}, "globex", "viewer"},
		{"several audiences, made for us", map[string]any{"sub": "1", "groups": "noc", "aud": []string{"other", servers.OIDCClient}, "azp": servers.OIDCClient}, "*", "operator"},
		{"an address that nobody verified", map[string]any{"sub": "1", "email": "alice@example.net"}, "", ""},
		{"another group", map[string]any{"sub": "1", "groups": []string{"nocturnal"}}, "", ""},
		{"nothing", map[string]any{"sub": "1"}, "", ""},
		{"a number", map[string]any{"sub": "1", "groups": 7}, "", ""},
	} {
		got, err := l.Verify(t.Context(), p.IDToken(tc.claims), salt, here)
		if tc.role == "" {
			if !errors.Is(err, login.ErrNoAccess) {
				t.Errorf("%s: %+v, %v, expected no access", tc.name, got, err)
			}
			continue
		}
		if err != nil || got.Tenant != tc.tenant || got.Role != tc.role || time.Until(got.Expires) > time.Hour || time.Until(got.Expires) < 50*time.Minute {
			t.Errorf("%s: %+v, %v", tc.name, got, err)
		}
	}
}

// Negative control: the same claims in a token that is right are let in, see above.
func TestWhatIsNotToBeBelievedIsRefused(t *testing.T) {
	p, other := servers.StartOIDC(t), servers.StartOIDC(t)
	l := open(t, p)
	good := map[string]any{"sub": "1", "groups": "noc"}
	if _, err := l.Verify(t.Context(), p.IDToken(good), salt, here); err != nil {
		t.Fatal(err)
	}
	wrong := p.Forged(good)
	maps.Copy(wrong, map[string]string{
		"another audience":         p.IDToken(with(good, "aud", "grafana")),
		"no audience":              p.IDToken(with(good, "aud", nil)),
		"made for another client":  p.IDToken(with(good, "aud", []string{servers.OIDCClient, "grafana"}, "azp", "grafana")),
		"several, for nobody":      p.IDToken(with(good, "aud", []string{servers.OIDCClient, "grafana"})),
		"expired":                  p.IDToken(with(good, "exp", time.Now().Add(-time.Minute).Unix())),
		"no end":                   p.IDToken(with(good, "exp", nil)),
		"made long ago":            p.IDToken(with(good, "iat", time.Now().Add(-time.Hour).Unix())),
		"made tomorrow":            p.IDToken(with(good, "iat", time.Now().Add(24*time.Hour).Unix())),
		"made at no time":          p.IDToken(with(good, "iat", nil)),
		"another issuer":           other.IDToken(good),
		"another issuer, its word": other.IDToken(with(good, "iss", p.Issuer)),
		"the issuer, differently":  p.IDToken(with(good, "iss", p.Issuer+"/")),
		"no subject":               p.IDToken(with(good, "sub", nil)),
		"not yet":                  p.IDToken(with(good, "nbf", time.Now().Add(time.Hour).Unix())),
		"endless":                  p.IDToken(with(good, "x", strings.Repeat("x", login.MaxToken))),
	})
	for name, token := range wrong {
		got, err := l.Verify(t.Context(), token, salt, here)
		if !errors.Is(err, core.ErrInvalid) || got != (login.Person{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err != nil && len(token) > 10 && strings.Contains(err.Error(), token[:10]) {
			t.Errorf("%s: the error repeats the token: %v", name, err)
		}
	}
}

// The identity of a person is issuer and subject, whatever they are shown as.
func TestIdentityIsIssuerAndSubject(t *testing.T) {
	p, other := servers.StartOIDC(t), servers.StartOIDC(t)
	name := func(p *servers.OIDC, claims map[string]any) string {
		t.Helper()
		got, err := open(t, p).Verify(t.Context(), p.IDToken(with(claims, "groups", "noc")), salt, here)
		if err != nil {
			t.Fatal(err)
		}
		return got.Name
	}
	alice := name(p, map[string]any{"sub": "1", "email": "alice@example.net"})
	if !strings.HasPrefix(alice, "alice@example.net [") {
		t.Errorf("shown as %q", alice)
	}
	for _, tc := range []struct {
		what, name string
		same       bool
	}{
		{"the same again", name(p, map[string]any{"sub": "1", "email": "alice@example.net"}), true},
		{"the same with another address", name(p, map[string]any{"sub": "1", "email": "alice@example.org"}), true},
		{"the same in a tenant", "acme/" + name(p, map[string]any{"sub": "1"}), true},
		{"another with her address", name(p, map[string]any{"sub": "2", "email": "alice@example.net"}), false},
		{"another provider's", name(other, map[string]any{"sub": "1", "email": "alice@example.net"}), false},
		{"a name that looks like hers", name(p, map[string]any{"sub": "3", "preferred_username": alice}), false},
		{"a token of that name", "alice@example.net", false},
	} {
		if core.SamePerson(alice, tc.name) != tc.same {
			t.Errorf("%s: %q and %q", tc.what, alice, tc.name)
		}
	}
	if !core.SamePerson("bob", "bob") || core.SamePerson("bob", "eve") {
		t.Error("names of tokens are compared whole")
	}
}

func TestProviderIsAskedWhenSomebodyComes(t *testing.T) {
	l, err := login.New(login.Config{Issuer: "http://127.0.0.1:1", ClientID: "x", Session: time.Hour, Rules: rules(t, access)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Verify(t.Context(), "x", salt, here); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("a provider that is away: %v", err)
	}
	for _, issuer := range []string{"", "login.example.net", "http://login.example.net", "https://u:p@login.example.net", "ftp://127.0.0.1", "https://x?y=1"} {
		if _, err := login.New(login.Config{Issuer: issuer, ClientID: "x", Session: time.Hour, Rules: rules(t, access)}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("issuer %q: %v", issuer, err)
		}
	}
	p := servers.StartOIDC(t)
	l = open(t, p)
	for range 3 {
		if _, err := l.Verify(t.Context(), p.IDToken(map[string]any{"sub": "1", "groups": "noc"}), salt, here); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := p.Asked("/.well-known/openid-configuration"), p.Asked("/keys"); a != 1 || b != 1 {
		t.Errorf("asked %d and %d times, expected once each", a, b)
	}
}

// A provider whose keys cannot be fetched is away: nobody forged anything. The control is a token
// that contains the words of that error.
func TestKeysThatCannotBeFetched(t *testing.T) {
	p, away := servers.StartOIDC(t), &keysAway{}
	away.down.Store(true)
	l, err := login.New(login.Config{Issuer: p.Issuer, ClientID: servers.OIDCClient, Session: time.Hour, Rules: rules(t, access), HTTP: &http.Client{Transport: away}})
	if err != nil {
		t.Fatal(err)
	}
	p.Nonce = login.Nonce(here, salt)
	good := map[string]any{"sub": "1", "groups": "noc"}
	if _, err := l.Verify(t.Context(), p.IDToken(good), salt, here); !errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v, expected that the provider is away", err)
	}
	away.down.Store(false)
	if _, err := l.Verify(t.Context(), p.IDToken(good), salt, here); err != nil {
		t.Error(err)
	}
	if _, err := l.Verify(t.Context(), p.IDToken(with(good, "aud", "failed to verify signature: fetching keys ")), salt, here); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v, expected that the token is invalid", err)
	}
}

// keysAway fails requests for keys while it is down.
type keysAway struct{ down atomic.Bool }

func (k *keysAway) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.down.Load() && r.URL.Path == "/keys" {
		return nil, errors.New("no route to host")
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestRulesSayWhereTheyAreWrong(t *testing.T) {
	for text, say := range map[string]string{
		"":            "it is empty",
		"access: x":   `access.yaml:1:9: access is the text "x": expected a list`,
		"rules: []":   `access.yaml:1:1: unknown key "rules" in the file: expected access`,
		"access: [x]": `access.yaml:1:10: the rule is the text "x": expected a mapping with the keys claim, value, tenant, role`,
		"access: [{claim: groups, value: noc, tenant: acme}]":                      `the rule has no "role"`,
		"access: [{claim: groups, value: noc, tenant: acme, role: root}]":          `role "root": expected one of: viewer`,
		"access: [{claim: groups, value: noc, tenant: acme, role: oprator}]":       `did you mean "operator"?`,
		"access: [{claim: groups, value: noc, tennant: acme, role: viewer}]":       `did you mean "tenant"?`,
		"access: [{claim: groups, value: noc, tenant: a/b, role: viewer}]":         "expected a name without blanks",
		"access: [{claim: groups, value: '', tenant: acme, role: viewer}]":         `value "": expected a text`,
		"access: [{claim: a, claim: b, value: x, tenant: acme, role: viewer}]":     `key "claim" is given twice`,
		"access: [{claim: groups, value: [noc], tenant: acme, role: viewer}]":      "value is a list: expected a single value",
		"access:\n  - {claim: a, value: b, tenant: c, role: viewer}\n  - {x: y}\n": "access.yaml:3:6",
		"access: [": "access.yaml",
	} {
		if _, err := login.ParseRules("access.yaml", []byte(text), roles); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, expected %q", text, err, say)
		}
	}
}

// A file that others may write, or that is wrong, lets nobody in; one that is mended does.
func TestRulesFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.yaml")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	write(access, 0o600)
	read := login.RulesFile(path, roles)
	if r, err := read(); err != nil || len(r.Access) != 3 {
		t.Fatal(r, err)
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
	write("access: []\n", 0o600)
	until("the change", func() bool { r, err := read(); return err == nil && len(r.Access) == 0 })
	write("acess: []\n", 0o600)
	until("the mistake", func() bool { _, err := read(); return errors.Is(err, core.ErrInvalid) })
	write(access, 0o666)
	until("what others may write", func() bool {
		r, err := read()
		return err != nil && len(r.Access) == 0 && strings.Contains(err.Error(), "others may write it")
	})
	write(access, 0o600)
	until("what is mended", func() bool { r, err := read(); return err == nil && len(r.Access) == 3 })
}

func FuzzParseRules(f *testing.F) {
	f.Add([]byte(access))
	f.Add([]byte("access: [{claim: a}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := login.ParseRules("a", text, roles)
		if err != nil && len(r.Access) > 0 {
			t.Error("rules of a file that is wrong")
		}
		for _, rule := range r.Access {
			if rule.Claim == "" || rule.Value == "" || rule.Tenant == "" || rule.Role == "" {
				t.Errorf("half a rule: %+v", rule)
			}
		}
	})
}

// A hostile server gets the ID token of somebody who logs in to it, with the salt, and logs in to
// another server of the same provider and client id. The token is for the hostile server's name,
// whatever Host and salt it sends along.
func TestFaultS9AnotherServerCannotUseALogin(t *testing.T) {
	p := servers.StartOIDC(t)
	const real, evil = "turnus.example.net", "evil.example.org"
	named, err := login.New(login.Config{Issuer: p.Issuer, ClientID: servers.OIDCClient, Server: real, Session: time.Hour, Rules: rules(t, access)})
	if err != nil {
		t.Fatal(err)
	}
	local := open(t, p)
	stolen := func(nonce string) string {
		return p.IDToken(map[string]any{"sub": "1", "groups": "noc", "nonce": nonce})
	}
	for name, tt := range map[string]struct {
		l                  *login.Provider
		nonce, salt, asked string
	}{
		"replayed":                   {named, login.Nonce(evil, salt), salt, real},
		"replayed with its own Host": {named, login.Nonce(evil, salt), salt, evil},
		"another salt":               {named, login.Nonce(real, salt), salt + "x", real},
		"a nonce of no salt":         {named, login.Nonce(real, ""), "", real},
		"no nonce":                   {named, "", salt, real},
		"a server that has no name":  {local, login.Nonce(evil, salt), salt, evil},
		"a name that begins alike":   {local, login.Nonce("127.0.0.1.evil.example.org", salt), salt, "127.0.0.1.evil.example.org"},
	} {
		if got, err := tt.l.Verify(t.Context(), stolen(tt.nonce), tt.salt, tt.asked); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, asked := range []string{real, "TURNUS.example.net:443", evil} { // the control: of the server itself, whatever Host a proxy sends
		if _, err := named.Verify(t.Context(), stolen(login.Nonce("Turnus.example.net:443", salt)), salt, asked); err != nil {
			t.Errorf("negative control: %v", err)
		}
	}
}
