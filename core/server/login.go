package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/telemetry"
)

// loginPrefix begins the ids of tokens that a login made.
const loginPrefix = "login-"

// maxLogins are verified at the same time: each may ask the provider.
const maxLogins = 4

// Roles are those of people, the least first.
func Roles() []string {
	return []string{string(Viewer), string(Operator), string(Approver), string(Admin)}
}

// logins registers what needs no token yet: how to log in, and a login itself; and what ends a
// session. They are no part of the document: its routes all have a role.
func (s *Server) logins() {
	s.mux.HandleFunc("GET /v1/login", func(w http.ResponseWriter, _ *http.Request) {
		if s.cfg.Login == nil {
			plainProblem(w, http.StatusNotFound, "this server has no OpenID provider: an admin makes tokens")
			return
		}
		writeJSON(w, http.StatusOK, api.LoginInfo{Issuer: s.cfg.Login.Issuer(), ClientID: s.cfg.Login.ClientID(), Scopes: login.Scopes()})
	})
	if s.cfg.Login != nil {
		turns := make(chan struct{}, maxLogins)
		s.mux.HandleFunc("POST /v1/login", func(w http.ResponseWriter, r *http.Request) { s.login(w, r, turns) })
	}
	s.mux.HandleFunc("POST /v1/session", s.openSession)
	s.mux.HandleFunc("POST /v1/logout", s.logout)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// login makes a session, which is a token that ends, of an ID token. A turn is taken once the body
// is there: a slow sender delays nobody.
func (s *Server) login(w http.ResponseWriter, r *http.Request, turns chan struct{}) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	var in api.Login
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, login.MaxToken+1024))
	if err == nil {
		err = json.Unmarshal(text, &in)
	}
	if err != nil || in.IDToken == "" {
		plainProblem(w, http.StatusBadRequest, `expected a JSON object with "id_token" and "salt"`)
		return
	}
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	default:
		w.Header().Set("Retry-After", "1")
		plainProblem(w, http.StatusServiceUnavailable, "others are logging in: try again")
		return
	}
	person, err := s.cfg.Login.Verify(ctx, in.IDToken, in.Salt, r.Host)
	if err != nil {
		s.refuseLogin(w, err)
		return
	}
	t := ledger.Token{ID: person.Login, Name: person.Name, Tenant: person.Tenant, Roles: []string{person.Role}, Expires: person.Expires}
	if t.Tenant == login.Everyone {
		t.Tenant, t.AllTenants = "", true
	}
	secret, made, err := s.cfg.Ledger.NewToken(ctx, named(t), t)
	switch {
	case errors.Is(err, core.ErrConflict):
		s.metrics.Add(telemetry.AccessRefused, 1, refusedLogin)
		plainProblem(w, http.StatusConflict, "this ID token opened a session before: log in again")
		return
	case err != nil:
		s.ledgerFailed("a session could not be made", err)
		plainProblem(w, http.StatusServiceUnavailable, "the session could not be made: try again")
		return
	}
	shown := tokenOf(made)
	shown.Secret = secret
	writeJSON(w, http.StatusCreated, shown)
}

// refuseLogin answers with no more than the person needs to continue; the log has the reason.
func (s *Server) refuseLogin(w http.ResponseWriter, err error) {
	s.cfg.Log.Warn("a login was refused", "error", err)
	if !errors.Is(err, core.ErrUnavailable) { // that is nobody's word on who comes
		s.metrics.Add(telemetry.AccessRefused, 1, refusedLogin)
	}
	switch {
	case errors.Is(err, core.ErrUnavailable):
		plainProblem(w, http.StatusServiceUnavailable, "cannot verify logins, the server's log says why: try again")
	case errors.Is(err, login.ErrNoAccess):
		plainProblem(w, http.StatusForbidden, err.Error())
	default:
		plainProblem(w, http.StatusUnauthorized, "the login is not valid: "+strings.TrimSuffix(err.Error(), ": "+core.ErrInvalid.Error()))
	}
}
