package memory

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Check counts everything again and compares. With repair the counts are set to what was counted.
func (q *Queue) Check(ctx context.Context, repair bool) ([]queue.Finding, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := checker{q: q, repair: repair, findings: append([]queue.Finding(nil), q.faults...)}
	inFlight := 0
	perTenant := map[*tenant]int{}
	for _, r := range q.runs {
		c.run(r)
		inFlight += r.count.leased
		perTenant[r.tenant] += r.count.leased
	}
	c.count("", "jobs in flight", &q.inFlight, inFlight)
	for _, t := range q.tenants {
		c.count("", "jobs in flight of tenant "+t.name, &t.inFlight, perTenant[t])
		if (t.place >= 0) != (t.flows.len() > 0) {
			c.add("", "tenant "+t.name+" is in the wrong place")
		}
	}
	if c.closing != q.closing.len() {
		c.add("", fmt.Sprintf("%d jobs must be leased for their cleanup, %d are listed", c.closing, q.closing.len()))
	}
	held := 0
	for _, s := range q.sessions {
		for j := s.first; j != nil; j = j.next {
			held++
			if j.state != core.Leased || j.session != s || j.r.jobs[j.index] != j {
				c.add(j.r.id, "session "+s.id+" lists a job that it does not hold")
			}
		}
	}
	if held != inFlight {
		c.add("", fmt.Sprintf("sessions hold %d jobs, runs have %d in flight", held, inFlight))
	}
	c.locks(q.hosts)
	c.locks(q.haGroups)
	if repair {
		q.faults = nil
	}
	return c.findings, nil
}

type checker struct {
	q        *Queue
	repair   bool
	closing  int // jobs that wait for their cleanup
	findings []queue.Finding
}

func (c *checker) add(run, what string) {
	c.findings = append(c.findings, queue.Finding{What: what, Run: run})
}

func (c *checker) count(run, what string, have *int, counted int) {
	if *have == counted {
		return
	}
	c.findings = append(c.findings, queue.Finding{What: fmt.Sprintf("%s: %d, counted %d", what, *have, counted), Run: run, Repaired: c.repair})
	if c.repair {
		*have = counted
	}
}

func (c *checker) run(r *run) {
	left, offered := 0, 0
	for _, spans := range [][]span{r.fresh.items, r.later.items} {
		for _, sp := range spans {
			left += sp.hi - sp.lo
		}
	}
	n := map[core.State]int{}
	for _, j := range r.jobs {
		n[j.state]++
		if j.offer != nil && !j.closing {
			offered++
		}
		if j.closing && j.state == core.Pending {
			n[core.Pending]--
			c.closing++
		}
		c.job(j)
	}
	c.count(r.id, "targets without state", &r.left, left)
	c.count(r.id, "leased jobs", &r.count.leased, n[core.Leased])
	c.count(r.id, "blocked jobs", &r.count.blocked, n[core.Blocked])
	c.count(r.id, "waiting jobs", &r.count.waiting, n[core.Retrying])
	c.count(r.id, "suspended jobs", &r.count.suspended, n[core.Suspended])
	c.count(r.id, "kept places", &r.offered, offered)
	c.count(r.id, "released targets that are not due", &r.late, r.releasedOf(r.later.items))
	waiting, listed := 0, 0
	for event, jobs := range r.events {
		listed += len(jobs)
		for j := range jobs {
			if j.event != event || j.state != core.Suspended || r.jobs[j.index] != j {
				c.add(r.id, fmt.Sprintf("job %s is listed for event %s and does not wait for it", j.id(), event))
			}
		}
	}
	for _, j := range r.jobs {
		if j.event != "" {
			waiting++
		}
	}
	if waiting != listed {
		c.add(r.id, fmt.Sprintf("%d jobs wait for events, %d are listed", waiting, listed))
	}
	if n[core.Pending] != r.ready.len() {
		c.add(r.id, fmt.Sprintf("%d jobs are pending, %d are ready", n[core.Pending], r.ready.len()))
	}
	ended := 0
	for _, k := range r.outcomes {
		ended += k
	}
	c.count(r.id, "ended jobs", &r.ended, ended)
	if sum := left + len(r.jobs) + ended; sum != len(r.submitted.Targets) {
		c.add(r.id, fmt.Sprintf("%d jobs are accounted for, the run has %d", sum, len(r.submitted.Targets)))
	}
	if r.complete != (ended == len(r.submitted.Targets)) {
		c.add(r.id, "completeness is wrong")
	}
	if (r.place >= 0) != (r.open() && r.hasWork()) {
		c.add(r.id, "the run is in the wrong place of its tenant")
	}
	if (r.timedPlace >= 0) != (r.later.len()+r.timers.len() > 0) {
		c.add(r.id, "the run is in the wrong place of the timed ones")
	}
	if r.offered > 0 && !r.open() {
		c.add(r.id, "places are kept for a run that cannot lease")
	}
	c.locks(r.groups)
}

func (c *checker) job(j *job) {
	holds := j.held[0] != nil
	if wants := j.state == core.Leased || j.keeps; holds != wants {
		c.add(j.r.id, fmt.Sprintf("job %s is %s: holds its host is %t, expected %t", j.id(), j.state, holds, wants))
	}
	if (j.on != nil) != (j.state == core.Blocked) {
		c.add(j.r.id, fmt.Sprintf("job %s is %s but what it waits for is wrong", j.id(), j.state))
	}
}

func (c *checker) locks(table locks) {
	for name, l := range table {
		full := len(l.held)+len(l.offered) >= l.places
		switch {
		case l.name != name || l.table == nil:
			c.add("", l.kind+" "+name+" is listed under a wrong name")
		case len(l.held)+len(l.offered) > l.places:
			c.add("", l.kind+" "+name+" is held more often than it has places")
		case l.waiters.len() > 0 && !full:
			c.add("", l.kind+" "+name+" is free, but jobs wait for it")
		case len(l.held)+len(l.offered)+l.waiters.len() == 0:
			c.add("", l.kind+" "+name+" is kept though nobody needs it")
		}
		for _, j := range l.held {
			if j.held[0] != l && j.held[1] != l && j.held[2] != l {
				c.add(j.r.id, l.kind+" "+name+" is held by a job that does not know")
			}
		}
	}
}
