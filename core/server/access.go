package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/telemetry"
)

// Role is the set of operations that a token may do.
type Role string

// The roles. An approver decides on runs and windows, and may do what an operator may not: approve
// what somebody else launched. A worker uploads outputs of jobs, and sees nothing: a stolen token
// of a worker launches nothing.
const (
	Worker   Role = "worker"
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Approver Role = "approver"
	Admin    Role = "admin"
	// Feed is the role of the secret in a calendar feed's address: it reads that feed alone.
	Feed Role = "calendar"
)

// bearer is the name of the one security scheme.
const bearer = "token"

// allowed are the roles that satisfy one.
var allowed = map[Role][]Role{
	Worker:   {Worker, Admin},
	Viewer:   {Viewer, Operator, Approver, Admin},
	Operator: {Operator, Admin},
	Approver: {Approver, Admin},
	Admin:    {Admin},
	Feed:     {Feed},
}

// caller is the bearer of a request's token.
type caller struct {
	name   string // as it is in the audit log, and counts for four eyes
	scope  ledger.Scope
	token  ledger.Token
	secret string // to ask again during a stream
}

// named is how the audit log names the bearer of a token: NAME of those of all tenants, TENANT/NAME
// of others, so that no tenant's admin can make a token that reads like somebody else. Several
// tokens of one name are one person.
func named(t ledger.Token) string {
	if t.AllTenants {
		return t.Name
	}
	return t.Tenant + "/" + t.Name
}

type callerKey struct{}

// callerOf returns the caller of a request. The zero caller, of a context without one, sees
// nothing.
func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// authenticate lets requests pass whose token may use the route.
func (s *Server) authenticate(r route) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		by, status, why := s.admit(ctx.Context(), ctx.Header("Authorization"), r)
		if status != 0 {
			if status == http.StatusUnauthorized {
				ctx.SetHeader("WWW-Authenticate", `Bearer realm="turnus"`)
			}
			_ = huma.WriteErr(s.api, ctx, status, why)
			return
		}
		noteWho(ctx.Context(), by.name)
		if r.maxBody > smallBody && !r.raw {
			select {
			case s.heavy <- struct{}{}:
				defer func() { <-s.heavy }()
			default:
				ctx.SetHeader("Retry-After", "1")
				_ = huma.WriteErr(s.api, ctx, http.StatusServiceUnavailable, "other large requests are being read: try again")
				return
			}
		}
		if r.bodyTime > 0 {
			_, w := humago.Unwrap(ctx)
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(r.bodyTime + writeTime))
		}
		if r.raw {
			req, w := humago.Unwrap(ctx)
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(r.bodyTime))
			ctx = huma.WithValue(ctx, rawBody{}, http.MaxBytesReader(w, req.Body, r.maxBody))
		}
		next(huma.WithValue(ctx, callerKey{}, by))
	}
}

// Why somebody is refused, as it is counted.
const (
	refusedNoToken    = "no_token"
	refusedUnknown    = "unknown_token" // also one that is expired or revoked
	refusedRole       = "role"
	refusedPermission = "permission"
	refusedTenant     = "tenant"
	refusedLogin      = "login"
)

// refusals are there from the beginning, so that the first of a reason is seen as an increase.
func refusals() []string {
	return []string{refusedNoToken, refusedUnknown, refusedRole, refusedPermission, refusedTenant, refusedLogin}
}

// admit returns the caller, or the status and the reason of a refusal, which is counted.
func (s *Server) admit(ctx context.Context, authorization string, r route) (by caller, status int, why string) {
	refuse := func(reason string, status int, why string) (caller, int, string) {
		s.metrics.Add(telemetry.AccessRefused, 1, reason)
		return caller{}, status, why
	}
	if by, ok := ctx.Value(inProcessKey{}).(caller); ok { // no request of a network has it
		switch {
		case !may(by.token, r.role):
			return refuse(refusedRole, http.StatusForbidden, "pages of this process show everything and change nothing; this needs the role "+string(r.role))
		case r.permit != "" && !permits(by.token, r.permit):
			return refuse(refusedPermission, http.StatusForbidden, missing(by.token, r.permit))
		}
		return by, 0, ""
	}
	secret, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		return refuse(refusedNoToken, http.StatusUnauthorized, "a token is needed: Authorization: Bearer TOKEN")
	}
	token, err := s.tokens.authenticate(ctx, secret)
	switch {
	case errors.Is(err, core.ErrNotFound):
		return refuse(refusedUnknown, http.StatusUnauthorized, "the token is unknown, expired or revoked")
	case err != nil:
		s.ledgerFailed("a token could not be looked up", err)
		return caller{}, http.StatusServiceUnavailable, "the token could not be looked up: try again"
	case !may(token, r.role):
		return refuse(refusedRole, http.StatusForbidden, "the token "+token.Name+" has the role "+strings.Join(token.Roles, ", ")+"; this needs "+string(r.role))
	case r.permit != "" && !permits(token, r.permit):
		return refuse(refusedPermission, http.StatusForbidden, missing(token, r.permit))
	case r.everyone && !token.AllTenants:
		return refuse(refusedTenant, http.StatusForbidden, "this concerns all tenants, and the token "+token.Name+" is one of tenant "+token.Tenant)
	}
	if s.ledger.Lasts() && s.cfg.Ledger.Ping(ctx) == nil { // the token may be one that is remembered
		s.ledgerBack()
	}
	return caller{name: named(token), scope: token.Scope(), token: token, secret: secret}, 0, ""
}

// may reports whether a token's roles satisfy one.
func may(t ledger.Token, role Role) bool {
	return slices.ContainsFunc(t.Roles, func(r string) bool { return slices.Contains(allowed[role], Role(r)) })
}

// permits reports whether a token has a permission. No role includes one.
func permits(t ledger.Token, p api.Permission) bool { return slices.Contains(t.Roles, string(p)) }

// missing returns which permission a token lacks, and how one gets it.
func missing(t ledger.Token, p api.Permission) string {
	return "the token " + t.Name + " does not have the permission " + string(p) + ", which no role includes: an admin makes a token with turnus admin tokens create NAME --role operator --" + string(p)
}

// permissions are all that there are.
func permissions() []api.Permission {
	return []api.Permission{api.PermitExec, api.PermitOutside, api.PermitBecome}
}

// permissionsOf returns the permissions of a token.
func permissionsOf(t ledger.Token) (all []api.Permission) {
	for _, p := range permissions() {
		if permits(t, p) {
			all = append(all, p)
		}
	}
	return all
}

// need refuses a caller without a permission, which is counted.
func (s *Server) need(by caller, p api.Permission) error {
	if permits(by.token, p) {
		return nil
	}
	s.metrics.Add(telemetry.AccessRefused, 1, refusedPermission)
	return forbidden(missing(by.token, p))
}
