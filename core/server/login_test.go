package server

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/testparts/servers"
)

// reached is the name by which people reach the server, salt that of their logins.
const reached, salt = "turnus.example.net", "0123456789abcdef"

// people is a bed whose server believes a provider.
func people(t *testing.T, session time.Duration) (*bed, *servers.OIDC) {
	t.Helper()
	p := servers.StartOIDC(t)
	p.Nonce = login.Nonce(reached, salt)
	rules, err := login.ParseRules("access.yaml", []byte(`access:
  - {claim: groups, value: noc, tenant: "*", role: admin}
  - {claim: groups, value: acme, tenant: acme, role: operator}
  - {claim: groups, value: approvers, tenant: acme, role: approver}
`), Roles())
	must(t, err)
	l, err := login.New(login.Config{Issuer: p.Issuer, ClientID: servers.OIDCClient, Server: reached, Session: session, Rules: func() (login.Rules, error) { return rules, nil }})
	must(t, err)
	return newBed(t, func(c *Config) { c.Login = l }), p
}

func (b *bed) login(p *servers.OIDC, claims map[string]any) api.Token {
	b.t.Helper()
	return want[api.Token](b.t, b.ask("", "POST", "/v1/login", api.Login{Salt: salt, IDToken: p.IDToken(claims)}), http.StatusCreated)
}

// A login is a session: a token of the tenant and the role that the rules give, that ends with the
// login, and shows the person.
func TestLoginIsASession(t *testing.T) {
	t.Parallel()
	b, p := people(t, time.Hour)
	info := want[api.LoginInfo](t, b.ask("", "GET", "/v1/login", nil), http.StatusOK)
	if info.Issuer != p.Issuer || info.ClientID != servers.OIDCClient {
		t.Errorf("%+v", info)
	}
	made := time.Now().Add(-5 * time.Minute)
	session := b.login(p, map[string]any{"sub": "1", "groups": "acme", "email": "alice@example.net", "iat": made.Unix()})
	if session.Tenant != "acme" || session.Role != "operator" || session.Expires.Sub(made).Round(time.Minute) != time.Hour || !strings.HasPrefix(session.ID, loginPrefix) {
		t.Errorf("%+v", session)
	}
	who := want[api.Whoami](t, b.ask(session.Secret, "GET", "/v1/whoami", nil), http.StatusOK)
	if !strings.HasPrefix(who.Name, "acme/alice@example.net [") {
		t.Errorf("%+v", who)
	}
	want[api.Run](t, b.ask(session.Secret, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch"}), http.StatusCreated)
	for _, what := range []string{"token.create", "run.accept"} {
		a := b.ask(b.token(everyTenant, Admin), "GET", "/v1/audit?what="+what, nil)
		if !strings.Contains(a.body, `"who":"acme/alice@example.net [`) {
			t.Errorf("the audit log does not show who did %s: %s", what, a.body)
		}
	}
	if a := b.ask(session.Secret, "GET", "/v1/runs?tenant=globex", nil); strings.Contains(a.body, "globex-") {
		t.Errorf("another tenant's runs: %s", a.body)
	}
	if a := b.ask(session.Secret, "POST", "/v1/tokens", api.NewToken{Name: "x", Tenant: "acme", Role: "viewer"}); a.status != http.StatusForbidden {
		t.Errorf("an operator makes tokens: %d %s", a.status, a.body)
	}

	// Out: this session only, and immediately.
	other := b.login(p, map[string]any{"sub": "1", "groups": "acme"})
	want[api.Token](t, b.ask(session.Secret, "POST", "/v1/logout", nil), http.StatusOK)
	if a := b.ask(session.Secret, "GET", "/v1/whoami", nil); a.status != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", a.status)
	}
	if a := b.ask(other.Secret, "GET", "/v1/whoami", nil); a.status != http.StatusOK {
		t.Errorf("the other session: %d", a.status)
	}
	if a := b.ask(b.token("acme", Viewer), "POST", "/v1/logout", nil); a.status != http.StatusConflict {
		t.Errorf("a token that is of no login logs out: %d", a.status)
	}
}

func TestLoginRefuses(t *testing.T) {
	t.Parallel()
	b, p := people(t, time.Hour)
	claims := map[string]any{"sub": "1", "groups": "acme"}
	once := p.IDToken(claims)
	want[api.Token](t, b.ask("", "POST", "/v1/login", api.Login{Salt: salt, IDToken: once}), http.StatusCreated) // negative control
	bodies := map[string]struct {
		body   any
		status int
	}{
		"the same ID token again": {api.Login{Salt: salt, IDToken: once}, http.StatusConflict},
		"with white space":        {api.Login{Salt: salt, IDToken: once + "\n"}, http.StatusConflict},
		"padded by other bits":    {api.Login{Salt: salt, IDToken: otherBits(once)}, http.StatusConflict},
		"no rule":                 {api.Login{Salt: salt, IDToken: p.IDToken(map[string]any{"sub": "1", "groups": "others"})}, http.StatusForbidden},
		"no ID token":             {api.Login{}, http.StatusBadRequest},
		"no JSON":                 {"x", http.StatusBadRequest},
		"endless":                 {`{"id_token":"` + strings.Repeat("x", 200_000) + `"}`, http.StatusBadRequest},
		"a token of Turnus":       {api.Login{Salt: salt, IDToken: b.token("acme", Admin)}, http.StatusUnauthorized},
	}
	for name, forged := range p.Forged(claims) {
		bodies[name] = struct {
			body   any
			status int
		}{api.Login{Salt: salt, IDToken: forged}, http.StatusUnauthorized}
	}
	expired := maps.Clone(claims)
	expired["exp"] = time.Now().Add(-time.Minute).Unix()
	bodies["expired"] = struct {
		body   any
		status int
	}{api.Login{Salt: salt, IDToken: p.IDToken(expired)}, http.StatusUnauthorized}
	refused := 0
	for name, tc := range bodies {
		if a := b.ask("", "POST", "/v1/login", tc.body); a.status != tc.status || strings.Contains(a.body, "turnus_") {
			t.Errorf("%s: %d %s, expected %d", name, a.status, a.body, tc.status)
		}
		if tc.status != http.StatusBadRequest { // that is no login
			refused++
		}
	}
	b.refused(map[string]int{"login": refused, "no_token": 0})
	none := newBed(t)
	for _, method := range []string{"GET", "POST"} {
		if a := none.ask("", method, "/v1/login", nil); a.status == http.StatusOK || a.status >= 500 {
			t.Errorf("%s of a server without a provider: %d", method, a.status)
		}
	}
}

// otherBits is an ID token whose signature is written with other bits behind its end: those of 256
// bytes leave four of the last letter.
func otherBits(idToken string) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(idToken) - 1
	return idToken[:last] + letters[strings.IndexByte(letters, idToken[last])^1:][:1]
}

// A session that has ended opens nothing. The time of the login bounds it, not when it came here.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	b, p := people(t, 5*time.Minute)
	late := b.login(p, map[string]any{"sub": "1", "groups": "acme", "iat": time.Now().Add(-9 * time.Minute).Unix()})
	if a := b.ask(late.Secret, "GET", "/v1/whoami", nil); a.status != http.StatusUnauthorized {
		t.Errorf("%d %s", a.status, a.body)
	}
	now := b.login(p, map[string]any{"sub": "1", "groups": "acme"}) // negative control
	want[api.Whoami](t, b.ask(now.Secret, "GET", "/v1/whoami", nil), http.StatusOK)
}

// Nobody approves their own run by being shown otherwise: four eyes go by issuer and subject.
func TestFourEyesGoByIssuerAndSubject(t *testing.T) {
	t.Parallel()
	b, p := people(t, time.Hour)
	launcher := b.login(p, map[string]any{"sub": "1", "groups": "acme", "email": "alice@example.net"})
	run := want[api.Run](t, b.ask(launcher.Secret, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", FourEyes: true}), http.StatusCreated)
	path := "/v1/runs/" + run.ID + "/approvals"
	for _, item := range b.server.OpenAPI().Paths {
		if item.Post != nil && item.Post.OperationID == "approve-run" {
			path = strings.Replace(item.Post.Path, "{run}", run.ID, 1)
		}
	}
	for _, email := range []string{"alice@example.net", "mallory@example.net"} {
		same := b.login(p, map[string]any{"sub": "1", "groups": "approvers", "email": email})
		if a := b.ask(same.Secret, "POST", path, api.Approve{Approve: true}); a.status != http.StatusConflict && a.status != http.StatusForbidden {
			t.Errorf("the launcher, shown as %s, approves: %d %s", email, a.status, a.body)
		}
	}
	noc := b.login(p, map[string]any{"sub": "1", "groups": "noc"})
	if a := b.ask(noc.Secret, "POST", path, api.Approve{Approve: true}); a.status != http.StatusConflict && a.status != http.StatusForbidden {
		t.Errorf("the launcher with another tenant and role approves: %d %s", a.status, a.body)
	}
	another := b.login(p, map[string]any{"sub": "2", "groups": "approvers", "email": "alice@example.net"})
	if a := b.ask(another.Secret, "POST", path, api.Approve{Approve: true}); a.status/100 != 2 {
		t.Errorf("negative control: another person with the same address: %d %s", a.status, a.body)
	}
}

// A client that sends a login slowly does not delay the logins of others.
func TestSlowLoginsHoldUpNobody(t *testing.T) {
	t.Parallel()
	b, p := people(t, time.Hour)
	var wg sync.WaitGroup
	defer wg.Wait()
	for range maxLogins {
		body, slowly := io.Pipe()
		defer func() { _ = slowly.Close() }()
		wg.Go(func() {
			b.server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/login", body))
		})
		_, err := slowly.Write([]byte("{")) // until it is being read
		must(t, err)
	}
	b.login(p, map[string]any{"sub": "1", "groups": "acme"})
}
