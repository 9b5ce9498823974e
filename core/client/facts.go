package client

import (
	"context"

	"github.com/turnus/turnus/core/api"
)

// HostFacts returns the newest facts of a host: an entry for each tenant that has a host of this
// name.
func (c *Client) HostFacts(ctx context.Context, host string) ([]api.HostFacts, error) {
	all, err := get[List[api.HostFacts]](ctx, c, "show the facts of host "+host, path("v1", "hosts", host, "facts"), nil)
	return all.Items, err
}
