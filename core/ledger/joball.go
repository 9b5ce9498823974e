package ledger

import (
	"context"
	"slices"

	"github.com/turnus/turnus/core"
)

// Bounds of one page of all jobs: so many are checked together, and so many times, until the page
// is full. One that is not full has a cursor all the same where there may be more.
const (
	pollTogether = 2000
	pollTimes    = 50
)

// AllJobs lists the jobs of a run by index, also those without an outcome; open leaves out those
// that have one. Of a run that is not in scope it lists the same as Jobs. A page may have fewer
// than were asked for, or none, and more behind it.
func (l *Ledger) AllJobs(ctx context.Context, s Scope, id, host string, open bool, p Page) (jobs []Job, next string, err error) {
	after, err := p.afterJob()
	if err != nil {
		return nil, "", err
	}
	from := int(after) + 1
	run, err := l.Run(ctx, AllTenants(), id)
	if err != nil {
		return nil, "", err
	}
	what := "list jobs of run " + run.ID
	hosts, err := l.hostsOf(ctx, &run)
	if err != nil {
		return nil, "", translate(what, err)
	}
	if s.Allows(run.Tenant) {
		s = AllTenants()
	} else if !slices.ContainsFunc(hosts, func(h JobHost) bool { return s.Allows(h.Tenant) }) {
		return nil, "", noRun(id)
	}
	together := pollTogether
	if !open {
		together = p.limit()
	}
	for range pollTimes {
		batch := make([]int, 0, together)
		for ; from < len(hosts) && len(batch) < together; from++ {
			if h := &hosts[from]; (host == "" || h.Host == host) && s.Allows(h.Tenant) {
				batch = append(batch, from)
			}
		}
		if len(batch) == 0 {
			return jobs, "", nil
		}
		some, err := l.jobsAt(ctx, &run, func(i int) JobHost { return hosts[i] }, batch, host)
		if err != nil {
			return nil, "", translate(what, err)
		}
		for _, j := range some {
			if open && j.Outcome != "" {
				continue
			}
			if jobs = append(jobs, j); len(jobs) == p.limit() {
				if j.Index == len(hosts)-1 {
					return jobs, "", nil
				}
				return jobs, cursor{List: "jobs", Key: []int64{int64(j.Index)}}.String(), nil
			}
		}
		if from >= len(hosts) {
			return jobs, "", nil
		}
	}
	return jobs, cursor{List: "jobs", Key: []int64{int64(from) - 1}}.String(), nil
}

// jobsAt reads the jobs of a run with these indexes, which are sorted: from their rows, from
// ranges, or, where neither has them, as jobs without an outcome.
func (l *Ledger) jobsAt(ctx context.Context, run *Run, hosts func(index int) JobHost, at []int, host string) ([]Job, error) {
	q := &query{d: l.db.dialect}
	q.where("j.run = ?", run.seq)
	q.where("j.idx >= ?", at[0])
	q.where("j.idx <= ?", at[len(at)-1])
	if host != "" {
		q.where("j.host = ?", clean(host, maxText))
	}
	rowed := map[int]Job{}
	for cond, after := q.conds, at[0]-1; ; { // a page has at most MaxPage rows
		next := *q
		next.conds, next.args = slices.Clone(cond), slices.Clone(q.args)
		next.where("j.idx > ?", after)
		text, args := next.page(jobReads, "jobs j", "j.idx", Page{Limit: MaxPage})
		rows, err := l.db.rows(ctx, text, args...)
		some, err := collect(rows, err, func(row scanner) (Job, error) {
			j := Job{JobID: core.JobID{Run: run.ID}, Playbook: run.Playbook, seq: run.seq}
			err := scanJob(row, &j)
			l.readable(&j)
			return j, err
		})
		if err != nil {
			return nil, err
		}
		for _, j := range some {
			rowed[j.Index], after = j, j.Index
		}
		if len(some) <= MaxPage {
			break
		}
	}
	var ranges []jobRange
	if run.ranges > 0 {
		rows, err := l.db.rows(ctx, `SELECT `+rangeColumns+` FROM ranges WHERE run = $1 AND first <= $2 AND first + count > $3 ORDER BY first`, run.seq, at[len(at)-1], at[0])
		if ranges, err = collect(rows, err, scanRange); err != nil {
			return nil, err
		}
	}
	jobs := make([]Job, len(at))
	for i, index := range at {
		j, ok := rowed[index]
		if !ok {
			h := hosts(index)
			j = Job{JobID: core.JobID{Run: run.ID, Index: index}, Host: h.Host, Tenant: h.Tenant, Playbook: run.Playbook, seq: run.seq}
			if in := covering(ranges, index); in != nil {
				j.Outcome, j.Recorded = in.outcome, fromMicros(in.recorded)
				j.because(in.reason)
			}
		}
		jobs[i] = j
	}
	return jobs, nil
}
