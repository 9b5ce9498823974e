package api

import (
	"encoding/json"
	"time"

	"github.com/turnus/turnus/core"
)

// Entry is one line of the audit log.
type Entry struct {
	Seq    int64           `json:"seq"`
	Time   time.Time       `json:"time"`
	Who    string          `json:"who"`
	What   string          `json:"what" doc:"as run.cancel"`
	Tenant string          `json:"tenant"`
	Object string          `json:"object"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Permission is a right that no role includes.
type Permission string

// The permissions.
const (
	PermitExec    Permission = "exec"                 // run commands without a playbook
	PermitOutside Permission = "exec-outside-windows" // and outside of the windows of their hosts
	PermitBecome  Permission = "exec-become"          // and as another user than the login
)

// Token is a token without its secret, which is shown once, when the token is made.
type Token struct {
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	Tenant      string       `json:"tenant" doc:"* is all tenants"`
	Role        string       `json:"role" enum:"worker,viewer,operator,approver,admin,calendar" doc:"calendar: of a calendar feed"`
	Permissions []Permission `json:"permissions,omitempty" doc:"beyond those of the role"`
	Created     time.Time    `json:"created"`
	Expires     time.Time    `json:"expires,omitzero"`
	Revoked     time.Time    `json:"revoked,omitzero"`
	LastUsed    time.Time    `json:"last_used,omitzero"`
	Secret      string       `json:"secret,omitempty"`
}

// NewToken asks for a token.
type NewToken struct {
	Name        string       `json:"name" minLength:"1" maxLength:"100" pattern:"^[A-Za-z0-9][A-Za-z0-9._@+ -]*$" doc:"of the person or pipeline that will have it"`
	Tenant      string       `json:"tenant" doc:"* is all tenants" minLength:"1" maxLength:"128"`
	Role        string       `json:"role" enum:"worker,viewer,operator,approver,admin"`
	Permissions []Permission `json:"permissions,omitempty" maxItems:"3" enum:"exec,exec-outside-windows,exec-become" doc:"no role includes them; for operators and admins; a tenant's admin gives only those that the token at hand has"`
	Expires     core.Seconds `json:"expires_in_seconds,omitempty" minimum:"0" doc:"how long it holds; without it, until it is revoked"`
}

// Whoami is the bearer of a token, with its rights.
type Whoami struct {
	Name        string       `json:"name" doc:"as in the audit log"`
	Token       string       `json:"token" doc:"id"`
	Tenant      string       `json:"tenant" doc:"* is all tenants"`
	Roles       []string     `json:"roles"`
	Permissions []Permission `json:"permissions,omitempty" doc:"beyond those of the roles"`
	Expires     time.Time    `json:"expires,omitzero"`
}

// LoginInfo is the data for a program that logs somebody in by OpenID Connect.
type LoginInfo struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes"`
}

// Login is an ID token of the provider, just made, and the salt of its nonce, which is for one
// server.
type Login struct {
	IDToken string `json:"id_token"`
	Salt    string `json:"salt"`
}
