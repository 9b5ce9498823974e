package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

func (b *bed) session(secret string) api.Token {
	b.t.Helper()
	return want[api.Token](b.t, b.ask(secret, "POST", "/v1/session", nil), http.StatusCreated)
}

// holds reports which of the tokens are valid.
func (b *bed) holds(secrets ...string) (all []bool) {
	b.t.Helper()
	for _, s := range secrets {
		a := b.ask(s, "GET", "/v1/whoami", nil)
		if a.status != http.StatusOK && a.status != http.StatusUnauthorized {
			b.t.Fatalf("%d %s", a.status, a.body)
		}
		all = append(all, a.status == http.StatusOK)
	}
	return all
}

// A session may what its token may, and its logout ends it alone. The end of the token ends it.
func TestASessionEndsByItselfAndWithItsToken(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	parent := b.token("acme", Operator, api.PermitExec)
	first, second := b.session(parent), b.session(parent)
	if first.Tenant != "acme" || first.Role != "operator" || !slices.Contains(first.Permissions, api.PermitExec) || first.Expires.IsZero() || first.Name != "the operator" {
		t.Errorf("%+v", first)
	}
	want[api.Run](t, b.ask(first.Secret, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch"}), http.StatusCreated)
	if a := b.ask(first.Secret, "POST", "/v1/session", nil); a.status != http.StatusConflict {
		t.Errorf("a session opens a session, which a logout would leave: %d %s", a.status, a.body)
	}
	want[api.Token](t, b.ask(first.Secret, "POST", "/v1/logout", nil), http.StatusOK)
	if got := b.holds(first.Secret, second.Secret, parent); !slices.Equal(got, []bool{false, true, true}) {
		t.Errorf("after the logout of the first: %v", got)
	}
	id := want[api.Whoami](t, b.ask(parent, "GET", "/v1/whoami", nil), http.StatusOK).Token
	want[api.Token](t, b.ask(b.token("acme", Admin), "DELETE", "/v1/tokens/"+id, nil), http.StatusOK)
	if got := b.holds(second.Secret, parent); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("after the token was revoked: %v", got)
	}
	other := b.session(b.token("acme", Viewer))
	if got := b.holds(other.Secret); !got[0] {
		t.Error("control: the session of another token ended")
	}
}

// A server that has not yet seen a revocation opens no session with the token.
func TestNoSessionOfARevokedToken(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	parent := b.token("acme", Viewer)
	b.session(parent) // control, and the server believes the token from now on
	id := want[api.Whoami](t, b.ask(parent, "GET", "/v1/whoami", nil), http.StatusOK).Token
	_, err := b.ledger.RevokeToken(t.Context(), ledger.AllTenants(), "another server", id)
	must(t, err)
	if a := b.ask(parent, "POST", "/v1/session", nil); a.status != http.StatusUnauthorized {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, role := range []Role{Worker, Feed} {
		if a := b.ask(b.token("acme", role), "POST", "/v1/session", nil); a.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", role, a.status, a.body)
		}
	}
}

// Out everywhere: all sessions of the person, and of nobody else, also not of one with the name.
func TestLogoutEverywhere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	mine, foreign, admin := b.token("acme", Viewer), b.token("globex", Viewer), b.token(everyTenant, Viewer)
	first, second := b.session(mine), b.session(mine)
	others := []string{b.session(foreign).Secret, b.session(admin).Secret, b.session(b.token("acme", Operator)).Secret}
	want[api.Token](t, b.ask(first.Secret, "POST", "/v1/logout?everywhere=true", nil), http.StatusOK)
	if got := b.holds(first.Secret, second.Secret); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("sessions of the person: %v", got)
	}
	if got := b.holds(append(others, mine)...); slices.Contains(got, false) {
		t.Errorf("control: sessions of others, and the token: %v", got)
	}
	if a := b.ask(b.token(everyTenant, Admin), "GET", "/v1/audit?what=token.revoke", nil); strings.Count(a.body, `"token.revoke"`) != 2 {
		t.Errorf("the audit log: %s", a.body)
	}
}

// A person who never logs out has a bounded number of sessions.
func TestTheOldestSessionEndsForAnother(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var all []string
	for range sessionsEach + 1 {
		all = append(all, b.session(b.token("acme", Viewer)).Secret)
	}
	got := b.holds(all...)
	if got[0] || slices.Contains(got[1:], false) {
		t.Errorf("%v", got)
	}
}
