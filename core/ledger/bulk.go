package ledger

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// bulk executes one statement for many rows: head, the rows as ($1, $2), ($3, $4), and tail. scan, where
// it is not nil, reads each row that the statement returns.
func (t *tx) bulk(ctx context.Context, head, tail string, rows [][]any, scan func(scanner) error) error {
	for len(rows) > 0 {
		n := bulkRows(len(rows))
		args := make([]any, 0, n*len(rows[0]))
		for _, row := range rows[:n] {
			args = append(args, row...)
		}
		if err := t.many(ctx, head+t.placeholders(n, len(rows[0]))+tail, args, scan); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (t *tx) many(ctx context.Context, query string, args []any, scan func(scanner) error) error {
	if !t.prepare {
		rows, err := t.rows(ctx, query, args...)
		return each(rows, err, scan)
	}
	s, err := t.kept(ctx, query)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // it is short and must not be cut: without a deadline the driver needs no goroutine
	if scan == nil {
		_, err := s.ExecContext(ctx, args...)
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	return each(rows, err, scan)
}

// each reads rows; scan is nil where there are none.
func each(rows *sql.Rows, err error, scan func(scanner) error) error {
	_, err = collect(rows, err, func(row scanner) (struct{}, error) { return struct{}{}, scan(row) })
	return err
}

// kept is a statement that outlives its transaction: parsing one of many rows takes longer than executing it. The first time
// it is of this transaction only, because the one connection that writes is taken.
func (t *tx) kept(ctx context.Context, query string) (*sql.Stmt, error) {
	s, ok := t.db.bulks.LoadOrStore(query, (*sql.Stmt)(nil))
	if s := s.(*sql.Stmt); ok && s != nil {
		return t.tx.StmtContext(ctx, s), nil
	}
	return t.stmt(ctx, query)
}

// prepareBulks prepares the statements that transactions have asked for. It is best effort: who needs one prepares it.
func (d *db) prepareBulks(ctx context.Context) {
	if !d.prepare {
		return
	}
	d.bulks.Range(func(query, s any) bool {
		if s.(*sql.Stmt) != nil {
			return true
		}
		made, err := d.write.PrepareContext(ctx, query.(string))
		if err == nil && !d.bulks.CompareAndSwap(query, s, made) {
			err = made.Close()
		}
		return err == nil
	})
}

// bulkRows is how many of n rows the next statement takes. Few sizes make few texts, which the driver prepares once.
func bulkRows(n int) int {
	for _, size := range []int{64, 16, 4} {
		if n >= size {
			return size
		}
	}
	return 1
}

// placeholders are those of rows. SQLite takes $1 for a name, and compares each with all before it.
func (d *dialect) placeholders(rows, columns int) string {
	var b strings.Builder
	for i := range rows * columns {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%columns == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		if d.prepare {
			b.WriteString("?")
		} else {
			b.WriteString("$" + strconv.Itoa(i+1))
		}
	}
	b.WriteString(")")
	return b.String()
}
