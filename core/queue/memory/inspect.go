package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Status returns the run's progress.
func (q *Queue) Status(ctx context.Context, id string) (queue.Status, error) {
	if err := ctx.Err(); err != nil {
		return queue.Status{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	r, err := q.find(id)
	if err != nil {
		return queue.Status{}, err
	}
	return q.status(r, now), nil
}

func (q *Queue) status(r *run, now time.Time) queue.Status {
	st := queue.Status{
		Run: r.id, Tenant: r.tenant.name, Phase: r.phase, Reason: r.reason, Complete: r.complete,
		Total: len(r.submitted.Targets), Limit: r.limit, Pending: r.left + len(r.jobs) - r.count.blocked - r.count.leased - r.count.waiting - r.count.suspended,
		Blocked: r.count.blocked, InFlight: r.count.leased, Waiting: r.count.waiting, Suspended: r.count.suspended,
		Deferred: r.deferred(now), Outcomes: map[core.Outcome]int{}, Served: r.served,
	}
	for code, n := range r.outcomes {
		if n > 0 {
			st.Outcomes[outcomeOrder[code]] = n
		}
	}
	return st
}

func (r *run) awaited() map[string]int {
	jobs := make(map[string]int, len(r.events))
	for event, waiting := range r.events {
		jobs[event] = len(waiting)
	}
	return jobs
}

// parseCursor is how many records are before the cursor.
func parseCursor(r *run, cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(cursor)
	if err != nil || n < 0 || n > len(r.records) {
		return 0, fmt.Errorf("records of run %q: cursor %q was not given out: %w", r.id, cursor, core.ErrInvalid)
	}
	return n, nil
}

// unpack gives at most limit records behind the first ones.
func (r *run) unpack(from, limit int) []queue.Record {
	packed := r.records[from:min(from+limit, len(r.records))]
	list := make([]queue.Record, len(packed))
	for i, p := range packed {
		list[i] = queue.Record{
			Index: int(p.index), Count: int(p.count), Outcome: outcomeOrder[p.outcome],
			Reason: p.reason, Attempt: int(p.attempt),
		}
		if p.reason == "" {
			list[i].Detail = p.detail
		} else {
			list[i].State = p.detail
		}
	}
	return list
}

// Payload returns the run's payload.
func (q *Queue) Payload(ctx context.Context, id string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.find(id)
	if err != nil {
		return nil, err
	}
	return r.submitted.Payload, nil
}

// Stats returns the state of the whole queue, in O(runs).
func (q *Queue) Stats(ctx context.Context) (queue.Stats, error) {
	if err := ctx.Err(); err != nil {
		return queue.Stats{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	st := q.stats
	st.InFlight, st.Sessions = q.inFlight, len(q.sessions)
	for _, t := range q.tenants {
		if t.open > 0 {
			st.Tenants++
		}
		st.Ready += t.flows.len()
	}
	for _, r := range q.runs {
		if !r.complete {
			st.Runs++
		}
		st.Timed += r.later.len() + r.timers.len()
		if r.place >= 0 && r.fresh.len() > 0 && r.fresh.top().lo < r.limit {
			st.Oldest = max(st.Oldest, now.Sub(r.fresh.top().due))
		}
	}
	return st, nil
}

// Load is Stats with each tenant's part, in O(runs and what becomes due ahead).
func (q *Queue) Load(ctx context.Context, ahead time.Duration) (queue.Load, error) {
	if err := ctx.Err(); err != nil {
		return queue.Load{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	l := queue.Load{Stats: q.stats}
	l.Sessions = len(q.sessions)
	for _, r := range q.runs {
		if r.complete {
			continue
		}
		rl := queue.RunLoad{
			Status: q.status(r, now), Weight: r.tenant.weight, MaxInFlight: r.maxInFlight,
			Timed: r.later.len() + r.timers.len(), Ready: r.place >= 0,
		}
		rl.Late, rl.Soon = r.ahead(now, now.Add(ahead))
		if rl.Ready && r.fresh.len() > 0 && r.fresh.top().lo < r.limit {
			rl.Since = now.Sub(r.fresh.top().due)
		}
		l.Add(&rl)
	}
	return l, nil
}

// ahead counts the released targets of segments that are not due, and the jobs that become due
// after now, until then.
func (r *run) ahead(now, until time.Time) (late, soon int) {
	late = r.late
	r.later.each(func(s span) bool {
		n := r.releasedOf([]span{s})
		switch {
		case !s.due.After(now):
			late -= n
		case !s.due.After(until):
			soon += n
		}
		return !s.due.After(until)
	})
	r.timers.each(func(j *job) bool {
		if j.due.After(now) && !j.due.After(until) {
			soon++
		}
		return !j.due.After(until)
	})
	return late, soon
}

// Runs lists the runs that are not complete.
func (q *Queue) Runs(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	ids := []string{}
	for id, r := range q.runs {
		if !r.complete {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Explain returns why a job is where it is.
func (q *Queue) Explain(ctx context.Context, id core.JobID) (queue.Explanation, error) {
	if err := ctx.Err(); err != nil {
		return queue.Explanation{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	r, err := q.find(id.Run)
	if err != nil {
		return queue.Explanation{}, err
	}
	if id.Index < 0 || id.Index >= len(r.submitted.Targets) {
		return queue.Explanation{}, fmt.Errorf("job %s: run has %d jobs: %w", id, len(r.submitted.Targets), core.ErrNotFound)
	}
	ex := queue.Explanation{Job: id}
	if j := r.jobs[id.Index]; j != nil {
		ex.State, ex.Event = j.state, j.event
		ex.Reason, ex.Until, ex.Holder = q.explainJob(j, now)
		if j.state == core.Leased {
			ex.Node, ex.Since = j.session.node, j.leasedAt
		}
		return ex, nil
	}
	if sp, later, ok := r.spanOf(id.Index); ok {
		ex.State = core.Pending
		if later {
			ex.Reason, ex.Until = queue.WhyPending(core.NotDue, 0, 0), sp.due
		} else {
			ex.Reason = r.explainReady(id.Index)
		}
		return ex, nil
	}
	ex.State = core.Done
	ex.Reason = r.explainEnd(id.Index)
	return ex, nil
}

// Leased returns the jobs of a run that are leased, in O(leases of all runs).
func (q *Queue) Leased(ctx context.Context, id string) ([]queue.Leased, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.find(id)
	if err != nil {
		return nil, err
	}
	all := make([]queue.Leased, 0, r.count.leased)
	for _, s := range q.sessions {
		for j := s.first; j != nil; j = j.next {
			if j.r == r {
				all = append(all, queue.Leased{Index: j.index, Node: s.node, Since: j.leasedAt})
			}
		}
	}
	queue.SortLeased(all)
	return all, nil
}

// Holders returns which jobs hold the locks of a host and of an HA group.
func (q *Queue) Holders(ctx context.Context, host, haGroup string) (all []queue.Holder, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, l := range []*lock{q.hosts[host], q.haGroups[haGroup]} {
		switch {
		case l == nil:
		case len(l.held) > 0:
			h := queue.Holder{HAGroup: i == 1, Job: l.held[0].id()}
			if l.held[0].state == core.Leased {
				h.Since = l.held[0].leasedAt
			}
			all = append(all, h)
		case len(l.offered) > 0:
			all = append(all, queue.Holder{HAGroup: i == 1, Job: l.offered[0].id(), Kept: true})
		}
	}
	return all, nil
}

func (r *run) spanOf(index int) (sp span, later, ok bool) {
	for _, sp := range r.fresh.items {
		if index >= sp.lo && index < sp.hi {
			return sp, false, true
		}
	}
	for _, sp := range r.later.items {
		if index >= sp.lo && index < sp.hi {
			return sp, true, true
		}
	}
	return span{}, false, false
}

func (q *Queue) explainJob(j *job, now time.Time) (reason core.Reason, until time.Time, holder string) {
	switch j.state {
	case core.Leased:
		return queue.WhyLeased(j.session.node, now.Sub(j.leasedAt)), j.session.until, ""
	case core.Blocked:
		text := "waits for " + j.on.kind + " " + j.on.name
		if len(j.on.held) > 0 {
			text, holder = text+queue.HeldBy, j.on.held[0].id().String()
		} else if len(j.on.offered) > 0 {
			text, holder = text+queue.KeptFor, j.on.offered[0].id().String()
		}
		return core.Because(core.LockHeld, text), time.Time{}, holder
	case core.Retrying:
		return queue.WhyRetrying(j.attempts), j.due, ""
	case core.Suspended:
		if j.place >= 0 {
			return "", j.due, ""
		}
		return "", time.Time{}, ""
	}
	if j.closing {
		return queue.WhyCleanup(), j.due, ""
	}
	return j.r.explainReady(j.index), time.Time{}, ""
}

// explainReady returns why a due job is not leased yet.
func (r *run) explainReady(index int) core.Reason {
	code, bound := core.NoSlot, r.tenant.inFlight
	switch {
	case r.over():
		code = core.RunOver
	case r.phase == queue.Paused:
		code = core.RunPaused
	case index >= r.limit:
		code, bound = core.WaveClosed, r.limit
	case !r.open():
		code, bound = core.RunFull, r.maxInFlight
	}
	return queue.WhyPending(code, r.count.leased, bound)
}

func (r *run) explainEnd(index int) core.Reason {
	for i := len(r.records) - 1; i >= 0; i-- {
		p := &r.records[i]
		if index >= int(p.index) && index < int(p.index+p.count) {
			return queue.WhyEnded(outcomeOrder[p.outcome], p.reason)
		}
	}
	finished := r.submitted.FinishedJobs
	if i, _ := slices.BinarySearchFunc(finished, index, func(s queue.FinishedJobs, index int) int { return s.Index + s.Count - 1 - index }); i < len(finished) && finished[i].Index <= index {
		return queue.WhyFinished(finished[i].Outcome)
	}
	return "ended"
}
