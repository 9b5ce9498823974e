package queuetest

import (
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

func (f *fixture) load(ahead time.Duration) queue.Load {
	f.Helper()
	l, err := f.q.Load(f.ctx, ahead)
	f.must(err)
	return l
}

// loadCounts: what is due, what could run, what becomes due, and whose it is.
func loadCounts(f *fixture) {
	l := f.load(time.Hour)
	eq(f, "runs of an empty queue", l.Runs, 0)
	eq(f, "fairness of an empty queue", l.Fairness(), 1)
	s := f.open("n")
	a := run("a", 10)
	a.Tenant, a.TenantWeight, a.MaxInFlight, a.Limit = "x", 2, 4, 6
	f.submit(a)
	got := f.leaseN(s, 2)
	b := run("b", 5)
	b.Tenant = "y"
	f.submit(b)
	later := run("later", 5)
	later.Tenant = "y"
	later.Segments = []queue.Segment{{Due: time.Now().Add(time.Hour), Count: 2}, {Due: time.Now().Add(1000 * time.Hour), Count: 3}}
	f.submit(later)
	p := run("p", 4)
	p.Tenant, p.Paused = "z", true
	f.submit(p)

	l = f.load(time.Minute)
	eq(f, "runs", l.Runs, 4)
	eq(f, "tenants", l.Tenants, 3)
	eq(f, "in flight", l.InFlight, 2)
	eq(f, "due", l.Due, 4+5)
	eq(f, "runnable, of a no more than max in flight", l.Runnable, 4+5)
	eq(f, "soon", l.Soon, 0)
	eq(f, "ready", l.Ready, 2)
	eq(f, "soon within two hours", f.load(2*time.Hour).Soon, 2)
	eq(f, "soon within years", f.load(2000*time.Hour).Soon, 5)
	for name, want := range map[string]queue.TenantLoad{
		"x": {Runs: 1, Leased: 2, Waiting: 8, Due: 4, Hungry: true, Weight: 2},
		"y": {Runs: 2, Waiting: 10, Due: 5, Hungry: true, Weight: 1},
		"z": {Runs: 1, Waiting: 4, Weight: 1},
	} {
		t := l.ByTenant[name]
		if t.Oldest > 0 && !want.Hungry {
			f.Errorf("tenant %s has waited %v", name, t.Oldest)
		}
		t.Oldest = 0
		eq(f, "tenant "+name, t, want)
	}
	eq(f, "fairness where one of two has all", l.Fairness(), 0.5)

	f.ack(s, retry(got[0], time.Hour)) // it comes back, and a has no room for more than its four
	l = f.load(2 * time.Hour)
	eq(f, "in flight", l.InFlight, 1)
	eq(f, "runnable", l.Runnable, 1+3+5)
	eq(f, "soon, where there is room", l.Soon, 2)
	eq(f, "timed", l.Timed >= 3, true)
	more := append(f.leaseN(s, 1), f.leaseN(s, 1)...)
	if got := f.load(0); got.Fairness() <= 0.5 || got.Fairness() > 1 {
		f.Errorf("fairness is %v of %+v", got.Fairness(), got.ByTenant)
	}
	f.ack(s, done(more[0], core.Changed), done(more[1], core.Changed))
	f.must(f.q.Cancel(f.ctx, "b", "enough"))
	f.completes(s, "b")
	eq(f, "runs that are not complete", f.load(0).Runs, 3)
}
