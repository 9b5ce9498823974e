package queue

import "time"

// Load is the queue's remaining work and each tenant's part of the workers, for monitoring and for
// adding workers.
type Load struct {
	Stats
	Due      int                   `json:"due"`      // jobs of active runs that wait for a worker's concurrency or for a lock
	Runnable int                   `json:"runnable"` // jobs that would run with enough workers: leased, and due as far as MaxInFlight lets them
	Soon     int                   `json:"soon"`     // further jobs that become due within the time that was asked for, as far as MaxInFlight lets them
	ByTenant map[string]TenantLoad `json:"by_tenant"`
}

// TenantLoad is one tenant's part of a Load.
type TenantLoad struct {
	Runs    int           `json:"runs"`    // that are not complete
	Leased  int           `json:"leased"`  // jobs
	Waiting int           `json:"waiting"` // jobs that are not leased and have not ended, also those not released yet
	Due     int           `json:"due"`
	Hungry  bool          `json:"hungry"` // it has a job that could be leased now
	Weight  int           `json:"weight"`
	Oldest  time.Duration `json:"oldest_overdue_ns"`
}

// RunLoad is an implementation's numbers of a run that is not complete, beside its Status.
type RunLoad struct {
	Status
	Weight      int // of the tenant
	MaxInFlight int
	Late        int // released jobs of segments that are not due
	Soon        int // released jobs that become due within the time asked for
	Timed       int // as in Stats
	Ready       bool
	Since       time.Duration // how long it has been ready
}

// Add counts a run. The number of due jobs is exact if the run has no finished jobs beyond its
// Limit, else too low by their number.
func (l *Load) Add(r *RunLoad) {
	if l.ByTenant == nil {
		l.ByTenant = map[string]TenantLoad{}
	}
	t := l.ByTenant[r.Tenant]
	if t.Runs == 0 {
		l.Tenants++
	}
	t.Runs++
	l.Runs++
	l.InFlight += r.InFlight
	l.Timed += r.Timed
	t.Leased += r.InFlight
	t.Waiting += r.Pending + r.Blocked + r.Waiting + r.Suspended
	t.Weight = max(r.Weight, 1)
	l.Runnable += r.InFlight
	if r.Phase == Active {
		free := max(0, r.Pending-r.Late-(r.Total-r.Limit))
		room := free + r.Soon
		if r.MaxInFlight > 0 {
			room = max(0, r.MaxInFlight-r.InFlight)
		}
		now := min(free, room)
		l.Due += free + r.Blocked
		t.Due += free + r.Blocked
		l.Runnable += now
		l.Soon += min(r.Soon, room-now)
	}
	if r.Phase == Stopped || r.Phase == Cancelled { // remaining jobs wait for their cleanup
		l.Due += r.Pending + r.Blocked
		t.Due += r.Pending + r.Blocked
		l.Runnable += r.Pending
	}
	if r.Ready {
		l.Ready++
		t.Hungry = true
		t.Oldest = max(t.Oldest, r.Since)
		l.Oldest = max(l.Oldest, r.Since)
	}
	l.ByTenant[r.Tenant] = t
}

// Fairness is Jain's index of the leased jobs, by weight, of the tenants that could have more than
// they have: 1 where all have the same, 1/n where one of n has all. 1 where fewer than two compete.
func (l *Load) Fairness() float64 {
	n, sum, squares := 0, 0.0, 0.0
	for _, t := range l.ByTenant {
		if !t.Hungry {
			continue
		}
		x := float64(t.Leased) / float64(max(t.Weight, 1))
		n, sum, squares = n+1, sum+x, squares+x*x
	}
	if n < 2 || squares == 0 {
		return 1
	}
	return sum * sum / (float64(n) * squares)
}
