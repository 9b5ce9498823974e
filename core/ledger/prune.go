package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// Owners are tenants whose runs are meant: those named, or with Others all but those.
type Owners struct {
	Tenants []string
	Others  bool
}

func (o Owners) filter(q *query, column string) {
	switch {
	case !o.Others:
		q.whereAny(column, o.Tenants)
	case len(o.Tenants) > 0:
		q.whereNone(column, o.Tenants)
	}
}

// Expired lists complete runs of owners that ended before a time, oldest end first; with outputs
// only those that have some.
func (l *Ledger) Expired(ctx context.Context, of Owners, before time.Time, outputs bool, p Page) (runs []Run, next string, err error) {
	q := &query{d: l.db.dialect}
	q.where("ended > 0")
	q.where("ended < ?", bound(before))
	of.filter(q, "tenant")
	if outputs {
		q.where("EXISTS (SELECT 1 FROM outputs o WHERE o.run = runs.seq)")
	}
	return list(ctx, l, q, p, listing[Run]{
		what: "list runs that ended", columns: runColumns, from: "runs", order: "ended, seq", scan: scanRun,
		at:    func(r Run) cursor { return cursor{List: "expired", Key: []int64{micros(r.Ended), r.seq}} },
		after: func(q *query, at cursor) { q.where("(ended, seq) > (?, ?)", at.Key[0], at.Key[1]) },
	})
}

// Use is how much output there is.
type Use struct {
	Outputs int64
	Bytes   int64 // as they were written
}

// OutputUse is the output of all runs, by tenant. It reads every row of outputs.
func (l *Ledger) OutputUse(ctx context.Context) (map[string]Use, error) {
	rows, err := l.db.rows(ctx, `SELECT r.tenant, count(*), CAST(sum(o.size) AS BIGINT) FROM outputs o JOIN runs r ON r.seq = o.run GROUP BY r.tenant`)
	all := map[string]Use{}
	_, err = collect(rows, err, func(row scanner) (tenant string, err error) {
		var u Use
		err = row.Scan(&tenant, &u.Outputs, &u.Bytes)
		all[tenant] = u
		return tenant, err
	})
	return all, translate("add up outputs", err)
}

// RunUse is the output of one run.
func (l *Ledger) RunUse(ctx context.Context, r Run) (u Use, err error) {
	err = l.db.row(ctx, `SELECT count(*), CAST(coalesce(sum(size), 0) AS BIGINT) FROM outputs WHERE run = $1`, r.seq).Scan(&u.Outputs, &u.Bytes)
	return u, translate("add up the outputs of run "+r.ID, err)
}

// Pruned counts what one call removed.
type Pruned struct {
	Rows int  // of jobs, attempts, ranges, decisions, steps with once and output
	More bool // there is more to remove: call again
}

// Prune removes a complete run with all that belongs to it, in bounded work: at most batch rows (at
// least 1), in one short transaction for each table. Large output goes first. The audit log stays.
// A run that is partly removed is still listed, but some or all of its jobs are not found; what is
// not complete is core.ErrConflict. One that is gone is well.
func (l *Ledger) Prune(ctx context.Context, id string, batch int) (Pruned, error) {
	seq, err := l.prunable(ctx, id, true)
	if errors.Is(err, core.ErrNotFound) {
		return Pruned{}, nil
	}
	if err != nil {
		return Pruned{}, err
	}
	p, err := l.removeRows(ctx, seq, id, []string{"outputs", "attempts", "jobs", "ranges", "decisions", "once"}, max(batch, 1))
	if err != nil || p.More {
		return p, err
	}
	return p, l.db.transact(ctx, "prune run "+id, func(t *tx) error {
		_, err := t.exec(ctx, `DELETE FROM runs WHERE seq = $1 AND ended > 0`, seq)
		return err
	})
}

// PruneOutputs removes the outputs of a complete run, and leaves all else of it, as Prune does.
func (l *Ledger) PruneOutputs(ctx context.Context, id string, batch int) (Pruned, error) {
	seq, err := l.prunable(ctx, id, false)
	if errors.Is(err, core.ErrNotFound) {
		return Pruned{}, nil
	}
	if err != nil {
		return Pruned{}, err
	}
	return l.removeRows(ctx, seq, id, []string{"outputs"}, max(batch, 1))
}

// prunable finds a complete run; all begins its end: from then on Check passes it over, and nobody
// can run it again.
func (l *Ledger) prunable(ctx context.Context, id string, all bool) (seq int64, err error) {
	err = l.db.transact(ctx, "prune run "+id, func(t *tx) error {
		run, err := lockRun(ctx, t, id)
		if none(err) {
			return noRun(id)
		}
		if err != nil {
			return err
		}
		if !run.Complete() {
			return fmt.Errorf("it is not complete: %w", core.ErrConflict)
		}
		seq = run.seq
		if all {
			_, err = t.exec(ctx, `DELETE FROM materials WHERE run = $1`, seq)
		}
		return err
	})
	return seq, err
}

// keys of the tables that hold rows of runs, in addition to the run.
var pruneKeys = map[string]string{"outputs": "idx, name", "attempts": "idx, life, attempt", "jobs": "idx", "ranges": "first", "decisions": "wave, content, who", "once": "step"}

// removeRows removes up to most rows of a run from tables, one after the other.
func (l *Ledger) removeRows(ctx context.Context, seq int64, id string, tables []string, most int) (p Pruned, err error) {
	for _, table := range tables {
		if table == "outputs" {
			if err := l.pruneObjects(ctx, seq, most-p.Rows); err != nil {
				return p, fmt.Errorf("prune run %s: %w", id, err)
			}
		}
		key := pruneKeys[table]
		query := `DELETE FROM ` + table + ` WHERE run = $1 AND (` + key + `) IN (SELECT ` + key + ` FROM ` + table + ` WHERE run = $1 ORDER BY ` + key + ` LIMIT $2)`
		err := l.db.transact(ctx, "prune run "+id, func(t *tx) error {
			n, err := t.exec(ctx, query, seq, most-p.Rows)
			p.Rows += int(n)
			return err
		})
		if p.More = p.Rows >= most; err != nil || p.More {
			return p, err
		}
	}
	return p, nil
}

// pruneObjects removes the objects of the rows that go next. Rows go afterwards, so that an object
// never loses its name.
func (l *Ledger) pruneObjects(ctx context.Context, seq int64, most int) error {
	if l.bucket == nil {
		return nil
	}
	rows, err := l.db.rows(ctx, `SELECT object FROM outputs WHERE run = $1 ORDER BY idx, name LIMIT $2`, seq, most)
	keys, err := collect(rows, err, scanOne[string])
	if err != nil {
		return translate("prune", err)
	}
	for _, key := range keys {
		if key == "" {
			continue
		}
		if err := BucketError(l.bucket.Delete(ctx, key)); err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
	}
	return nil
}
