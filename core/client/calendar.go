package client

import (
	"context"
	"net/http"
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

// CalendarFeeds lists the valid calendar feeds of the caller; of an admin, those of the tenant.
func (c *Client) CalendarFeeds(ctx context.Context, p Page) (List[api.CalendarFeed], error) {
	return get[List[api.CalendarFeed]](ctx, c, "list calendar feeds", "/v1/calendar-feeds", p.into(nil))
}

// CreateCalendarFeed makes a calendar feed. Its address is in the answer, and nowhere else. With a
// key, a repeat makes no second one.
func (c *Client) CreateCalendarFeed(ctx context.Context, key string, n api.NewCalendarFeed) (api.CalendarFeed, error) {
	var out api.CalendarFeed
	err := c.do(ctx, call{what: "make calendar feed " + n.Name, method: http.MethodPost, path: "/v1/calendar-feeds", body: n, header: keyed(key)}, &out)
	return out, err
}

// RevokeCalendarFeed ends a calendar feed.
func (c *Client) RevokeCalendarFeed(ctx context.Context, id string) (api.CalendarFeed, error) {
	var out api.CalendarFeed
	err := c.do(ctx, call{what: "revoke calendar feed " + id, method: http.MethodDelete, path: path("v1", "calendar-feeds", id), again: true}, &out)
	return out, err
}
