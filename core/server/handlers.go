package server

import (
	"context"
	"net/http"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// handlers registers the handlers that runs left pending.
func (s *Server) handlers() {
	handle(s, route{
		id: "list-handlers", method: http.MethodGet, path: "/v1/handlers", summary: "List pending handlers, newest first", role: Viewer,
		detail: "The next run of the playbook on the host runs them, also if it changes nothing. One that the playbook has no more stays until it is dropped. " + shortPage,
	}, s.listHandlers)
	handle(s, route{
		id: "drop-handlers", method: http.MethodPost, path: "/v1/handlers/drop", summary: "Forget pending handlers of a playbook", role: Operator, status: http.StatusOK,
		detail: "For handlers that the playbook has no more, and for hosts where a person did what the handler does.",
	}, s.dropHandlers)
}

func (s *Server) listHandlers(ctx context.Context, by caller, in *struct {
	Page
	Playbook string `query:"playbook" maxLength:"200"`
	Host     string `query:"host" maxLength:"253"`
	Handler  string `query:"handler" maxLength:"400"`
	Run      string `query:"run" maxLength:"128" doc:"that left them pending"`
},
) (*list[api.PendingHandler], error) {
	all, next, err := s.cfg.Ledger.PendingHandlers(ctx, by.scope, ledger.HandlerFilter{Playbook: in.Playbook, Host: in.Host, Handler: in.Handler, Run: in.Run}, in.ledger())
	if err != nil {
		return nil, err
	}
	items := handlersOf(all)
	if err := s.markRemoved(ctx, items); err != nil {
		return nil, err
	}
	return listOf(items, next), nil
}

func (s *Server) dropHandlers(ctx context.Context, by caller, in *struct{ Body api.DropHandlers }) (*body[api.DroppedHandlers], error) {
	dropped, err := s.cfg.Ledger.DropHandlers(ctx, by.scope, by.name, ledger.HandlerFilter{Playbook: in.Body.Playbook, Host: in.Body.Host, Handler: in.Body.Handler})
	if err != nil {
		return nil, err
	}
	return &body[api.DroppedHandlers]{api.DroppedHandlers{Items: handlersOf(dropped)}}, nil
}

func handlersOf(all []ledger.PendingHandler) []api.PendingHandler {
	items := make([]api.PendingHandler, len(all))
	for i, h := range all {
		items[i] = api.PendingHandler{Tenant: h.Tenant, Playbook: h.Playbook, Host: h.Host, Handler: h.Handler, Run: h.Run, Since: h.Since}
	}
	return items
}

// markRemoved notes which handlers the project no longer has, and where the newest run of the page
// had each: a page has up to 1000 runs, and one is read for each handler. A server without a
// project does not know.
func (s *Server) markRemoved(ctx context.Context, items []api.PendingHandler) error {
	set := s.cfg.Catalog.Set()
	if set == nil {
		return nil
	}
	books, places := &launch.Restorer{Types: s.cfg.Types}, map[[3]string]string{}
	for i := range items {
		h := &items[i]
		if p, ok := set.Playbook(h.Playbook); ok && p.Tenant == h.Tenant && p.Handler(h.Handler) >= 0 {
			continue
		}
		which := [3]string{h.Tenant, h.Playbook, h.Handler}
		if _, known := places[which]; !known {
			m, _ := s.cfg.Ledger.Material(ctx, h.Run) // without it the place is not known
			if ctx.Err() != nil {
				return ctx.Err()
			}
			places[which] = books.HandlerPlace(m.Snapshot, h.Handler)
		}
		h.Removed, h.At = true, places[which]
	}
	return nil
}
