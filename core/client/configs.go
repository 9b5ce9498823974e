package client

import (
	"context"
	"net/url"

	"github.com/turnus/turnus/core/api"
)

// ConfigVersions lists the kept versions of a host's configuration, newest first.
func (c *Client) ConfigVersions(ctx context.Context, host string) ([]api.ConfigVersion, error) {
	all, err := get[List[api.ConfigVersion]](ctx, c, "list the configuration versions of host "+host, path("v1", "hosts", host, "configs"), nil)
	return all.Items, err
}

// ConfigDiff compares two kept versions of a host's configuration. Without to it is the newest one,
// without from the one before that.
func (c *Client) ConfigDiff(ctx context.Context, host, from, to string) (api.ConfigDiff, error) {
	q := url.Values{}
	set(q, "from", from)
	set(q, "to", to)
	return get[api.ConfigDiff](ctx, c, "compare configuration versions of host "+host, path("v1", "hosts", host, "configs", "diff"), q)
}
