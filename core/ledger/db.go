package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// db is the connections and the statements prepared on them.
type db struct {
	*dialect
	write, read *sql.DB // the same pool for PostgreSQL; of SQLite write is one connection

	statements sync.Map // of read: query text → *sql.Stmt; bounded by the number of texts in this package

	bulks sync.Map // of write: query text → *sql.Stmt, nil: not prepared yet; bounded as statements are

	waiting     atomic.Int32 // for a transaction that writes
	wal         *sql.DB      // checkpoints SQLite's write-ahead log; nil of PostgreSQL
	checkpoints sync.Mutex   // one at a time

	broken  func(error) // see Options.Broken
	refused atomic.Bool // a write was, and none has been taken since: see Ping

	file string      // of SQLite
	is   os.FileInfo // what file was when it was opened
}

func (d *db) close() {
	d.statements.Range(func(_, s any) bool { _ = s.(*sql.Stmt).Close(); return true })
	d.bulks.Range(func(_, s any) bool {
		if s := s.(*sql.Stmt); s != nil {
			_ = s.Close()
		}
		return true
	})
	_ = d.read.Close()
	if d.wal != nil {
		_ = d.wal.Close()
	}
	if d.write != d.read {
		_ = d.write.Close()
	}
}

// preparedOnce makes the bound of a query an expression. SQLite plans for the value of a bound that
// is a parameter alone: it would prepare the statement again each time that it is executed. That
// was a third of the processor time of the tests of schedules.
func preparedOnce(query string) string { return strings.ReplaceAll(query, "LIMIT $", "LIMIT 0+$") }

// prepared returns the statement of a query, and makes it when it is the first time.
func (d *db) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := d.statements.Load(query); ok {
		return s.(*sql.Stmt), nil
	}
	s, err := d.read.PrepareContext(ctx, preparedOnce(query))
	if err != nil {
		return nil, err
	}
	if first, lost := d.statements.LoadOrStore(query, s); lost {
		_ = s.Close()
		return first.(*sql.Stmt), nil
	}
	return s, nil
}

// result is one row to be, or the reason why there is none.
type result struct {
	row *sql.Row
	err error
}

func (r result) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.row.Scan(dest...)
}

func (d *db) row(ctx context.Context, query string, args ...any) result {
	if !d.prepare {
		return result{row: d.read.QueryRowContext(ctx, query, args...)}
	}
	s, err := d.prepared(ctx, query)
	if err != nil {
		return result{err: err}
	}
	return result{row: s.QueryRowContext(ctx, args...)}
}

func (d *db) rows(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if !d.prepare {
		return d.read.QueryContext(ctx, query, args...)
	}
	s, err := d.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// atOneMoment lets do read what there was at one moment.
func (d *db) atOneMoment(ctx context.Context, do func(*sql.Conn) error) error {
	c, err := d.read.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.ExecContext(ctx, d.snapshot); err != nil {
		return err
	}
	defer func() {
		if _, err := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err != nil { // nothing was written
			_ = c.Raw(func(any) error { return driver.ErrBadConn }) // nobody else may get it
		}
	}()
	return do(c)
}

// tx is one transaction that writes. Of SQLite there is one at a time, also among processes.
type tx struct {
	*dialect
	db         *db
	tx         *sql.Tx
	begun      time.Time
	statements map[string]*sql.Stmt // prepared in it, and closed with it
}

func newTx(d *db, begun *sql.Tx) *tx {
	return &tx{dialect: d.dialect, db: d, tx: begun, begun: time.Now(), statements: map[string]*sql.Stmt{}}
}

// A writer's turn, where there is one writer at a time: after it, what takes long lets others write
// before it continues. Beside batches of 1000 outcomes a run is accepted in a fifth of the time
// with it (docs/benchmarks.md).
const (
	turn     = 3 * time.Millisecond
	turnStep = 32 // outcomes between two checks of the clock
)

// yields reports whether the turn is over and others wait for theirs.
func (t *tx) yields() bool {
	return t.turns && t.db.waiting.Load() > 0 && time.Since(t.begun) > turn
}

// transact runs do in a transaction and commits what it did; after an error nothing of it remains.
// Errors are translated; what is the name of the action in them.
func (d *db) transact(ctx context.Context, what string, do func(*tx) error) error {
	err := d.transactOnce(ctx, what, do)
	if d.broken != nil && storageBroken(err) {
		d.broken(err)
	}
	err = refusal(err)
	if _, ok := errors.AsType[*RefusedError](err); ok {
		d.refused.Store(true)
	}
	return err
}

func (d *db) transactOnce(ctx context.Context, what string, do func(*tx) error) error {
	d.prepareBulks(ctx)
	d.waiting.Add(1)
	t, err := d.write.BeginTx(ctx, nil)
	d.waiting.Add(-1)
	if err != nil {
		return translate(what, err)
	}
	if err := do(newTx(d, t)); err != nil {
		_ = t.Rollback()
		return translate(what, err)
	}
	if err := d.inPlace(); err != nil {
		_ = t.Rollback()
		return translate(what, err)
	}
	if err := t.Commit(); err != nil {
		return translateCommit(ctx, what, err)
	}
	return nil
}

// stmt prepares what is executed again and again in this transaction; it is closed with it.
func (t *tx) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := t.statements[query]; s != nil {
		return s, nil
	}
	s, err := t.tx.PrepareContext(ctx, query)
	if err == nil {
		t.statements[query] = s
	}
	return s, err
}

// exec returns how many rows were changed.
func (t *tx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := t.tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t *tx) row(ctx context.Context, query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(ctx, query, args...)
}

func (t *tx) rows(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return t.tx.QueryContext(ctx, query, args...)
}

// scanner is a row of either kind.
type scanner interface{ Scan(dest ...any) error }

// collect reads all rows; bounded by the LIMIT of their query.
func collect[T any](rows *sql.Rows, err error, scan func(scanner) (T, error)) (all []T, _ error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// scanOne reads a row of one column. Callers name it, and do not return a value beside the call
// that sets it: Go does not define which of the two comes first.
func scanOne[T any](row scanner) (T, error) {
	var one T
	err := row.Scan(&one)
	return one, err
}

func none(err error) bool { return errors.Is(err, sql.ErrNoRows) }
