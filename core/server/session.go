package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

const (
	sessionTime  = 12 * time.Hour
	sessionsEach = 50 // valid ones of a person: the oldest ends for another
)

// isSession reports whether a token is of a login or was opened with another token.
func isSession(t ledger.Token) bool {
	return strings.HasPrefix(t.ID, loginPrefix) || ledger.OpenerOf(t.ID) != ""
}

// personal admits the caller of a route outside of the document, or answers with the refusal.
func (s *Server) personal(ctx context.Context, w http.ResponseWriter, r *http.Request) (caller, bool) {
	by, status, why := s.admit(ctx, r.Header.Get("Authorization"), route{role: Viewer})
	if status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="turnus"`)
		}
		plainProblem(w, status, why)
	}
	return by, status == 0
}

// openSession makes a session of the caller's token: a token with the same rights, which a logout
// can end. It ends with the token, and after sessionTime.
func (s *Server) openSession(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	by, ok := s.personal(ctx, w, r)
	if !ok {
		return
	}
	if by.token.ID == "" || isSession(by.token) {
		plainProblem(w, http.StatusConflict, "the caller has a session already: use it")
		return
	}
	t := ledger.Token{ID: ledger.SessionID(by.token.ID), Name: by.token.Name, Tenant: by.token.Tenant, AllTenants: by.token.AllTenants, Roles: by.token.Roles}
	if t.Expires = time.Now().Add(sessionTime); !by.token.Expires.IsZero() && by.token.Expires.Before(t.Expires) {
		t.Expires = by.token.Expires
	}
	open, err := s.sessionsOf(ctx, by)
	for err == nil && len(open) >= sessionsEach {
		oldest := slices.MinFunc(open, func(a, b ledger.Token) int { return a.Created.Compare(b.Created) })
		open = slices.DeleteFunc(open, func(t ledger.Token) bool { return t.ID == oldest.ID })
		err = s.endSession(ctx, by, oldest.ID)
	}
	var secret string
	var made ledger.Token
	if err == nil {
		secret, made, err = s.cfg.Ledger.NewToken(ctx, by.name, t)
	}
	if errors.Is(err, core.ErrNotFound) { // it was revoked meanwhile
		plainProblem(w, http.StatusUnauthorized, "the token is unknown, expired or revoked")
		return
	}
	if err != nil {
		s.ledgerFailed("a session could not be made", err)
		plainProblem(w, http.StatusServiceUnavailable, "the session could not be made: try again")
		return
	}
	shown := tokenOf(made)
	shown.Secret = secret
	writeJSON(w, http.StatusCreated, shown)
}

// sessionsOf lists the valid sessions of the caller's person.
func (s *Server) sessionsOf(ctx context.Context, by caller) (all []ledger.Token, err error) {
	list := func(ctx context.Context, p ledger.Page) ([]ledger.Token, string, error) {
		return s.cfg.Ledger.Tokens(ctx, by.scope, ledger.TokenFilter{Name: by.token.Name, Valid: true}, p)
	}
	for t, err := range ledger.Each(ctx, ledger.MaxPage, list) {
		if err != nil {
			return nil, err
		}
		if isSession(t) && tenantOf(t) == tenantOf(by.token) {
			all = append(all, t)
		}
	}
	return all, nil
}

func (s *Server) endSession(ctx context.Context, by caller, id string) error {
	_, err := s.cfg.Ledger.RevokeToken(ctx, by.scope, by.name, id)
	if err == nil {
		s.tokens.revoked(id)
	}
	return err
}

// logout ends the session of the caller, with everywhere=true all sessions of the person. Other
// tokens are revoked by an admin.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), requestTime)
	defer cancel()
	by, ok := s.personal(ctx, w, r)
	if !ok {
		return
	}
	end := []ledger.Token{by.token}
	var err error
	switch {
	case r.URL.Query().Get("everywhere") == "true" && by.token.ID != "":
		end, err = s.sessionsOf(ctx, by)
	case !isSession(by.token):
		plainProblem(w, http.StatusConflict, "the token "+by.token.Name+" is of no login, and stays: an admin revokes it")
		return
	}
	for i := 0; err == nil && i < len(end); i++ {
		err = s.endSession(ctx, by, end[i].ID)
	}
	if err != nil {
		s.ledgerFailed("a session could not be ended", err)
		plainProblem(w, http.StatusServiceUnavailable, "the session could not be ended: try again; it expires at "+by.token.Expires.Format(time.RFC3339))
		return
	}
	ended := tokenOf(by.token)
	if isSession(by.token) {
		ended.Revoked = time.Now().UTC()
	}
	writeJSON(w, http.StatusOK, ended)
}
