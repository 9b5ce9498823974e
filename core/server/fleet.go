package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// fleet registers the hosts of the inventory with what the ledger knows of them.
func (s *Server) fleet() {
	handle(s, route{
		id: "list-fleet", method: http.MethodGet, path: "/v1/fleet", summary: "List hosts with their last outcomes, by name", role: Viewer,
		detail: "Of each host the newest job that has an outcome; jobs that ended before they were started do not count.",
	}, s.listFleet)
}

func (s *Server) listFleet(ctx context.Context, by caller, in *struct {
	Page
	Customer string `query:"customer" maxLength:"200"`
},
) (*list[api.FleetHost], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	hosts := slices.DeleteFunc(slices.Clone(s.hosts(by, set)), func(h core.Host) bool {
		return in.Customer != "" && h.Customer != in.Customer
	})
	slices.SortFunc(hosts, func(a, b core.Host) int { return strings.Compare(a.Name, b.Name) })
	hosts, next := pageOf(hosts, func(h core.Host) string { return h.Name }, in.Page)
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	last, err := s.cfg.Ledger.LastJobs(ctx, by.scope, names)
	if err != nil {
		return nil, err
	}
	items := make([]api.FleetHost, len(hosts))
	for i, h := range hosts {
		items[i] = api.FleetHost{Name: h.Name, Customer: h.Customer, Site: h.Site, HAGroup: h.HAGroup, Groups: h.Groups}
		if j, ok := last[h.Name]; ok {
			items[i].Outcome, items[i].Ended, items[i].Run, items[i].Index, items[i].Playbook = j.Outcome, jobOf(j).Ended, j.Run, j.Index, j.Playbook
		}
	}
	return listOf(items, next), nil
}
