package server

import (
	"context"
	"net/http"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// locks registers the route of hosts' locks.
func (s *Server) locks() {
	handle(s, route{
		id: "list-locks", method: http.MethodGet, path: "/v1/hosts/{host}/locks", summary: "List who holds the locks of a host, and since when", role: Viewer,
		detail: "The lock of the host, and that of its HA group, which disruptive runs take. A holder whose run the caller may not see has no name.",
	}, s.listLocks)
}

func (s *Server) listLocks(ctx context.Context, by caller, in *HostPath) (*list[api.Lock], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	h, ok := set.Inventory.Host(in.Host)
	if !ok || !by.scope.Allows(h.Customer) {
		return nil, noHost(in.Host)
	}
	if err := s.cfg.Controller.Away(); err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	held, err := s.cfg.Queue.Holders(asking, h.Name, h.HAGroup)
	if err != nil {
		return nil, err
	}
	items := []api.Lock{}
	for _, one := range held {
		lock := api.Lock{Lock: api.HostLock, Name: h.Name, Kept: one.Kept, Since: one.Since}
		if one.HAGroup {
			lock.Lock, lock.Name = api.HAGroupLock, h.HAGroup
		}
		if run, err := s.cfg.Ledger.Run(ctx, by.scope, one.Job.Run); err == nil {
			lock.Run, lock.Index, lock.Playbook = run.ID, one.Job.Index, run.Playbook
			if job, err := s.cfg.Ledger.Job(ctx, by.scope, core.JobID{Run: run.ID, Index: one.Job.Index}); err == nil {
				lock.Host = job.Host
			}
		}
		items = append(items, lock)
	}
	return listOf(items, ""), nil
}
