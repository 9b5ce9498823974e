package server

import (
	"context"
	"net/http"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
)

// sources registers the systems that keep hosts.
func (s *Server) sources() {
	const seen = "A tenant's token sees the sources of that tenant. Sources without a tenant are for tokens of all tenants."
	handle(s, route{id: "list-sources", method: http.MethodGet, path: "/v1/sources", summary: "List the systems that hosts are fetched from", detail: seen, role: Viewer}, s.listSources)
	handle(s, route{id: "get-source", method: http.MethodGet, path: "/v1/sources/{source}", summary: "Show how fetching a source goes", detail: seen, role: Viewer}, s.getSource)
	handle(s, route{id: "diff-source", method: http.MethodGet, path: "/v1/sources/{source}/diff", summary: "Show what the waiting generation of a source would change", detail: seen, role: Viewer}, s.diffSource)
	handle(s, route{
		id: "approve-source", method: http.MethodPost, path: "/v1/sources/{source}/approve", summary: "Use the waiting generation of a source", role: Approver, status: http.StatusOK,
		detail: "Another generation that waits by then is not approved: 409. Launches use the approved hosts from then on; other servers follow within seconds.",
	}, s.approveSource)
	handle(s, route{
		id: "list-origins", method: http.MethodGet, path: "/v1/hosts/{host}/origins", summary: "Show where each value of a host comes from", role: Operator,
		detail: "The values of a host's vars are among them.",
	}, s.listOrigins)
}

// SourcePath names a source.
type SourcePath struct {
	Source string `path:"source" maxLength:"63"`
}

func (s *Server) listSources(_ context.Context, by caller, in *struct{ Page }) (*list[api.Source], error) {
	all, next := pageOf(s.cfg.Catalog.HostSources(by.scope), func(h catalog.HostSource) string { return h.Source.Name }, in.Page)
	items := make([]api.Source, len(all))
	for i := range all {
		items[i] = sourceOf(&all[i])
	}
	return listOf(items, next), nil
}

func (s *Server) getSource(_ context.Context, by caller, in *SourcePath) (*body[api.Source], error) {
	h, err := s.cfg.Catalog.HostSource(by.scope, in.Source)
	if err != nil {
		return nil, err
	}
	return &body[api.Source]{sourceOf(&h)}, nil
}

func (s *Server) diffSource(ctx context.Context, by caller, in *SourcePath) (*body[api.SourceDiff], error) {
	h, d, err := s.cfg.Catalog.DiffSource(ctx, by.scope, in.Source)
	if err != nil {
		return nil, err
	}
	out := api.SourceDiff{Source: sourceOf(&h), Added: d.Added, Removed: d.Removed, Changed: make([]api.SourceChange, len(d.Changed))}
	for i, c := range d.Changed {
		out.Changed[i] = api.SourceChange(c)
	}
	return &body[api.SourceDiff]{out}, nil
}

func (s *Server) approveSource(ctx context.Context, by caller, in *struct {
	SourcePath
	Body api.ApproveSource
},
) (*body[api.Source], error) {
	h, err := s.cfg.Catalog.ApproveSource(ctx, by.scope, by.name, in.Source, in.Body.Generation)
	if err != nil {
		return nil, err
	}
	return &body[api.Source]{sourceOf(&h)}, nil
}

func (s *Server) listOrigins(ctx context.Context, by caller, in *HostPath) (*list[api.Origin], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	if h, ok := set.Inventory.Host(in.Host); !ok || !by.scope.Allows(h.Customer) {
		return nil, noHost(in.Host)
	}
	all, err := set.Explain(ctx, in.Host)
	if err != nil {
		return nil, err
	}
	items := make([]api.Origin, len(all))
	for i, o := range all {
		items[i] = api.Origin(o)
	}
	return listOf(items, ""), nil
}

// sourceOf shows a source. Its state is the worst that applies.
func sourceOf(h *catalog.HostSource) api.Source {
	st := &h.State
	out := api.Source{
		Name: h.Source.Name, Tenant: h.Source.Tenant, Type: string(h.Source.Kind), State: "good", Generation: st.ID, Hosts: st.Hosts, Good: st.Good, Fetched: st.Tried,
		Every: core.InSeconds(h.Source.Every), MaxAge: core.InSeconds(h.Source.MaxAge), LeftTotal: st.Total + len(h.Left),
	}
	all := append(append([]string{}, st.Left...), h.Left...)
	out.Left = all[:min(len(all), catalog.MaxLeft)]
	if st.Waiting != nil {
		out.State, out.Reason = "waiting", st.Waiting.Why
		out.Waiting = &api.WaitingSource{Generation: st.Waiting.ID, Hosts: st.Waiting.Hosts, At: st.Waiting.At, Reason: st.Waiting.Why}
	}
	if st.Failed != "" {
		out.State, out.Reason = "failed", st.Failed
	}
	if h.Unread != nil {
		out.State, out.Reason = "failed", h.Unread.Error()
	}
	if stale := st.Stale(h.Source, time.Now()); stale != nil {
		out.State, out.Reason, out.ReasonCode = "refused", stale.Error(), core.SourceStale
	}
	return out
}
