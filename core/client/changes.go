package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/turnus/turnus/core/api"
)

// Changes waits until one of the topics differs from what it was at since, at most wait. With "" as
// since it answers immediately with all of them.
func (c *Client) Changes(ctx context.Context, since string, wait time.Duration, topics ...api.Topic) (api.Changes, error) {
	q := url.Values{"wait_seconds": {strconv.Itoa(int(wait / time.Second))}}
	set(q, "since", since)
	for _, t := range topics {
		q.Add("topic", string(t))
	}
	return get[api.Changes](ctx, c, "wait for changes", "/v1/changes", q)
}
