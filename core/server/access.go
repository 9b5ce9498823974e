package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Role is what a token may do. Each role may do what those before it may.
type Role string

// The roles. An approver decides on runs and windows, and may do what an operator may not: approve what
// somebody else launched.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Approver Role = "approver"
	Admin    Role = "admin"
)

// bearer is the name of the one security scheme.
const bearer = "token"

// allowed are the roles that satisfy one.
var allowed = map[Role][]Role{
	Viewer:   {Viewer, Operator, Approver, Admin},
	Operator: {Operator, Admin},
	Approver: {Approver, Admin},
	Admin:    {Admin},
}

// caller is who asks.
type caller struct {
	name  string
	scope ledger.Scope
	token ledger.Token
}

type callerKey struct{}

// callerOf is who asks. The zero caller, of a context without one, sees nothing.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// authenticate lets requests pass whose token has a role that satisfies the given one.
func (s *Server) authenticate(role Role) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		secret, ok := strings.CutPrefix(ctx.Header("Authorization"), "Bearer ")
		if !ok {
			ctx.SetHeader("WWW-Authenticate", `Bearer realm="turnus"`)
			_ = huma.WriteErr(s.api, ctx, http.StatusUnauthorized, "a token is needed: Authorization: Bearer TOKEN")
			return
		}
		token, err := s.cfg.Ledger.Authenticate(ctx.Context(), secret)
		switch {
		case errors.Is(err, core.ErrNotFound):
			ctx.SetHeader("WWW-Authenticate", `Bearer realm="turnus", error="invalid_token"`)
			_ = huma.WriteErr(s.api, ctx, http.StatusUnauthorized, "the token is unknown, expired or revoked")
			return
		case err != nil:
			s.cfg.Log.Error("a token could not be looked up", "error", err)
			_ = huma.WriteErr(s.api, ctx, http.StatusServiceUnavailable, "the token could not be looked up: try again")
			return
		}
		if !slices.ContainsFunc(token.Roles, func(r string) bool { return slices.Contains(allowed[role], Role(r)) }) {
			_ = huma.WriteErr(s.api, ctx, http.StatusForbidden, "the token "+token.Name+" has the role "+strings.Join(token.Roles, ", ")+"; this needs "+string(role))
			return
		}
		next(huma.WithValue(ctx, callerKey{}, caller{name: token.Name, scope: token.Scope(), token: token}))
	}
}
