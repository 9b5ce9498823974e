package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Windows lists window sets, by name.
func (c *Client) Windows(ctx context.Context, p Page) (List[api.WindowSet], error) {
	return get[List[api.WindowSet]](ctx, c, "list window sets", "/v1/windows", p.into(nil))
}

// Window shows a window set with what it opens next.
func (c *Client) Window(ctx context.Context, set string) (api.WindowSet, error) {
	return get[api.WindowSet](ctx, c, "show window set "+set, path("v1", "windows", set), nil)
}

// ExplainWindow reports whether work of a need may start in a window set; at is now when it is
// zero.
func (c *Client) ExplainWindow(ctx context.Context, set string, at time.Time, need time.Duration) (api.WindowAnswer, error) {
	q := url.Values{"need_seconds": {strconv.FormatFloat(float64(core.InSeconds(need)), 'f', -1, 64)}}
	if !at.IsZero() {
		q.Set("at", at.UTC().Format(time.RFC3339))
	}
	return get[api.WindowAnswer](ctx, c, "explain window set "+set, path("v1", "windows", set, "explain"), q)
}

// Approvals lists the windows that need an approval; waiting leaves out those that have one for the
// next 60 days.
func (c *Client) Approvals(ctx context.Context, waiting bool, p Page) (List[api.WindowApproval], error) {
	q := p.into(nil)
	if waiting {
		q.Set("waiting", "true")
	}
	return get[List[api.WindowApproval]](ctx, c, "list approvals", "/v1/approvals", q)
}

// ApproveWindow approves a window set, or a rule of it. With a key it is asked again when no answer
// comes.
func (c *Client) ApproveWindow(ctx context.Context, set, key string, a api.ApproveWindow) (api.WindowApproval, error) {
	var out api.WindowApproval
	q := call{what: "approve window set " + set, method: http.MethodPost, path: path("v1", "windows", set, "approve"), body: a, header: keyed(key), again: key != ""}
	err := c.do(ctx, q, &out)
	return out, err
}

// RevokeWindow revokes the approvals of a window set, or of a rule of it.
func (c *Client) RevokeWindow(ctx context.Context, set, key string, r api.RevokeWindow) (api.WindowApproval, error) {
	var out api.WindowApproval
	q := call{what: "revoke window set " + set, method: http.MethodPost, path: path("v1", "windows", set, "revoke"), body: r, header: keyed(key), again: key != ""}
	err := c.do(ctx, q, &out)
	return out, err
}
