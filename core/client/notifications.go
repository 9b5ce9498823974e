package client

import (
	"context"
	"net/http"

	"github.com/turnus/turnus/core/api"
)

// NotificationFilter chooses notifications. Empty fields match all.
type NotificationFilter struct{ State, Channel, Kind, Run string }

// Notifications lists notifications, newest first.
func (c *Client) Notifications(ctx context.Context, f NotificationFilter, p Page) (List[api.Notification], error) {
	q := p.into(nil)
	set(q, "state", f.State)
	set(q, "channel", f.Channel)
	set(q, "kind", f.Kind)
	set(q, "run", f.Run)
	return get[List[api.Notification]](ctx, c, "list notifications", "/v1/notifications", q)
}

// Notification returns one, with its text.
func (c *Client) Notification(ctx context.Context, id string) (api.Notification, error) {
	return get[api.Notification](ctx, c, "show notification "+id, path("v1", "notifications", id), nil)
}

// RetryNotification sends a notification again that is dead-lettered, or that waits.
func (c *Client) RetryNotification(ctx context.Context, id string) (api.Notification, error) {
	var out api.Notification
	err := c.do(ctx, call{what: "send notification " + id + " again", method: http.MethodPost, path: path("v1", "notifications", id, "retry"), again: true}, &out)
	return out, err
}

// Channels lists the channels of notifications.
func (c *Client) Channels(ctx context.Context, p Page) (List[api.Channel], error) {
	return get[List[api.Channel]](ctx, c, "list channels", "/v1/channels", p.into(nil))
}

// TestChannel sends a test to a channel: NAME, or TENANT:NAME.
func (c *Client) TestChannel(ctx context.Context, name string) (api.Notification, error) {
	var out api.Notification
	err := c.do(ctx, call{what: "test channel " + name, method: http.MethodPost, path: path("v1", "channels", name, "test")}, &out)
	return out, err
}
