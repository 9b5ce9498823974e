package ledger

import (
	"context"
	"time"

	"gocloud.dev/gcerrors"
)

// Pruned says what one call of Prune removed.
type Pruned struct {
	Runs int  // that are gone
	Rows int  // of jobs, attempts, ranges and output
	More bool // there is more to remove: call again
}

// Prune removes complete runs that ended before a time, oldest first, with all that belongs to
// them, in bounded work: at most batch rows (at least 1) in one short transaction for each table.
// Large output goes first. The audit log stays. A run that is partly removed is still listed, but
// some or all of its jobs are not found.
func (l *Ledger) Prune(ctx context.Context, before time.Time, batch int) (Pruned, error) {
	var p Pruned
	left := max(batch, 1)
	for left > 0 {
		var seq int64
		var id string
		err := l.db.row(ctx, `SELECT seq, id FROM runs WHERE ended > 0 AND ended < $1 ORDER BY ended, seq LIMIT 1`, bound(before)).Scan(&seq, &id)
		if none(err) {
			return p, nil
		}
		if err != nil {
			return p, translate("prune", err)
		}
		n, err := l.pruneRun(ctx, seq, id, left)
		p.Rows += n
		if err != nil {
			return p, err
		}
		if left -= n; left > 0 { // nothing is left of it but the run itself
			p.Runs++
			left--
		}
	}
	p.More = true
	return p, nil
}

// pruneRun removes up to most rows of a run, and the run when fewer were left.
func (l *Ledger) pruneRun(ctx context.Context, seq int64, id string, most int) (removed int, err error) {
	what := "prune run " + id
	for _, remove := range []struct{ table, key string }{
		{"materials", ""}, // first: from then on Check passes the run over
		{"outputs", "idx, name"},
		{"attempts", "idx, life, attempt"},
		{"jobs", "idx"},
		{"ranges", "first"},
		{"decisions", "wave, content, who"},
	} {
		if remove.table == "outputs" {
			if err := l.pruneObjects(ctx, seq, most-removed); err != nil {
				return removed, err
			}
		}
		query, args := `DELETE FROM `+remove.table+` WHERE run = $1`, []any{seq}
		if remove.key != "" {
			query += ` AND (` + remove.key + `) IN (SELECT ` + remove.key + ` FROM ` + remove.table + ` WHERE run = $1 ORDER BY ` + remove.key + ` LIMIT $2)`
			args = append(args, most-removed)
		}
		err := l.db.transact(ctx, what, func(t *tx) error {
			n, err := t.exec(ctx, query, args...)
			if remove.key != "" {
				removed += int(n)
			}
			return err
		})
		if err != nil || removed >= most {
			return removed, err
		}
	}
	return removed, l.db.transact(ctx, what, func(t *tx) error {
		_, err := t.exec(ctx, `DELETE FROM runs WHERE seq = $1`, seq)
		return err
	})
}

// pruneObjects removes the objects of the rows that go next. Rows go afterwards, so that an object
// never loses its name.
func (l *Ledger) pruneObjects(ctx context.Context, seq int64, most int) error {
	if l.bucket == nil {
		return nil
	}
	rows, err := l.db.rows(ctx, `SELECT object FROM outputs WHERE run = $1 ORDER BY idx, name LIMIT $2`, seq, most)
	objects, err := collect(rows, err, scanOne[string])
	if err != nil {
		return translate("prune", err)
	}
	for _, object := range objects {
		if object == "" {
			continue
		}
		if err := l.bucket.Delete(ctx, object); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return bucketError(err)
		}
	}
	return nil
}
