package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/queue"
)

// shares registers what tenants have of the workers.
func (s *Server) shares() {
	handle(s, route{
		id: "list-shares", method: http.MethodGet, path: "/v1/shares", summary: "List what tenants have of the workers, and what waits, by tenant", role: Viewer,
		detail: "It is kept for up to 5 s. A tenant's token sees its own waits, and how many other tenants come first.",
	}, s.listShares)
}

func (s *Server) listShares(ctx context.Context, by caller, in *struct{ Page }) (*list[api.Share], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	c, err := s.census.read(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w: %w", core.ErrUnavailable, err)
	}
	names := map[string]bool{}
	if by.scope.All() {
		for name := range c.load.ByTenant {
			names[name] = true
		}
	} else {
		names[by.token.Tenant] = true // also where nothing of it is in the queue
	}
	shown, next := pageOf(sortedKeys(names), strings.Clone, in.Page)
	items := make([]api.Share, len(shown))
	fair := c.load.FairShares(concurrencyOf(c.workers))
	for i, name := range shown {
		items[i] = shareOf(&c.load, name, set.TenantWeight(name))
		if by.scope.All() {
			items[i].Fair, items[i].Use = fair[name], float64(items[i].Running)/float64(max(c.load.InFlight, 1))
		}
	}
	return listOf(items, next), nil
}

func shareOf(l *queue.Load, tenant string, weight int) api.Share {
	t := l.ByTenant[tenant]
	return api.Share{
		Tenant: tenant, Weight: cmp.Or(t.Weight, weight), Runs: t.Runs, Running: t.Leased, Due: t.Due, Waiting: t.Waiting,
		Oldest: core.InSeconds(t.Oldest), Before: l.Before(tenant),
	}
}

// concurrencyOf returns how many jobs the workers that work do at the same time.
func concurrencyOf(workers []api.Worker) int {
	n := 0
	for _, w := range workers {
		switch w.State {
		case api.WorkerReady, api.WorkerBusy, api.WorkerOverloaded:
			n += w.Concurrency
		}
	}
	return n
}
