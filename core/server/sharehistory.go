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
	historyAge     = 30 * time.Second // how old the hour that continues may be
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
// ended. That may take seconds: requests that come meanwhile wait for the same answer.
type usedTime struct {
	mu      sync.Mutex // not held while the ledger is asked
	at      time.Time  // when that was
	hours   [historyHours][]ledger.WorkerTime
	partial bool
	reading *usedReading // nil: the ledger is not asked
}

// usedReading is a question to the ledger that any number of requests wait for. It ends early only
// if all of them are gone.
type usedReading struct {
	cancel  context.CancelFunc
	waiters int
	done    chan struct{}
	got     lastHours // with err, valid after done
	err     error
}

// lastHours is the content of a usedTime at a moment.
type lastHours struct {
	from, at time.Time
	hours    [historyHours][]ledger.WorkerTime
	partial  bool
}

// askTimes is Ledger.WorkerTimes.
type askTimes func(ctx context.Context, from time.Time, width time.Duration, spans, most int) ([]ledger.WorkerTime, bool, error)

func (u *usedTime) read(ctx context.Context, ask askTimes, now time.Time) (lastHours, error) {
	u.mu.Lock()
	if first := firstHour(now); now.Sub(u.at) < historyAge && !now.Before(u.at) && first.Equal(firstHour(u.at)) {
		defer u.mu.Unlock()
		return u.last(first), nil
	}
	r := u.reading
	if r == nil {
		r = &usedReading{done: make(chan struct{})}
		u.reading = r
		var reads context.Context
		reads, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		go u.renew(reads, r, ask, now) // it ends before its last waiter does
	}
	r.waiters++
	u.mu.Unlock()
	select {
	case <-r.done:
		return r.got, r.err
	case <-ctx.Done():
		u.leave(r)
		return lastHours{}, ctx.Err()
	}
}

// leave ends a reading that nobody waits for any more.
func (u *usedTime) leave(r *usedReading) {
	u.mu.Lock()
	r.waiters--
	last := r.waiters == 0
	if last && u.reading == r {
		u.reading = nil
	}
	u.mu.Unlock()
	if last {
		r.cancel()
		<-r.done
	}
}

// renew asks the ledger for the hours that are not known as they ended.
func (u *usedTime) renew(ctx context.Context, r *usedReading, ask askTimes, now time.Time) {
	defer close(r.done)
	defer r.cancel()
	u.mu.Lock()
	next, known := u.ended(now)
	u.mu.Unlock()
	first := firstHour(now)
	list, whole, err := ask(ctx, first.Add(time.Duration(known)*time.Hour), time.Hour, historyHours-known, historyTasks)
	for _, t := range list {
		next[known+t.Span] = append(next[known+t.Span], t)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.reading == r {
		u.reading = nil
	}
	if r.err = err; err != nil {
		return
	}
	u.at, u.hours, u.partial = now, next, !whole
	r.got = u.last(first)
}

// ended returns the hours that are known as they ended, and how many those are.
func (u *usedTime) ended(now time.Time) (hours [historyHours][]ledger.WorkerTime, known int) {
	first := firstHour(now)
	moved := int(first.Sub(firstHour(u.at)) / time.Hour)
	if moved < 0 || moved >= historyHours || u.partial {
		return hours, 0
	}
	known = max(int(u.at.Add(-historyLag).Sub(first)/time.Hour), 0) // had ended when the ledger was asked
	copy(hours[:known], u.hours[moved:])
	return hours, known
}

func (u *usedTime) last(first time.Time) lastHours {
	return lastHours{first, u.at.UTC(), u.hours, u.partial}
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
