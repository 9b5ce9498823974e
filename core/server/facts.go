package server

import (
	"context"
	"fmt"
	"net/http"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// facts registers the routes of hosts' facts.
func (s *Server) facts() {
	handle(s, route{
		id: "get-host-facts", method: http.MethodGet, path: "/v1/hosts/{host}/facts", summary: "Show the newest facts of a host", role: Viewer,
		detail: "Runs gather them: where a step reads host.facts, and with the job type facts. They are kept for 30 days.",
	}, s.hostFacts)
}

func (s *Server) hostFacts(ctx context.Context, by caller, in *struct {
	Host string `path:"host" maxLength:"253"`
},
) (*list[api.HostFacts], error) {
	all, err := s.cfg.Ledger.FactsOf(ctx, by.scope, in.Host)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no facts of host %.253q are on record: %w", in.Host, core.ErrNotFound)
	}
	items := make([]api.HostFacts, len(all))
	for i, f := range all {
		facts, err := f.Decode()
		if err != nil {
			return nil, err
		}
		items[i] = api.HostFacts{Host: f.Host, Tenant: f.Tenant, Facts: facts.Values, At: f.At, Run: f.Run, Booted: facts.Booted()}
	}
	return listOf(items, ""), nil
}
