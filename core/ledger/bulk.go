package ledger

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// columns are those of the table u from which a statement reads its rows, as "name type", where the
// type is bigint, text or bytea.
type columns []string

// set executes one statement for many rows, which it reads from the table u. scan, where it is not
// nil, reads each row that the statement returns. PostgreSQL takes all rows in one round trip.
func (t *tx) set(ctx context.Context, u columns, statement string, rows [][]any, scan func(scanner) error) error {
	if len(rows) == 0 {
		return nil
	}
	if !t.prepare {
		returned, err := t.rows(ctx, u.arrays()+statement, u.turned(rows)...)
		return each(returned, err, scan)
	}
	for len(rows) > 0 {
		n := setRows(len(rows))
		args := make([]any, 0, n*len(u))
		for _, row := range rows[:n] {
			args = append(args, row...)
		}
		if err := t.many(ctx, u.values(n)+statement, args, scan); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// many executes a statement of SQLite that is kept.
func (t *tx) many(ctx context.Context, query string, args []any, scan func(scanner) error) error {
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

// kept is a statement that outlives its transaction: parsing one of many rows takes longer than
// executing it. The first time it is of this transaction only, because the one connection that
// writes is taken.
func (t *tx) kept(ctx context.Context, query string) (*sql.Stmt, error) {
	s, ok := t.db.bulks.LoadOrStore(query, (*sql.Stmt)(nil))
	if s := s.(*sql.Stmt); ok && s != nil {
		return t.tx.StmtContext(ctx, s), nil
	}
	return t.stmt(ctx, query)
}

// prepareBulks prepares the statements that transactions have asked for. It is best effort: a
// transaction that lacks one prepares it.
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

// setRows is how many of n rows the next statement of SQLite takes. Few sizes make few texts, each
// of which is prepared once.
func setRows(n int) int {
	for _, size := range []int{64, 16, 4} {
		if n >= size {
			return size
		}
	}
	return 1
}

// values begins a statement of SQLite on n rows.
func (u columns) values(n int) string {
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(u)), ", ") + ")"
	return u.named() + `VALUES ` + strings.TrimSuffix(strings.Repeat(row+", ", n), ", ") + ") "
}

// arrays begins a statement of PostgreSQL, whose parameters are the columns.
func (u columns) arrays() string {
	var b strings.Builder
	b.WriteString(u.named() + `SELECT * FROM unnest(`)
	for i, c := range u {
		_, kind, _ := strings.Cut(c, " ")
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(i+1) + "::" + kind + "[]")
	}
	b.WriteString(")) ")
	return b.String()
}

func (u columns) named() string {
	names := make([]string, len(u))
	for i, c := range u {
		names[i], _, _ = strings.Cut(c, " ")
	}
	return `WITH u (` + strings.Join(names, ", ") + `) AS (`
}

// turned are rows turned on their side: an array a column.
func (u columns) turned(rows [][]any) []any {
	arrays := make([]any, len(u))
	for i, c := range u {
		switch _, kind, _ := strings.Cut(c, " "); kind {
		case "bigint":
			arrays[i] = columnOf(rows, i, func(v any) int64 {
				if n, ok := v.(int); ok {
					return int64(n)
				}
				return v.(int64)
			})
		case "bytea":
			arrays[i] = columnOf(rows, i, func(v any) []byte { return v.([]byte) })
		default:
			arrays[i] = columnOf(rows, i, func(v any) string { return v.(string) })
		}
	}
	return arrays
}

// columnOf is one column; nil values stay nil.
func columnOf[T any](rows [][]any, column int, of func(any) T) []*T {
	values, list := make([]T, len(rows)), make([]*T, len(rows))
	for i, row := range rows {
		if v := row[column]; v != nil {
			values[i] = of(v)
			list[i] = &values[i]
		}
	}
	return list
}
