package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// Job is one job as lists show it. Outcome is "" while it has none.
type Job struct {
	core.JobID
	Host     string       `json:"host"`
	Tenant   string       `json:"tenant,omitempty"` // whose host it is
	Playbook string       `json:"playbook,omitempty"`
	Check    bool         `json:"check,omitempty"` // of a dry run; in the history of a host
	Outcome  core.Outcome `json:"outcome,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	// ReasonCode is the code of Reason, where it has one.
	ReasonCode core.ReasonCode `json:"reason_code,omitempty"`
	Step       string          `json:"step,omitempty"`
	Attempt    int             `json:"attempt"`
	Worker     string          `json:"worker,omitempty"`
	Started    time.Time       `json:"started,omitzero"`
	Took       time.Duration   `json:"took_ns"`
	Recorded   time.Time       `json:"recorded,omitzero"`

	seq int64 // of the run
}

// because takes a reason as it is stored.
func (j *Job) because(stored string) {
	r := core.Reason(stored)
	j.Reason, j.ReasonCode = r.Text(), r.Code()
}

const jobReads = `j.idx, j.host, j.tenant, j.outcome, j.reason, j.step, j.attempt, j.worker, j.started, j.took, j.recorded`

func (j *Job) dest(started, took, recorded *int64) []any {
	return []any{&j.Index, &j.Host, &j.Tenant, &j.Outcome, &j.Reason, &j.Step, &j.Attempt, &j.Worker, started, took, recorded}
}

// scanJob reads jobReads, and before them what is put in front.
func scanJob(row scanner, j *Job, front ...any) error {
	var started, took, recorded int64
	if err := row.Scan(append(front, j.dest(&started, &took, &recorded)...)...); err != nil {
		return err
	}
	j.Started, j.Took, j.Recorded = fromMicros(started), time.Duration(took)*time.Microsecond, fromMicros(recorded)
	return nil
}

// Job reads one job: of a run in scope, or on a host of a tenant in scope. A job that has no
// outcome yet is there, without one.
func (l *Ledger) Job(ctx context.Context, s Scope, id core.JobID) (Job, error) {
	j := Job{JobID: id}
	var tenant string
	err := scanJob(l.db.row(ctx, `SELECT r.tenant, r.playbook, r.seq, `+jobReads+` FROM runs r JOIN jobs j ON j.run = r.seq AND j.idx = $2 WHERE r.id = $1`,
		clean(id.Run, maxText), id.Index), &j, &tenant, &j.Playbook, &j.seq)
	switch {
	case none(err):
		return l.jobWithoutRow(ctx, s, id)
	case err != nil:
		return Job{}, translate("read job "+id.String(), err)
	case !s.Allows(tenant) && !s.Allows(j.Tenant):
		return Job{}, noJob(id)
	}
	l.readable(&j)
	return j, nil
}

func noJob(id core.JobID) error {
	return fmt.Errorf("job %q is not in the ledger: %w", clean(id.String(), maxID), core.ErrNotFound)
}

// jobWithoutRow reads a job that has no outcome, or ended in a range.
func (l *Ledger) jobWithoutRow(ctx context.Context, s Scope, id core.JobID) (Job, error) {
	run, err := l.Run(ctx, AllTenants(), id.Run)
	if errors.Is(err, core.ErrNotFound) || err == nil && (id.Index < 0 || id.Index >= run.Total) {
		return Job{}, noJob(id)
	}
	if err != nil {
		return Job{}, err
	}
	hosts, err := l.hostsOf(ctx, &run)
	if err != nil {
		return Job{}, translate("read job "+id.String(), err)
	}
	h := hosts[id.Index]
	if !s.Allows(run.Tenant) && !s.Allows(h.Tenant) {
		return Job{}, noJob(id)
	}
	j := Job{JobID: id, Host: h.Host, Tenant: h.Tenant, Playbook: run.Playbook, seq: run.seq}
	if run.ranges == 0 {
		return j, nil
	}
	in, err := scanRange(l.db.row(ctx, `SELECT `+rangeColumns+` FROM ranges WHERE run = $1 AND first <= $2 AND first + count > $2 ORDER BY first DESC LIMIT 1`, run.seq, id.Index))
	if none(err) {
		return j, nil
	}
	j.Outcome, j.Recorded = in.outcome, fromMicros(in.recorded)
	j.because(in.reason)
	return j, translate("read job "+id.String(), err)
}

// JobDetail is Job and Detail in one query, for those who read one job.
func (l *Ledger) JobDetail(ctx context.Context, s Scope, id core.JobID) (Job, []byte, error) {
	j := Job{JobID: id}
	var tenant string
	var packed []byte
	err := scanJob(l.db.row(ctx, `SELECT r.tenant, r.playbook, r.seq, a.detail, `+jobReads+` FROM runs r JOIN jobs j ON j.run = r.seq AND j.idx = $2
		LEFT JOIN attempts a ON a.run = j.run AND a.idx = j.idx AND a.life = 0 AND a.attempt = j.attempt WHERE r.id = $1`,
		clean(id.Run, maxText), id.Index), &j, &tenant, &j.Playbook, &j.seq, &packed)
	switch {
	case none(err):
		j, err := l.jobWithoutRow(ctx, s, id)
		return j, nil, err
	case err == nil && !s.Allows(tenant) && !s.Allows(j.Tenant):
		return Job{}, nil, noJob(id)
	case err == nil:
		l.readable(&j)
		packed, err = l.open(packed, tryPlace(detailOf, id.Run, j.Index, j.Attempt)...)
	}
	if err != nil {
		return Job{}, nil, translate("read job "+id.String(), err)
	}
	return j, packed, nil
}

// Detail reads what was recorded with a job's present outcome; nil where nothing was.
func (l *Ledger) Detail(ctx context.Context, s Scope, id core.JobID) ([]byte, error) {
	var tenant, hostTenant string
	var packed []byte
	var attempt int
	err := l.db.row(ctx, `SELECT r.tenant, j.tenant, j.attempt, a.detail FROM runs r JOIN jobs j ON j.run = r.seq AND j.idx = $2
		LEFT JOIN attempts a ON a.run = j.run AND a.idx = j.idx AND a.life = 0 AND a.attempt = j.attempt WHERE r.id = $1`,
		clean(id.Run, maxText), id.Index).Scan(&tenant, &hostTenant, &attempt, &packed)
	switch {
	case none(err): // it has no outcome, ended in a range, or does not exist
		_, err := l.jobWithoutRow(ctx, s, id)
		return nil, err
	case err == nil && !s.Allows(tenant) && !s.Allows(hostTenant):
		return nil, noJob(id)
	case err == nil:
		packed, err = l.open(packed, tryPlace(detailOf, id.Run, id.Index, attempt)...)
	}
	return packed, translate("read the detail of job "+id.String(), err)
}
