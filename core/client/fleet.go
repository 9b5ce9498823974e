package client

import (
	"context"

	"github.com/turnus/turnus/core/api"
)

// Fleet lists the hosts of the server's inventory with their last outcomes, by name: those of one
// customer, or of all where it is "".
func (c *Client) Fleet(ctx context.Context, customer string, p Page) (List[api.FleetHost], error) {
	q := p.into(nil)
	set(q, "customer", customer)
	return get[List[api.FleetHost]](ctx, c, "list the fleet", "/v1/fleet", q)
}
