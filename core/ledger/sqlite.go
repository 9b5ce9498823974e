package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
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
		byOutcome: " INDEXED BY jobs_outcome",
		prepare:   true,
		insert:    insertOneByOne,
	}
}

// openSQLite opens a file. One connection writes, since SQLite has one writer anyway and a queue
// in this process is fairer than its busy handler; that one is for other processes.
// synchronous=FULL: in WAL mode NORMAL would lose the last commits with the machine's power.
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
		return nil, fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	_ = f.Close()

	open := func(n int, pragmas ...string) (*sql.DB, error) {
		q := url.Values{"_txlock": {"immediate"}}
		for _, p := range append([]string{"busy_timeout(30000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "cache_size(-16000)", "temp_store(2)"}, pragmas...) {
			q.Add("_pragma", p)
		}
		pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
		if err != nil {
			return nil, err
		}
		pool.SetMaxOpenConns(n)
		pool.SetMaxIdleConns(n)
		return pool, nil
	}
	d := &db{dialect: sqliteDialect()}
	if d.write, err = open(1); err != nil {
		return nil, err
	}
	if err := becomeWAL(d.write); err != nil {
		_ = d.write.Close()
		return nil, err
	}
	if d.read, err = open(connections, "query_only(1)"); err != nil {
		_ = d.write.Close()
		return nil, err
	}
	return d, nil
}

// becomeWAL makes the first connection. Where several open a new file at once, its change to WAL mode does not wait for the
// others as everything later does (busy_timeout does not cover it): it is refused, and asked again.
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
