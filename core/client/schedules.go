package client

import (
	"context"
	"net/http"

	"github.com/turnus/turnus/core/api"
)

// Schedules lists schedules, by tenant and name.
func (c *Client) Schedules(ctx context.Context, p Page) (List[api.Schedule], error) {
	return get[List[api.Schedule]](ctx, c, "list schedules", "/v1/schedules", p.into(nil))
}

// Schedule shows a schedule: NAME, or TENANT:NAME.
func (c *Client) Schedule(ctx context.Context, name string) (api.Schedule, error) {
	return get[api.Schedule](ctx, c, "show schedule "+name, path("v1", "schedules", name), nil)
}

// PutSchedule makes a schedule, or, with the etag of what it was, replaces it. To make one is asked
// again when no answer comes.
func (c *Client) PutSchedule(ctx context.Context, name, etag string, s api.NewSchedule) (api.Schedule, error) {
	var out api.Schedule
	err := c.do(ctx, call{what: "set schedule " + name, method: http.MethodPut, path: path("v1", "schedules", name), body: s, header: ifMatch(etag), again: etag == ""}, &out)
	return out, err
}

// DeleteSchedule removes a schedule; what it launched continues.
func (c *Client) DeleteSchedule(ctx context.Context, name, etag string) error {
	err := c.do(ctx, call{what: "remove schedule " + name, method: http.MethodDelete, path: path("v1", "schedules", name), header: ifMatch(etag)}, nil)
	return err
}

// PauseSchedule stops the launches of a schedule until it is resumed.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) (api.Schedule, error) {
	return c.changeSchedule(ctx, name, "pause", reason)
}

// ResumeSchedule starts the launches of a paused schedule again.
func (c *Client) ResumeSchedule(ctx context.Context, name, reason string) (api.Schedule, error) {
	return c.changeSchedule(ctx, name, "resume", reason)
}

func (c *Client) changeSchedule(ctx context.Context, name, verb, reason string) (api.Schedule, error) {
	var out api.Schedule
	q := call{what: verb + " schedule " + name, method: http.MethodPost, path: path("v1", "schedules", name, verb), body: api.Why{Reason: reason}, again: true}
	err := c.do(ctx, q, &out)
	return out, err
}

// TriggerSchedule launches a schedule now. With a key it is asked again when no answer comes.
func (c *Client) TriggerSchedule(ctx context.Context, name, key, reason string) (api.Launched, error) {
	var out api.Launched
	q := call{what: "trigger schedule " + name, method: http.MethodPost, path: path("v1", "schedules", name, "trigger"), body: api.Why{Reason: reason}, header: keyed(key), again: key != ""}
	err := c.do(ctx, q, &out)
	return out, err
}

// PlanSchedule shows what TriggerSchedule would launch.
func (c *Client) PlanSchedule(ctx context.Context, name string) (api.Plan, error) {
	var out api.Plan
	err := c.do(ctx, call{what: "plan schedule " + name, method: http.MethodPost, path: path("v1", "schedules", name, "plan"), again: true}, &out)
	return out, err
}

// BackfillSchedule launches the fire times of a past range; those that were launched before are not
// repeated.
func (c *Client) BackfillSchedule(ctx context.Context, name string, b api.Backfill) (api.Backfilled, error) {
	var out api.Backfilled
	err := c.do(ctx, call{what: "backfill schedule " + name, method: http.MethodPost, path: path("v1", "schedules", name, "backfill"), body: b, again: true}, &out)
	return out, err
}

func ifMatch(etag string) http.Header {
	if etag == "" {
		return nil
	}
	return http.Header{"If-Match": {etag}}
}

func keyed(key string) http.Header {
	if key == "" {
		return nil
	}
	return http.Header{"Idempotency-Key": {key}}
}
