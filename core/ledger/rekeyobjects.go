package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnus/turnus/core"
)

// encryptObjects puts objects that are not encrypted into the bucket again.
func (l *Ledger) encryptObjects(ctx context.Context, out *Reencrypted, progress func(int)) error {
	if l.bucket == nil {
		return nil
	}
	type open struct {
		seq int64
		id  core.JobID
		o   Output
	}
	var after []any
	for {
		if err := l.removeReplaced(ctx); err != nil {
			return err
		}
		query, args := `SELECT c.run, r.id, c.idx, c.name, c.size, c.written, c.object FROM outputs c JOIN runs r ON r.seq = c.run WHERE c.object <> '' AND c.data IS NULL`, []any{}
		if after != nil {
			query, args = query+` AND (c.run, c.idx, c.name) > ($1, $2, $3)`, after
		}
		rows, err := l.db.rows(ctx, query+` ORDER BY c.run, c.idx, c.name LIMIT 100`, args...)
		all, err := collect(rows, err, func(row scanner) (x open, err error) {
			var written int64
			err = row.Scan(&x.seq, &x.id.Run, &x.id.Index, &x.o.Name, &x.o.Size, &written, &x.o.object)
			x.o.Written = fromMicros(written)
			return x, err
		})
		if err != nil || len(all) == 0 {
			return err
		}
		for _, x := range all {
			if err := l.reencryptObject(ctx, x.seq, x.id, x.o); err != nil {
				if ctx.Err() != nil {
					return err
				}
				out.fail(fmt.Sprintf("object of output %s of job %s: %v", x.o.Name, x.id, err))
				continue
			}
			if out.Values++; progress != nil {
				progress(out.Values)
			}
		}
		last := all[len(all)-1]
		after = []any{last.seq, last.id.Index, last.o.Name}
	}
}

func (l *Ledger) reencryptObject(ctx context.Context, seq int64, id core.JobID, o Output) error {
	r, err := l.bucket.NewReader(ctx, o.object, nil)
	if err != nil {
		return BucketError(err)
	}
	defer func() { _ = r.Close() }()
	fresh := o
	if err := l.upload(ctx, &fresh, seq, id, r); err != nil {
		return err
	}
	changed := int64(0)
	err = l.db.transact(ctx, "encrypt an object", func(t *tx) error {
		var err error
		changed, err = t.exec(ctx, `UPDATE outputs SET object = $1, data = $2 WHERE run = $3 AND idx = $4 AND name = $5 AND object = $6`,
			fresh.object, fresh.data, seq, id.Index, o.Name, o.object)
		if err == nil && changed > 0 {
			_, err = t.exec(ctx, `INSERT INTO documents (kind, tenant, name, version, deleted, revision, who, updated) VALUES ($1, '', $2, 1, 1, '', '', $3)`, kindReplaced, o.object, micros(l.now()))
		}
		return err
	})
	if errors.Is(err, core.ErrUnknown) { // the row names either object; Sweep removes the other
		return err
	}
	if err != nil || changed == 0 { // it was replaced or removed meanwhile
		l.discard(ctx, fresh.object)
	}
	return err
}

// kindReplaced is of documents that name objects which are not encrypted and were replaced. They
// are made with the row of the new object, so that a process that is killed leaves no object that
// the next call does not remove.
const kindReplaced = "replaced object"

// removeReplaced removes objects that encryptObjects has replaced.
func (l *Ledger) removeReplaced(ctx context.Context) error {
	if l.bucket == nil {
		return nil
	}
	for {
		rows, err := l.db.rows(ctx, `SELECT name FROM documents WHERE kind = $1 ORDER BY name LIMIT 100`, kindReplaced)
		names, err := collect(rows, err, scanOne[string])
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := BucketError(l.bucket.Delete(ctx, name)); err != nil && !errors.Is(err, core.ErrNotFound) {
				return err
			}
		}
		err = l.db.transact(ctx, "forget replaced objects", func(t *tx) error {
			_, err := t.exec(ctx, `DELETE FROM documents WHERE kind = $1 AND name `+fmt.Sprintf(l.db.anyOf, "$2"), kindReplaced, l.db.list(names))
			return err
		})
		if err != nil {
			return err
		}
	}
}
