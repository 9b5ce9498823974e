package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/turnus/turnus/core/api"
)

// LoginInfo reports which OpenID provider the server believes. It needs no token.
func (c *Client) LoginInfo(ctx context.Context) (api.LoginInfo, error) {
	return get[api.LoginInfo](ctx, c, "ask how to log in", "/v1/login", nil)
}

// Login opens a session with an ID token that the provider has just made; the secret is in the
// answer. An ID token opens one session, on the server that the salt and its nonce are for.
func (c *Client) Login(ctx context.Context, idToken, salt string) (api.Token, error) {
	var out api.Token
	err := c.do(ctx, call{what: "log in", method: http.MethodPost, path: "/v1/login", body: api.Login{IDToken: idToken, Salt: salt}}, &out)
	return out, err
}

// OpenSession makes a session of the client's token, which a logout can end; the secret is in the
// answer.
func (c *Client) OpenSession(ctx context.Context) (api.Token, error) {
	var out api.Token
	err := c.do(ctx, call{what: "open a session", method: http.MethodPost, path: "/v1/session"}, &out)
	return out, err
}

// Logout ends the session that the client's token is of.
func (c *Client) Logout(ctx context.Context) (api.Token, error) { return c.logout(ctx, nil) }

// LogoutEverywhere ends all sessions of the person whose token the client has.
func (c *Client) LogoutEverywhere(ctx context.Context) (api.Token, error) {
	return c.logout(ctx, url.Values{"everywhere": {"true"}})
}

func (c *Client) logout(ctx context.Context, q url.Values) (api.Token, error) {
	var out api.Token
	err := c.do(ctx, call{what: "log out", method: http.MethodPost, path: "/v1/logout", query: q, again: true}, &out)
	return out, err
}
