package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite" // the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/turnus/turnus/core"
)

func sqliteDialect() *dialect {
	return &dialect{
		name: "sqlite",
		schema: strings.NewReplacer("{text}", "TEXT", "{bytes}", "BLOB", "{serial}", "INTEGER PRIMARY KEY AUTOINCREMENT",
			"{clustered}", "WITHOUT ROWID"),
		now:       "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
		anyOf:     "IN (SELECT value FROM json_each(%s))",
		list:      func(values []string) any { data, _ := json.Marshal(values); return string(data) }, // strings always marshal
		anyIndex:  "IN (SELECT CAST(value AS INTEGER) FROM json_each(%s))",
		each:      "(SELECT value AS host FROM json_each(%s)) u",
		byOutcome: " INDEXED BY jobs_outcome",
		byOpen:    " INDEXED BY runs_standing",
		byEnded:   " INDEXED BY runs_ended",
		byHad:     " INDEXED BY runs_",
		had:       "%s > 0",
		holds:     "instr(%s, %s) > 0",
		prepare:   true,
		turns:     true,
		snapshot:  "BEGIN DEFERRED",
		columns: `SELECT m.name, c.name, c.type, c.pk, CASE WHEN c.pk = 1 AND m.sql LIKE '%AUTOINCREMENT%' THEN 1 ELSE 0 END
			FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name <> 'migrations' AND m.name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY m.name, c.cid`,
		lastSerial: lastSQLite,
		setSerial:  setSQLite,
		unguard:    unguardSQLite,
		load:       loadInsert,
	}
}

// lastSQLite reads what AUTOINCREMENT keeps, which outlives the row.
func lastSQLite(ctx context.Context, q asker, t *Table) (int64, error) {
	last, err := scanOne[int64](q.QueryRowContext(ctx, `SELECT seq FROM sqlite_sequence WHERE name = $1`, t.Name))
	if none(err) {
		return 0, nil
	}
	return last, err
}

func setSQLite(ctx context.Context, t *tx, table Table) error {
	if _, err := t.exec(ctx, `DELETE FROM sqlite_sequence WHERE name = $1`, table.Name); err != nil {
		return err
	}
	_, err := t.exec(ctx, `INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)`, table.Name, table.Last)
	return err
}

// unguardSQLite takes the triggers away within the transaction, and puts them back as they were.
func unguardSQLite(ctx context.Context, t *tx) (func() error, error) {
	rows, err := t.rows(ctx, `SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name`)
	type trigger struct{ name, text string }
	all, err := collect(rows, err, func(row scanner) (g trigger, err error) {
		err = row.Scan(&g.name, &g.text)
		return g, err
	})
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		if _, err := t.exec(ctx, `DROP TRIGGER `+quoted(g.name)); err != nil {
			return nil, err
		}
	}
	return func() error {
		for _, g := range all {
			if _, err := t.exec(ctx, g.text); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// openSQLite opens a file. One connection writes. SQLite has one writer anyway, and a queue in this
// process is fairer than its busy handler, which is for other processes. It sets synchronous=FULL:
// in WAL mode NORMAL would lose the last commits with the machine's power.
func openSQLite(path string, connections int) (*db, error) {
	if path == "" || path == ":memory:" {
		return nil, fmt.Errorf("expected sqlite:PATH with the path of a file: %w", core.ErrInvalid)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	// SQLite would make it readable for all; its side files take the mode of this one.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, refusal(fmt.Errorf("%w: %w", core.ErrUnavailable, err))
	}
	is, err := f.Stat()
	_ = f.Close()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}

	d := &db{dialect: sqliteDialect(), file: path, is: is}
	file := (&url.URL{Path: path}).EscapedPath()
	durable := []string{"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(FULL)"}
	if d.write, err = sqlitePool(file, "", 1, append(durable, fmt.Sprintf("wal_autocheckpoint(%d)", 4*checkpointPages))...); err != nil {
		return nil, err
	}
	if err := becomeWAL(d.write); err != nil {
		_ = d.write.Close()
		return nil, err
	}
	if d.read, err = sqlitePool(file, "", connections, append(durable, "query_only(1)")...); err != nil {
		_ = d.write.Close()
		return nil, err
	}
	if d.wal, err = sqlitePool(file, "", 1, durable...); err != nil {
		_ = d.write.Close()
		_ = d.read.Close()
		return nil, err
	}
	return d, nil
}

// inPlace refuses a file of SQLite that is no longer at its path. SQLite continues writing to a
// file without a name, of which nothing is left when the process ends.
func (d *db) inPlace() error {
	if d.is == nil {
		return nil
	}
	now, err := os.Stat(d.file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(d.is, now) {
		return fmt.Errorf("%s: %w", d.file, errMoved)
	}
	return nil
}

// Memory is the URL of a ledger that nobody else sees, and that ends with the process: for runs of
// which no record is kept.
const Memory = "memory:"

// openMemory opens a database in memory, which all connections to its name share. It is there for
// as long as one of them is.
func openMemory() (*db, error) {
	d := &db{dialect: sqliteDialect()}
	file := "/" + rand.Text()
	const shared = "&vfs=memdb"
	var err error
	if d.write, err = sqlitePool(file, shared, 1, "busy_timeout(30000)", "journal_mode(MEMORY)"); err != nil {
		return nil, err
	}
	if d.read, err = sqlitePool(file, shared, 4, "busy_timeout(30000)", "query_only(1)"); err != nil {
		_ = d.write.Close()
		return nil, err
	}
	return d, nil
}

// sqliteName is the driver's name of a file, whose path is escaped.
func sqliteName(file, more string, pragmas ...string) string {
	q := url.Values{"_txlock": {"immediate"}}
	for _, p := range append(pragmas, "foreign_keys(1)", "cache_size(-16000)", "temp_store(2)") {
		q.Add("_pragma", p)
	}
	return "file:" + file + "?" + q.Encode() + more
}

func sqlitePool(file, more string, connections int, pragmas ...string) (*sql.DB, error) {
	pool, err := sql.Open("sqlite", sqliteName(file, more, pragmas...))
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// checkpointPages is how long SQLite's log gets before checkpoint brings it into the file. A writer
// that never calls checkpoint does so in its commit, at four times as many pages: reading gets
// slower as the log gets longer. That also bounds the log beside steady writers. SQLite begins it
// again only where all of it is in the file, which a checkpoint beside writers never achieves.
const checkpointPages = 1000

// checkpoint keeps SQLite's log short, beside the one that writes: in a commit, everybody would
// wait for it. Best effort, as SQLite's own is.
func (d *db) checkpoint(ctx context.Context) {
	if d.wal == nil || !d.checkpoints.TryLock() {
		return
	}
	defer d.checkpoints.Unlock()
	var busy, pages, done int
	if err := d.wal.QueryRowContext(ctx, `PRAGMA wal_checkpoint(NOOP)`).Scan(&busy, &pages, &done); err == nil && pages-done >= checkpointPages {
		_, _ = d.wal.ExecContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`)
	}
}

// becomeWAL makes the first connection. Where several open a new file at the same time, its change
// to WAL mode does not wait for the others as everything later does, because busy_timeout does not
// cover it. SQLite refuses the change, and it is asked again.
func becomeWAL(pool *sql.DB) error {
	const patience, again = 30 * time.Second, 20 * time.Millisecond
	for begun := time.Now(); ; <-time.After(again) {
		err := pool.PingContext(context.Background()) // opening has no end of its own but patience
		var lite *sqlite.Error
		if busy := errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_BUSY; !busy || time.Since(begun) > patience {
			return translate("open the file", err)
		}
	}
}
