package login

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/turnus/turnus/core"
)

// Ticket is a browser's login that has begun. Its three texts are secret: only the browser that
// began may finish.
type Ticket struct {
	State    string `json:"s"` // comes back from the provider as it was sent
	Verifier string `json:"v"` // of PKCE, RFC 7636
	Salt     string `json:"n"` // of the nonce
}

// Begin returns the provider's page that a browser opens to log in: the authorization code grant
// with PKCE. back is the address to which the provider sends the browser, asked the Host of the
// request. Errors wrap core.ErrUnavailable if the provider does not answer, core.ErrInvalid if this
// server has no name.
func (p *Provider) Begin(ctx context.Context, back, asked string) (page string, t Ticket, err error) {
	host, err := p.Host(asked)
	if err != nil {
		return "", t, err
	}
	cfg, _, err := p.client(ctx, back)
	if err != nil {
		return "", t, err
	}
	t = Ticket{State: rand.Text(), Verifier: oauth2.GenerateVerifier(), Salt: rand.Text()}
	return cfg.AuthCodeURL(t.State, oidc.Nonce(Nonce(host, t.Salt)), oauth2.S256ChallengeOption(t.Verifier)), t, nil
}

// Finish exchanges the code that the provider gave a browser for the ID token of the login.
// [Provider.Verify] decides whether the token counts.
func (p *Provider) Finish(ctx context.Context, back, code string, t Ticket) (idToken string, err error) {
	cfg, ctx, err := p.client(ctx, back)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	token, err := cfg.Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return "", fmt.Errorf("the OpenID provider refuses the code (%s): %w", refused.ErrorCode, core.ErrInvalid)
	}
	if err != nil {
		return "", fmt.Errorf("exchange the code at the OpenID provider: %w: %w", core.ErrUnavailable, err)
	}
	idToken, _ = token.Extra("id_token").(string)
	if idToken == "" {
		return "", fmt.Errorf("the OpenID provider gave no ID token: its client needs the scope openid: %w", core.ErrInvalid)
	}
	return idToken, nil
}

// client is Turnus as a client of the provider, and ctx with the HTTP client to ask with.
func (p *Provider) client(ctx context.Context, back string) (*oauth2.Config, context.Context, error) {
	found, err := p.discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	cfg := oauth2.Config{ClientID: p.cfg.ClientID, Endpoint: found.Endpoint(), Scopes: Offered(found, Scopes()), RedirectURL: back}
	return &cfg, oidc.ClientContext(ctx, p.cfg.HTTP), nil
}

// Scopes are asked of a provider.
func Scopes() []string { return []string{"openid", "profile", "email", "groups"} }

// Offered returns the scopes that a provider lists, and all of them if it lists none: some
// providers refuse a login with a scope that they do not know.
func Offered(p *oidc.Provider, scopes []string) []string {
	var said struct {
		Scopes []string `json:"scopes_supported"`
	}
	if err := p.Claims(&said); err != nil || len(said.Scopes) == 0 {
		return scopes
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool {
		return s != "openid" && !slices.Contains(said.Scopes, s)
	})
}
