package ledger

import (
	"context"
	"fmt"
	"strconv"

	"github.com/turnus/turnus/core"
)

// OnceStep is a step that one host of a run calls for all.
type OnceStep struct {
	Step  int  // index in the playbook
	Job   int  // index of the job whose host calls it
	Known bool // its result is here
}

// Once lists the steps of a run of which it is known which host calls them.
func (l *Ledger) Once(ctx context.Context, run *Run) ([]OnceStep, error) {
	rows, err := l.db.rows(ctx, `SELECT step, idx, data IS NOT NULL FROM once WHERE run = $1 ORDER BY step`, run.seq)
	all, err := collect(rows, err, func(row scanner) (s OnceStep, err error) {
		err = row.Scan(&s.Step, &s.Job, &s.Known)
		return s, err
	})
	return all, translate("read the steps with once of run "+run.ID, err)
}

// ElectOnce makes a job the one whose host calls a step, and returns the one that is, and whether
// it was not before: the first stays. No host begins the step before that is here.
func (l *Ledger) ElectOnce(ctx context.Context, run *Run, step, job int) (elected int, added bool, err error) {
	err = l.db.transact(ctx, "write down which host of run "+run.ID+" calls a step", func(t *tx) error {
		n, err := t.exec(ctx, `INSERT INTO once (run, step, idx, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, run.seq, step, job, micros(l.now()))
		if err != nil {
			return err
		}
		added = n > 0
		return t.row(ctx, `SELECT idx FROM once WHERE run = $1 AND step = $2`, run.seq, step).Scan(&elected)
	})
	return elected, added, err
}

// UnelectOnce takes an election back that no worker knows of, as its job has ended.
func (l *Ledger) UnelectOnce(ctx context.Context, run *Run, step, job int) error {
	return l.db.transact(ctx, "take back which host of run "+run.ID+" calls a step", func(t *tx) error {
		_, err := t.exec(ctx, `DELETE FROM once WHERE run = $1 AND step = $2 AND idx = $3 AND data IS NULL`, run.seq, step, job)
		return err
	})
}

// KeepOnce writes down the result of a step that the host of a job called. The first stays. For
// another job than the elected one it is core.ErrConflict.
func (l *Ledger) KeepOnce(ctx context.Context, run *Run, step, job int, result []byte) error {
	return l.db.transact(ctx, "write down the result of a step of run "+run.ID, func(t *tx) error {
		var elected int
		err := t.row(ctx, `SELECT idx FROM once WHERE run = $1 AND step = $2`, run.seq, step).Scan(&elected)
		if err == nil && elected != job || none(err) {
			return fmt.Errorf("job %d has not been elected to call it: %w", job, core.ErrConflict)
		}
		if err != nil {
			return err
		}
		_, err = t.exec(ctx, `UPDATE once SET data = $3 WHERE run = $1 AND step = $2 AND data IS NULL`, run.seq, step, l.encrypt(result, onceOf, run.ID, strconv.Itoa(step)))
		return err
	})
}

// OnceResult reads what KeepOnce wrote; core.ErrNotFound before.
func (l *Ledger) OnceResult(ctx context.Context, run *Run, step int) ([]byte, error) {
	var stored []byte
	err := l.db.row(ctx, `SELECT data FROM once WHERE run = $1 AND step = $2 AND data IS NOT NULL`, run.seq, step).Scan(&stored)
	if none(err) {
		return nil, fmt.Errorf("step %d of run %s has no result yet: %w", step, run.ID, core.ErrNotFound)
	}
	if err != nil {
		return nil, translate("read the result of a step of run "+run.ID, err)
	}
	return l.open(stored, onceOf, run.ID, strconv.Itoa(step))
}
