package client

import (
	"context"

	"github.com/turnus/turnus/core/api"
)

// Sources lists the systems that hosts are fetched from, by name.
func (c *Client) Sources(ctx context.Context, p Page) (List[api.Source], error) {
	return get[List[api.Source]](ctx, c, "list sources", "/v1/sources", p.into(nil))
}

// DiffSource shows what the held generation of a source would change.
func (c *Client) DiffSource(ctx context.Context, source string) (api.SourceDiff, error) {
	return get[api.SourceDiff](ctx, c, "show what is held of source "+source, path("v1", "sources", source, "diff"), nil)
}

// ApproveSource uses the held generation of a source.
func (c *Client) ApproveSource(ctx context.Context, source, generation string) (api.Source, error) {
	return post[api.Source](ctx, c, "approve the generation of source "+source, path("v1", "sources", source, "approve"), api.ApproveSource{Generation: generation})
}

// Origins lists the values of a host with where each comes from.
func (c *Client) Origins(ctx context.Context, host string) (List[api.Origin], error) {
	return get[List[api.Origin]](ctx, c, "show where values of "+host+" come from", path("v1", "hosts", host, "origins"), nil)
}
