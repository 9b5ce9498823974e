package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// everyTenant is how the API writes the tenant of tokens of all tenants.
const everyTenant = "*"

func (s *Server) people() {
	handle(s, route{id: "whoami", method: http.MethodGet, path: "/v1/whoami", summary: "Show who the token makes its bearer", role: Viewer}, s.whoami)
	handle(s, route{
		id: "create-token", method: http.MethodPost, path: "/v1/tokens", summary: "Make a token", role: Admin, status: http.StatusCreated,
		detail: "The secret is in this answer only. For four eyes a token counts as the person who made it, and tokens of one name and tenant as one person. " +
			"A tenant's admin makes tokens of that tenant, with those permissions only that the admin's own token has.",
	}, s.createToken)
	handle(s, route{id: "list-tokens", method: http.MethodGet, path: "/v1/tokens", summary: "List tokens, without their secrets", role: Admin}, s.listTokens)
	handle(s, route{
		id: "revoke-token", method: http.MethodDelete, path: "/v1/tokens/{token}", summary: "Revoke a token", role: Admin, status: http.StatusOK,
		detail: "It is refused immediately by this server, and within a second by all others; streams that it opened end.",
	}, s.revokeToken)
}

func (s *Server) whoami(_ context.Context, by caller, _ *struct{}) (*body[api.Whoami], error) {
	t := by.token
	return &body[api.Whoami]{api.Whoami{Name: by.name, Token: t.ID, Tenant: tenantOf(t), Roles: rolesOf(t), Permissions: permissionsOf(t), Expires: t.Expires}}, nil
}

func (s *Server) createToken(ctx context.Context, by caller, in *struct {
	Idempotent
	Body api.NewToken
},
) (*body[api.Token], error) {
	t, err := TokenFor(in.Body)
	if err != nil {
		return nil, err
	}
	if !by.scope.All() && (t.AllTenants || !by.scope.Allows(t.Tenant)) {
		return nil, forbidden("a token of tenant " + by.token.Tenant + " makes tokens of that tenant only")
	}
	if !by.scope.All() {
		for _, p := range in.Body.Permissions { // else a tenant's admin could reach more than the provider gave
			if err := s.need(by, p); err != nil {
				return nil, err
			}
		}
	}
	t.ID = in.of(by, "create-token")
	secret, made, err := s.cfg.Ledger.NewToken(ctx, by.name, t)
	if errors.Is(err, core.ErrConflict) && in.Key != "" {
		return nil, fmt.Errorf("token %s was made with this key before, and its secret was shown then: revoke it, and make another with another key: %w", t.ID, core.ErrConflict)
	}
	if err != nil {
		return nil, err
	}
	shown := tokenOf(made)
	shown.Secret = secret
	return &body[api.Token]{shown}, nil
}

// TokenFor is the token that somebody asks for.
func TokenFor(n api.NewToken) (ledger.Token, error) {
	t := ledger.Token{Name: n.Name, Tenant: n.Tenant, Roles: []string{n.Role}}
	if n.Tenant == everyTenant {
		t.Tenant, t.AllTenants = "", true
	}
	if len(allowed[Role(n.Role)]) == 0 || Role(n.Role) == Feed {
		return t, fmt.Errorf("role %q: expected viewer, operator, approver, admin or worker: %w", clip(n.Role, 100), core.ErrInvalid)
	}
	if err := checkPermissions(n); err != nil {
		return t, err
	}
	for _, p := range n.Permissions {
		t.Roles = append(t.Roles, string(p))
	}
	if n.Expires != 0 {
		d := n.Expires.Duration()
		if d <= 0 || d > maxLife {
			return t, fmt.Errorf("expires_in_seconds %v: expected more than 0, and at most ten years: %w", n.Expires, core.ErrInvalid)
		}
		t.Expires = time.Now().Add(d)
	}
	return t, nil
}

// checkPermissions refuses permissions that mean nothing to a token.
func checkPermissions(n api.NewToken) error {
	for _, p := range n.Permissions {
		switch {
		case !slices.Contains(permissions(), p):
			return fmt.Errorf("permission %q: expected %s, %s or %s: %w", clip(string(p), 100), api.PermitExec, api.PermitOutside, api.PermitBecome, core.ErrInvalid)
		case Role(n.Role) != Operator && Role(n.Role) != Admin:
			return fmt.Errorf("permission %s: it is for operators and admins, and the token gets the role %s: %w", p, n.Role, core.ErrInvalid)
		case p != api.PermitExec && !slices.Contains(n.Permissions, api.PermitExec):
			return fmt.Errorf("permission %s: it needs the permission %s beside it: %w", p, api.PermitExec, core.ErrInvalid)
		}
	}
	return nil
}

// rolesOf returns the roles of a token, without its permissions.
func rolesOf(t ledger.Token) []string {
	return slices.DeleteFunc(slices.Clone(t.Roles), func(r string) bool { return len(allowed[Role(r)]) == 0 })
}

// maxLife bounds how long a token lasts that expires.
const maxLife = 10 * 366 * 24 * time.Hour

func (s *Server) listTokens(ctx context.Context, by caller, in *struct{ Page }) (*list[api.Token], error) {
	tokens, next, err := s.cfg.Ledger.Tokens(ctx, by.scope, ledger.TokenFilter{}, in.ledger())
	if err != nil {
		return nil, err
	}
	items := make([]api.Token, len(tokens))
	for i, t := range tokens {
		items[i] = tokenOf(t)
	}
	return listOf(items, next), nil
}

func (s *Server) revokeToken(ctx context.Context, by caller, in *struct {
	Token string `path:"token" maxLength:"128" doc:"id"`
},
) (*body[api.Token], error) {
	t, err := s.cfg.Ledger.RevokeToken(ctx, by.scope, by.name, in.Token)
	if err != nil {
		return nil, err
	}
	s.tokens.revoked(t.ID)
	return &body[api.Token]{tokenOf(t)}, nil
}

func tenantOf(t ledger.Token) string {
	if t.AllTenants {
		return everyTenant
	}
	return t.Tenant
}

func tokenOf(t ledger.Token) api.Token {
	shown := api.Token{Permissions: permissionsOf(t), ID: t.ID, Name: t.Name, Tenant: tenantOf(t), Created: t.Created, Expires: t.Expires, Revoked: t.Revoked, LastUsed: t.LastUsed}
	if roles := rolesOf(t); len(roles) > 0 {
		shown.Role = roles[0]
	}
	return shown
}
