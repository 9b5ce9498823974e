package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/turnus/turnus/core"
)

// Loader fills an empty ledger. Its changes count once all of them are done.
type Loader struct {
	db   *db
	conn *sql.Conn
	t    *tx
	have []Table
}

// The document by which a ledger knows that it was filled from a copy.
const (
	kindLedger   = "ledger"
	nameRestored = "restored"
)

// lostIncarnation is that of runs whose queue was lost: of no queue that exists.
const lostIncarnation = "restored"

// Load makes the tables of a version in the empty database at a URL, calls fill to put rows into
// them, and updates them to this program's version. All of it is one transaction: a kill at any
// moment leaves the database unchanged. from names the source of the rows; the ledger keeps it with
// the time (Restored).
//
// Afterwards runs that are not complete belong to no queue, as if theirs had been lost, also those
// that were waiting to be put into one. Their state since the copy was made is unknown. A database
// that is not empty, tables of a later version than the copy's, and a copy of a newer program are
// core.ErrInvalid.
func Load(ctx context.Context, url string, version int, from string, fill func(context.Context, *Loader) error) error {
	d, err := connect(url, 1)
	if err != nil {
		return fmt.Errorf("open ledger %s: %w", redact(url), err)
	}
	defer d.close()
	all, err := migrations(d.name)
	if err != nil {
		return err
	}
	if last := all[len(all)-1].version; version > last || version < 1 {
		return fmt.Errorf("the copy has tables of version %d, this program knows 1 to %d: restore it with the turnus that made it, or a newer one: %w", version, last, core.ErrInvalid)
	}
	conn, err := d.write.Conn(ctx)
	if err != nil {
		return translate("open ledger "+redact(url), err)
	}
	defer func() { _ = conn.Close() }()
	begun, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return translate("fill the ledger", err)
	}
	l := &Loader{db: d, conn: conn, t: newTx(d, begun)}
	if err := l.all(ctx, all, version, from, fill); err != nil {
		_ = begun.Rollback()
		return translate("fill the ledger", err)
	}
	if err := begun.Commit(); err != nil {
		return translateCommit(ctx, "fill the ledger", err)
	}
	return nil
}

func (l *Loader) all(ctx context.Context, all []migration, version int, from string, fill func(context.Context, *Loader) error) error {
	if err := l.t.migrate(ctx, all, version); err != nil {
		return err
	}
	var err error
	if l.have, err = tables(ctx, l.t.tx, l.db.dialect); err != nil {
		return err
	}
	if err := l.empty(ctx, version); err != nil {
		return err
	}
	guard, err := l.db.unguard(ctx, l.t)
	if err != nil {
		return err
	}
	if err := fill(ctx, l); err != nil {
		return err
	}
	if err := guard(); err != nil {
		return err
	}
	if _, err := l.t.exec(ctx, `UPDATE runs SET incarnation = $1, position = '', claimed_by = '', claimed_until = 0,
		phase = CASE WHEN phase = '`+string(PhaseQueued)+`' THEN '`+string(PhaseActive)+`' ELSE phase END, version = version + 1
		WHERE ended = 0 AND phase <> '`+string(PhaseAwaiting)+`'`, lostIncarnation); err != nil {
		return err
	}
	if err := l.t.migrate(ctx, all, latest); err != nil {
		return err
	}
	// Fire times between the copy and now may have been launched.
	if _, err = l.t.exec(ctx, `UPDATE schedules SET passed = $1`, micros(time.Now())); err != nil {
		return err
	}
	_, err = l.t.exec(ctx, `INSERT INTO documents (kind, tenant, name, version, revision, who, updated) VALUES ($1, '', $2, 1, $3, '', $4)
		ON CONFLICT (kind, tenant, name) DO UPDATE SET version = documents.version + 1, revision = excluded.revision, updated = excluded.updated`,
		kindLedger, nameRestored, clean(from, maxText), micros(time.Now()))
	return err
}

// empty refuses a database in which something would be lost.
func (l *Loader) empty(ctx context.Context, version int) error {
	var have int
	if err := l.t.row(ctx, `SELECT max(version) FROM migrations`).Scan(&have); err != nil {
		return err
	}
	if have > version {
		return fmt.Errorf("the database has tables of version %d, the copy is of version %d: give an empty database or file: %w", have, version, core.ErrInvalid)
	}
	var full []string
	for _, t := range l.have {
		query := `SELECT 1 FROM ` + quoted(t.Name)
		if t.Name == "audit_head" { // a row that represents an empty log
			query += ` WHERE seq > 0`
		}
		var one int
		switch err := l.t.row(ctx, query+` LIMIT 1`).Scan(&one); {
		case err == nil:
			full = append(full, t.Name)
		case !none(err):
			return err
		}
	}
	if len(full) > 0 {
		return fmt.Errorf("the ledger is not empty, it has rows in %s: give an empty database or file; nothing was changed: %w", strings.Join(full, ", "), core.ErrInvalid)
	}
	return nil
}

// Table puts the rows that next gives, until io.EOF, into a table. The row may be used again. A
// table of another shape than this version has is core.ErrInvalid.
func (l *Loader) Table(ctx context.Context, t Table, next func() ([]any, error)) (n int64, err error) {
	at := slices.IndexFunc(l.have, func(have Table) bool { return have.Name == t.Name })
	if at < 0 || !slices.Equal(sorted(l.have[at].Columns), sorted(t.Columns)) {
		return 0, fmt.Errorf("table %s of the copy is none that a ledger of its version has: %w", t.Name, core.ErrInvalid)
	}
	what := "fill table " + t.Name
	if _, err := l.t.exec(ctx, `DELETE FROM `+quoted(t.Name)); err != nil { // what migrations put in
		return 0, translate(what, err)
	}
	n, err = l.db.load(ctx, l, t, next)
	if err != nil {
		return n, translate(what, err)
	}
	if t.Serial != "" && t.Last > 0 {
		err = l.db.setSerial(ctx, l.t, t)
	}
	return n, translate(what, err)
}

func sorted(columns []Column) []Column {
	return slices.SortedFunc(slices.Values(columns), func(a, b Column) int { return strings.Compare(a.Name, b.Name) })
}

func names(columns []Column, form func(string) string) []string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = form(c.Name)
	}
	return list
}

// loadCopy fills a table of PostgreSQL by COPY, in the transaction that the connection is in.
func loadCopy(ctx context.Context, l *Loader, t Table, next func() ([]any, error)) (n int64, err error) {
	var ended error // the driver reports it in words only
	err = l.conn.Raw(func(raw any) error {
		n, err = raw.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{t.Name}, names(t.Columns, func(s string) string { return s }),
			pgx.CopyFromFunc(func() ([]any, error) {
				row, err := next()
				if errors.Is(err, io.EOF) {
					return nil, nil
				}
				ended = err
				return row, err
			}))
		return err
	})
	return n, cmp.Or(ended, err)
}

// loadInsert fills a table of SQLite.
func loadInsert(ctx context.Context, l *Loader, t Table, next func() ([]any, error)) (n int64, err error) {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ")
	s, err := l.t.stmt(ctx, `INSERT INTO `+quoted(t.Name)+` (`+strings.Join(names(t.Columns, quoted), ", ")+`) VALUES (`+marks+`)`)
	if err != nil {
		return 0, err
	}
	for {
		row, err := next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if _, err := s.ExecContext(ctx, row...); err != nil {
			return n, err
		}
		n++
	}
}

// Restored returns when this ledger was filled from a copy, and from which; the zero time where it
// never was.
func (l *Ledger) Restored(ctx context.Context) (at time.Time, from string, err error) {
	var us int64
	err = l.db.row(ctx, `SELECT updated, revision FROM documents WHERE kind = $1 AND tenant = '' AND name = $2 AND deleted = 0`, kindLedger, nameRestored).Scan(&us, &from)
	if none(err) {
		return time.Time{}, "", nil
	}
	return fromMicros(us), from, translate("read when the ledger was restored", err)
}
