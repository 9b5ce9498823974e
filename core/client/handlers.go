package client

import (
	"context"
	"net/http"

	"github.com/turnus/turnus/core/api"
)

// HandlerFilter narrows a list of pending handlers.
type HandlerFilter struct {
	Playbook, Host, Handler, Run string
}

// Handlers lists pending handlers, newest first.
func (c *Client) Handlers(ctx context.Context, f HandlerFilter, p Page) (List[api.PendingHandler], error) {
	q := p.into(nil)
	set(q, "playbook", f.Playbook)
	set(q, "host", f.Host)
	set(q, "handler", f.Handler)
	set(q, "run", f.Run)
	return get[List[api.PendingHandler]](ctx, c, "list pending handlers", "/v1/handlers", q)
}

// DropHandlers forgets pending handlers of a playbook, and returns them.
func (c *Client) DropHandlers(ctx context.Context, in api.DropHandlers) (api.DroppedHandlers, error) {
	var out api.DroppedHandlers
	err := c.do(ctx, call{what: "drop pending handlers of " + in.Playbook, method: http.MethodPost, path: path("v1", "handlers", "drop"), body: in}, &out)
	return out, err
}
