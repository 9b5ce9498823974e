package client

import (
	"context"
	"net/http"
	"time"

	"github.com/turnus/turnus/core/api"
)

// Workers lists workers, by name.
func (c *Client) Workers(ctx context.Context, p Page) (List[api.Worker], error) {
	return get[List[api.Worker]](ctx, c, "list workers", "/v1/workers", p.into(nil))
}

// CordonWorker gives a worker no further jobs.
func (c *Client) CordonWorker(ctx context.Context, name, reason string) (api.Worker, error) {
	return c.order(ctx, name, "cordon", reason)
}

// UncordonWorker gives a worker jobs again.
func (c *Client) UncordonWorker(ctx context.Context, name, reason string) (api.Worker, error) {
	return c.order(ctx, name, "uncordon", reason)
}

// DrainWorker has a worker give its jobs to others and end.
func (c *Client) DrainWorker(ctx context.Context, name, reason string) (api.Worker, error) {
	return c.order(ctx, name, "drain", reason)
}

func (c *Client) order(ctx context.Context, name, verb, reason string) (api.Worker, error) {
	var out api.Worker
	err := c.do(ctx, call{what: verb + " worker " + name, method: http.MethodPost, path: path("v1", "workers", name, verb), body: api.Why{Reason: reason}, again: true}, &out)
	return out, err
}

// Queue shows the state of the queue.
func (c *Client) Queue(ctx context.Context) (api.Queue, error) {
	return get[api.Queue](ctx, c, "show the queue", "/v1/queue", nil)
}

// Settings lists the settings of the server, by name and without secrets.
func (c *Client) Settings(ctx context.Context) (List[api.Setting], error) {
	return get[List[api.Setting]](ctx, c, "list the settings of the server", "/v1/settings", nil)
}

// Shares lists what tenants have of the workers, and what waits, by tenant.
func (c *Client) Shares(ctx context.Context, p Page) (List[api.Share], error) {
	return get[List[api.Share]](ctx, c, "list shares", "/v1/shares", p.into(nil))
}

// ShareHistory shows the worker time that each tenant used in the last 24 hours.
func (c *Client) ShareHistory(ctx context.Context) (api.ShareHistory, error) {
	return get[api.ShareHistory](ctx, c, "show the worker time of tenants", "/v1/shares/history", nil)
}

// AuditFilter chooses entries of the audit log. Empty fields match all.
type AuditFilter struct {
	Who, What, Kind, Object string
	Since, Until            time.Time
}

// Audit lists who did what, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter, p Page) (List[api.Entry], error) {
	q := p.into(nil)
	set(q, "who", f.Who)
	set(q, "what", f.What)
	set(q, "kind", f.Kind)
	set(q, "object", f.Object)
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339))
	}
	if !f.Until.IsZero() {
		q.Set("until", f.Until.UTC().Format(time.RFC3339))
	}
	return get[List[api.Entry]](ctx, c, "read the audit log", "/v1/audit", q)
}

// Tokens lists tokens, without their secrets.
func (c *Client) Tokens(ctx context.Context, p Page) (List[api.Token], error) {
	return get[List[api.Token]](ctx, c, "list tokens", "/v1/tokens", p.into(nil))
}

// CreateToken makes a token. Its secret is in the answer, and nowhere else.
func (c *Client) CreateToken(ctx context.Context, n api.NewToken) (api.Token, error) {
	return post[api.Token](ctx, c, "make token "+n.Name, "/v1/tokens", n)
}

// RevokeToken ends a token's right.
func (c *Client) RevokeToken(ctx context.Context, id string) (api.Token, error) {
	var out api.Token
	err := c.do(ctx, call{what: "revoke token " + id, method: http.MethodDelete, path: path("v1", "tokens", id), again: true}, &out)
	return out, err
}

// Definitions shows which definitions hold.
func (c *Client) Definitions(ctx context.Context) (api.Definitions, error) {
	return get[api.Definitions](ctx, c, "show the project", "/v1/definitions", nil)
}

// RejectedDefinitions shows a revision that was not taken, and how its files differ from those of
// the present one.
func (c *Client) RejectedDefinitions(ctx context.Context) (api.RejectedChanges, error) {
	return get[api.RejectedChanges](ctx, c, "show the rejected project", "/v1/definitions/rejected", nil)
}

// DefinitionChanges shows what the definitions that hold changed.
func (c *Client) DefinitionChanges(ctx context.Context) (api.DefinitionChanges, error) {
	return get[api.DefinitionChanges](ctx, c, "show what the project changed", "/v1/definitions/changes", nil)
}

// ApplyDefinitions puts definitions in the place of those with the etag; "" where there are none
// yet.
func (c *Client) ApplyDefinitions(ctx context.Context, etag string, a api.Apply) (api.Definitions, error) {
	var out api.Definitions
	err := c.do(ctx, call{what: "apply the project", method: http.MethodPut, path: "/v1/definitions", body: a, header: ifMatch(etag)}, &out)
	return out, err
}

// DiffDefinitions checks definitions, and returns what they would change.
func (c *Client) DiffDefinitions(ctx context.Context, a api.Apply) (List[api.Change], error) {
	var out List[api.Change]
	err := c.do(ctx, call{what: "compare the project", method: http.MethodPost, path: "/v1/definitions/diff", body: a, again: true}, &out)
	return out, err
}

// Hosts lists the hosts of the server's inventory, by name.
func (c *Client) Hosts(ctx context.Context, p Page) (List[api.Host], error) {
	return get[List[api.Host]](ctx, c, "list hosts", "/v1/hosts", p.into(nil))
}

// Whoami shows who the token makes its bearer.
func (c *Client) Whoami(ctx context.Context) (api.Whoami, error) {
	return get[api.Whoami](ctx, c, "show who asks", "/v1/whoami", nil)
}
