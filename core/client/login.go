package client

import (
	"context"
	"net/http"

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

// Logout ends the session that the client's token is of.
func (c *Client) Logout(ctx context.Context) (api.Token, error) {
	var out api.Token
	err := c.do(ctx, call{what: "log out", method: http.MethodPost, path: "/v1/logout", again: true}, &out)
	return out, err
}
