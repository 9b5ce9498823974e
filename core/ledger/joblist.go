package ledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// JobFilter narrows the jobs of a run. Empty fields let everything through.
type JobFilter struct {
	Outcome    core.Outcome
	ReasonCode core.ReasonCode
	Host       string
}

// Jobs lists the jobs of a run that have an outcome, by index; those that ended together come one
// by one. Of a run that is not in scope it lists those on hosts of tenants in scope; where there
// are none such, the run is not found. With a reason code a page may have fewer than were asked
// for, or none, and more behind it.
func (l *Ledger) Jobs(ctx context.Context, s Scope, id string, f JobFilter, p Page) (jobs []Job, next string, err error) {
	after, err := p.afterJob()
	if err != nil {
		return nil, "", err
	}
	if f.Outcome != "" && !f.Outcome.Valid() {
		return nil, "", fmt.Errorf("outcome %q, expected one of %v: %w", f.Outcome, core.Outcomes(), core.ErrInvalid)
	}
	run, err := l.Run(ctx, AllTenants(), id)
	if err != nil {
		return nil, "", err
	}
	var hosts []JobHost
	if !s.Allows(run.Tenant) || run.ranges > 0 || f.Host != "" { // else the rows have all
		if hosts, err = l.hostsOf(ctx, &run); err != nil {
			return nil, "", translate("list jobs of run "+run.ID, err)
		}
	}
	if s.Allows(run.Tenant) {
		s = AllTenants()
	} else if !slices.ContainsFunc(hosts, func(h JobHost) bool { return s.Allows(h.Tenant) }) {
		return nil, "", noRun(id)
	}
	to := int64(run.Total) // behind the last
	if f.Host != "" {      // no index has the host within a run
		is := func(h JobHost) bool { return h.Host == f.Host }
		first := slices.IndexFunc(hosts, is)
		if first < 0 {
			return nil, "", nil
		}
		for !is(hosts[to-1]) {
			to--
		}
		after = max(after, int64(first)-1)
	}
	jobs, err = l.listJobs(ctx, s, &run, f, after, to, p)
	if err == nil && run.ranges > 0 {
		jobs, err = l.mergeRanges(ctx, s, &run, hosts, f, after, jobs, p.limit()+1)
	}
	if err != nil {
		return nil, "", translate("list jobs of run "+run.ID, err)
	}
	jobs, next = cut(jobs, p, func(j Job) cursor { return cursor{List: "jobs", Key: []int64{int64(j.Index)}} })
	if f.ReasonCode != "" { // which is encrypted with the reason
		jobs = slices.DeleteFunc(jobs, func(j Job) bool { return j.ReasonCode != f.ReasonCode })
	}
	return jobs, next, nil
}

// afterJob is the index of the job before the page; -1 for the first page.
func (p Page) afterJob() (int64, error) {
	at, more, err := p.at("jobs", 1, 0)
	switch {
	case err != nil:
		return 0, err
	case !more:
		return -1, nil
	case at.Key[0] < -1 || at.Key[0] >= MaxJobs:
		return 0, p.foreign("jobs")
	}
	return at.Key[0], nil
}

func (l *Ledger) listJobs(ctx context.Context, s Scope, run *Run, f JobFilter, after, to int64, p Page) ([]Job, error) {
	q := &query{d: l.db.dialect}
	q.where("j.run = ?", run.seq)
	q.where("j.idx > ?", after)
	q.where("j.idx < ?", to)
	from := "jobs j"
	if f.Outcome != "" {
		from += l.db.byOutcome
		q.where("j.outcome = ?", string(f.Outcome))
	}
	if f.ReasonCode != "" {
		q.where("j.reason <> ?", "")
	}
	if f.Host != "" {
		q.where("j.host = ?", clean(f.Host, maxText))
	}
	s.filter(q, "j.tenant")
	text, args := q.page(jobReads, from, "j.idx", p)
	rows, err := l.db.rows(ctx, text, args...)
	return collect(rows, err, func(row scanner) (Job, error) {
		j := Job{JobID: core.JobID{Run: run.ID}, Playbook: run.Playbook, seq: run.seq}
		err := scanJob(row, &j)
		l.readable(&j)
		return j, err
	})
}

// mergeRanges puts the jobs of ranges between those that have rows, up to so many.
func (l *Ledger) mergeRanges(ctx context.Context, s Scope, run *Run, hosts []JobHost, f JobFilter, after int64, jobs []Job, most int) ([]Job, error) {
	q := `SELECT ` + rangeColumns + ` FROM ranges WHERE run = $1 AND first + count > $2 ORDER BY first`
	rows, err := l.db.rows(ctx, q, run.seq, after+1)
	ranges, err := collect(rows, err, scanRange)
	if err != nil {
		return nil, err
	}
	found := 0
	for _, in := range ranges {
		if f.Outcome != "" && in.outcome != f.Outcome {
			continue
		}
		for i := max(in.first, int(after)+1); i < in.end() && found < most; i++ {
			h := hosts[i]
			if f.Host != "" && h.Host != f.Host || !s.Allows(h.Tenant) {
				continue
			}
			found++
			j := Job{
				JobID: core.JobID{Run: run.ID, Index: i}, Host: h.Host, Tenant: h.Tenant, Playbook: run.Playbook,
				Outcome: in.outcome, Recorded: fromMicros(in.recorded), seq: run.seq,
			}
			j.because(in.reason)
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return a.Index - b.Index })
	return jobs[:min(len(jobs), most)], nil
}

// HostHistory lists what ran on a host, newest first: jobs with an outcome on hosts of tenants in
// scope. Jobs that ended together before they were started never ran, and are not in it.
func (l *Ledger) HostHistory(ctx context.Context, s Scope, host string, p Page) (jobs []Job, next string, err error) {
	q := &query{d: l.db.dialect}
	q.where("j.host = ?", clean(host, maxText))
	s.filter(q, "j.tenant")
	return list(ctx, l, q, p, listing[Job]{
		what:    "read the history of host " + clean(host, maxID),
		columns: `r.id, r.playbook, r.seq, r.check_mode, ` + jobReads, from: "jobs j JOIN runs r ON r.seq = j.run",
		order: "j.recorded DESC, j.run DESC, j.idx DESC",
		scan: func(row scanner) (j Job, err error) {
			var check int64
			err = scanJob(row, &j, &j.Run, &j.Playbook, &j.seq, &check)
			j.Check = check != 0
			l.readable(&j)
			return j, err
		},
		at: func(j Job) cursor {
			return cursor{List: "host", Key: []int64{j.Recorded.UnixMicro(), j.seq, int64(j.Index)}}
		},
		after: func(q *query, at cursor) {
			q.where("(j.recorded, j.run, j.idx) < (?, ?, ?)", at.Key[0], at.Key[1], at.Key[2])
		},
	})
}

// Attempt is a try of a job: a queue reports the one that decided its outcome, not the tries
// before.
type Attempt struct {
	Index   int          `json:"index"`
	Attempt int          `json:"attempt"` // from 1
	Outcome core.Outcome `json:"outcome"`
	Reason  string       `json:"reason,omitempty"`
	// ReasonCode is the code of Reason, where it has one.
	ReasonCode core.ReasonCode `json:"reason_code,omitempty"`
	Step       string          `json:"step,omitempty"`
	Worker     string          `json:"worker,omitempty"`
	Started    time.Time       `json:"started,omitzero"`
	Took       time.Duration   `json:"took_ns"`
	Recorded   time.Time       `json:"recorded"` // set by the ledger
}

// Attempts lists the attempts of a job in scope, in order, up to MaxPage; the last one is the job's
// outcome.
func (l *Ledger) Attempts(ctx context.Context, s Scope, id core.JobID) ([]Attempt, error) {
	j, err := l.Job(ctx, s, id)
	if err != nil {
		return nil, err
	}
	rows, err := l.db.rows(ctx, `SELECT idx, attempt, outcome, reason, step, worker, started, took, recorded FROM attempts
		WHERE run = $1 AND idx = $2 ORDER BY attempt LIMIT $3`, j.seq, id.Index, MaxPage)
	all, err := collect(rows, err, func(row scanner) (a Attempt, err error) {
		var started, took, recorded int64
		if err := row.Scan(&a.Index, &a.Attempt, &a.Outcome, &a.Reason, &a.Step, &a.Worker, &started, &took, &recorded); err != nil {
			return a, err
		}
		a.Started, a.Took, a.Recorded = fromMicros(started), time.Duration(took)*time.Microsecond, fromMicros(recorded)
		r := core.Reason(l.openReason(a.Reason, id.Run, a.Index, a.Attempt))
		a.Reason, a.ReasonCode = r.Text(), r.Code()
		return a, nil
	})
	if err != nil {
		return nil, translate("read the attempts of job "+id.String(), err)
	}
	if n := len(all); j.Outcome != "" && (n == 0 || all[n-1].Attempt != j.Attempt) {
		all = append(all, Attempt{
			Index: j.Index, Attempt: j.Attempt, Outcome: j.Outcome, Reason: j.Reason, ReasonCode: j.ReasonCode, Step: j.Step, Worker: j.Worker,
			Started: j.Started, Took: j.Took, Recorded: j.Recorded,
		})
	}
	return all, nil
}
