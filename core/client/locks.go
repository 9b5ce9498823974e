package client

import (
	"context"

	"github.com/turnus/turnus/core/api"
)

// Locks lists who holds the locks of a host and of its HA group.
func (c *Client) Locks(ctx context.Context, host string) ([]api.Lock, error) {
	all, err := get[List[api.Lock]](ctx, c, "list the locks of host "+host, path("v1", "hosts", host, "locks"), nil)
	return all.Items, err
}
