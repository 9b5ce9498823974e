package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"net/url"
	"strings"
	"time"
)

// Raw runs SQL that the ledger does not have.
func (l *Ledger) Raw(ctx context.Context, sql string, args ...any) error {
	_, err := l.db.write.ExecContext(ctx, sql, args...)
	return err
}

// LogPages returns how long SQLite's log is, and how much of it is in the file.
func (l *Ledger) LogPages(ctx context.Context) (pages, done int, err error) {
	var busy int
	err = l.db.wal.QueryRowContext(ctx, `PRAGMA wal_checkpoint(NOOP)`).Scan(&busy, &pages, &done)
	return pages, done, err
}

// CheckpointPages is checkpointPages.
const CheckpointPages = checkpointPages

// RefusePlain does what Open does with a ring where it found no mark a moment ago.
func (l *Ledger) RefusePlain(ctx context.Context) error { return l.refusePlain(ctx) }

// Database is sqlite or postgres.
func (l *Ledger) Database() string { return l.db.name }

// PlanOfRuns returns how the database reads a list of runs.
func (l *Ledger) PlanOfRuns(ctx context.Context, s Scope, f RunFilter) (string, error) {
	q, from, err := l.runsQuery(s, f)
	if err != nil {
		return "", err
	}
	text, args := q.page(runColumns, from, runsOrder, Page{})
	return l.plan(ctx, text, args...)
}

// PlanOfOpenJobs returns how the database searches open jobs of a host.
func (l *Ledger) PlanOfOpenJobs(ctx context.Context) (search, read string, err error) {
	if search, err = l.plan(ctx, l.searchQuery(), "", 0); err == nil {
		read, err = l.plan(ctx, l.runsWithQuery(), "", 0, "b", searchedRuns, []byte{packRaw}, []byte("h"))
	}
	return search, read, err
}

// PlanOfFacts returns how the database reads the facts of a host of any tenant.
func (l *Ledger) PlanOfFacts(ctx context.Context, host string) (string, error) {
	q := l.factsOf(AllTenants(), host)
	return l.plan(ctx, q.factsText("data"), q.args...)
}

func (l *Ledger) plan(ctx context.Context, text string, args ...any) (string, error) {
	explain, read := `EXPLAIN `, scanOne[string]
	if l.Database() == "sqlite" {
		explain, read = `EXPLAIN QUERY PLAN `, func(row scanner) (step string, err error) {
			var id, parent, unused int
			err = row.Scan(&id, &parent, &unused, &step)
			return step, err
		}
	}
	rows, err := l.db.rows(ctx, explain+text, args...)
	steps, err := collect(rows, err, read)
	return strings.Join(steps, "\n"), err
}

// SetClock replaces the clock; before the ledger is used by others.
func (l *Ledger) SetClock(now func() time.Time) { l.now = now }

// MigrateTo brings an empty database to an earlier version, as an earlier program left it.
func MigrateTo(ctx context.Context, url string, version int) error {
	d, err := connect(url, 1)
	if err != nil {
		return err
	}
	defer d.close()
	return d.migrate(ctx, version)
}

// Translate is translate.
var Translate = translate

// TranslateCommit is translateCommit.
var TranslateCommit = translateCommit

// Connect opens a ledger without bringing its tables forward, as an earlier program would.
func Connect(url string) (*Ledger, error) {
	d, err := connect(url, 1)
	return &Ledger{db: d, now: time.Now}, err
}

// Search counts the rows of a table in whose bytes a word is, by the database's own writing of a
// row; packed values are unpacked.
func (l *Ledger) Search(ctx context.Context, table, word string) (n int, err error) {
	rows, err := l.db.rows(ctx, `SELECT * FROM `+table)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		values, dest := make([][]byte, len(names)), make([]any, len(names))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return 0, err
		}
		for _, v := range values {
			plain, err := unpack(v)
			if bytes.Contains(v, []byte(word)) || err == nil && bytes.Contains(plain, []byte(word)) {
				n++
				break
			}
		}
	}
	return n, rows.Err()
}

// LoseAnswers makes each further commit of a ledger in a SQLite file happen without an answer.
func (l *Ledger) LoseAnswers() {
	sqlite := l.db.write.Driver()
	_ = l.db.write.Close()
	l.db.write = sql.OpenDB(unanswered{sqlite, sqliteName((&url.URL{Path: l.db.file}).EscapedPath(), "", "busy_timeout(30000)")})
	l.db.write.SetMaxOpenConns(1)
}

type unanswered struct {
	driver driver.Driver
	name   string
}

func (u unanswered) Driver() driver.Driver { return u.driver }

func (u unanswered) Connect(context.Context) (driver.Conn, error) {
	c, err := u.driver.Open(u.name)
	return unansweredConn{c}, err
}

type unansweredConn struct{ driver.Conn }

func (c unansweredConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	t, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
	return unansweredTx{t}, err
}

type unansweredTx struct{ driver.Tx }

func (t unansweredTx) Commit() error {
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
