package server

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

const (
	historyHours   = 24
	historyTenants = 200              // that are listed
	historyTasks   = 2_000_000        // host tasks that are read at most
	historyAge     = 30 * time.Second // how old the hour that goes on may be
	historyLag     = time.Minute      // what ended in an hour is in the ledger so long after it
)

// shareHistory registers what tenants had of the workers.
func (s *Server) shareHistory() {
	handle(s, route{
		id: "show-share-history", method: http.MethodGet, path: "/v1/shares/history", summary: "Show the worker time that each tenant used in the last 24 hours", role: Viewer, everyone: true,
		detail: "Of host tasks that ended, by hour. It is kept for up to 30 s.",
	}, s.getShareHistory)
}

func (s *Server) getShareHistory(ctx context.Context, _ caller, _ *struct{}) (*body[api.ShareHistory], error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	used, err := s.used.read(ctx, s.cfg.Ledger.WorkerTimes, time.Now())
	if err != nil {
		return nil, err
	}
	return &body[api.ShareHistory]{historyOf(used, set.TenantWeight)}, nil
}

// usedTime is the worker time of the last hours. The ledger is asked once for each hour that has
// ended.
type usedTime struct {
	mu      sync.Mutex // held while the ledger is asked: who comes meanwhile waits, and has the same
	at      time.Time  // when that was
	hours   [historyHours][]ledger.WorkerTime
	partial bool
}

// lastHours is the content of a usedTime at a moment.
type lastHours struct {
	from, at time.Time
	hours    [historyHours][]ledger.WorkerTime
	partial  bool
}

func (u *usedTime) read(ctx context.Context, ask func(context.Context, time.Time, time.Duration, int, int) ([]ledger.WorkerTime, bool, error), now time.Time) (lastHours, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	first, was := firstHour(now), firstHour(u.at)
	if now.Sub(u.at) >= historyAge || now.Before(u.at) || first != was {
		next, known := [historyHours][]ledger.WorkerTime{}, 0
		if moved := int(first.Sub(was) / time.Hour); moved >= 0 && moved < historyHours && !u.partial {
			copy(next[:], u.hours[moved:])
			known = max(int(u.at.Add(-historyLag).Sub(first)/time.Hour), 0) // hours that had ended when the ledger was asked
		}
		for i := known; i < historyHours; i++ {
			next[i] = nil
		}
		list, whole, err := ask(ctx, first.Add(time.Duration(known)*time.Hour), time.Hour, historyHours-known, historyTasks)
		if err != nil {
			return lastHours{}, err
		}
		for _, t := range list {
			next[known+t.Span] = append(next[known+t.Span], t)
		}
		u.at, u.hours, u.partial = now, next, !whole
	}
	return lastHours{first, u.at.UTC(), u.hours, u.partial}, nil
}

// firstHour is the begin of the oldest hour that is shown.
func firstHour(now time.Time) time.Time {
	return now.UTC().Truncate(time.Hour).Add(-(historyHours - 1) * time.Hour)
}

// historyOf shares the time of each hour by weight among the tenants that used any.
func historyOf(u lastHours, weight func(tenant string) int) api.ShareHistory {
	tenants := map[string]*api.TenantHours{}
	for i, list := range u.hours {
		weights, all := 0, time.Duration(0)
		for _, t := range list {
			weights += weight(t.Tenant)
			all += t.Took
		}
		for _, t := range list {
			one := tenants[t.Tenant]
			if one == nil {
				one = &api.TenantHours{Tenant: t.Tenant, Weight: weight(t.Tenant), Hours: make([]api.HourShare, historyHours)}
				tenants[t.Tenant] = one
			}
			fair := core.InSeconds(time.Duration(float64(all) * float64(one.Weight) / float64(weights)))
			one.Hours[i] = api.HourShare{Used: core.InSeconds(t.Took), Fair: fair}
			one.Hosts += t.Hosts
			one.Used += one.Hours[i].Used
			one.Fair += fair
		}
	}
	out := api.ShareHistory{From: u.from, At: u.at, Tenants: []api.TenantHours{}, Partial: u.partial}
	for _, one := range slices.SortedFunc(maps.Values(tenants), func(a, b *api.TenantHours) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Tenant, b.Tenant))
	}) {
		if len(out.Tenants) == historyTenants {
			out.LeftOut++
			continue
		}
		out.Tenants = append(out.Tenants, *one)
	}
	return out
}
