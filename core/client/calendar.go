package client

import (
	"context"
	"net/url"
	"time"

	"github.com/turnus/turnus/core/api"
)

// Calendar shows what may happen within [from, to), at most 92 days, in the lanes of one customer,
// or of all where tenant is "". Times that are zero are the server's choice.
func (c *Client) Calendar(ctx context.Context, from, to time.Time, tenant string) (api.Calendar, error) {
	q := url.Values{}
	for key, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			q.Set(key, at.UTC().Format(time.RFC3339))
		}
	}
	set(q, "tenant", tenant)
	return get[api.Calendar](ctx, c, "show the calendar", "/v1/calendar", q)
}
