package ledger

import (
	"context"
	"errors"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// RefusedError is the error of a database that answers and takes no writes: it is full or
// read-only, or its disk fails. It is core.ErrUnavailable, and nothing was written.
type RefusedError struct {
	Err  error
	Hint string // what ends it
}

func (e *RefusedError) Error() string { return e.Err.Error() + "\nhint: " + e.Hint }

func (e *RefusedError) Unwrap() error { return e.Err }

const (
	hintFull     = "make room on the disk of the ledger, then repeat this; nothing was written"
	hintReadOnly = "the ledger is read-only: give the URL of the primary, or allow writes; then repeat this"
	hintDisk     = "check the disk of the ledger and its file system (dmesg), then repeat this"
)

// refusalHint is empty for an error that does not show whether the database takes writes.
func refusalHint(err error) string {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		switch lite.Code() & 0xff {
		case sqlite3.SQLITE_FULL:
			return hintFull
		case sqlite3.SQLITE_READONLY:
			return hintReadOnly
		case sqlite3.SQLITE_IOERR:
			return hintDisk
		}
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "53100": // disk_full
			return hintFull
		case "25006": // read_only_sql_transaction
			return hintReadOnly
		case "58030": // io_error
			return hintDisk
		}
	}
	if errors.Is(err, syscall.EROFS) {
		return hintDisk
	}
	return ""
}

// refusal makes a RefusedError of such an error, and leaves others as they are.
func refusal(err error) error {
	if hint := refusalHint(err); hint != "" {
		return &RefusedError{Err: err, Hint: hint}
	}
	return err
}

// Writable reports whether the database takes writes: it writes a row and removes it, in one
// transaction. A database that takes none is a RefusedError.
func (l *Ledger) Writable(ctx context.Context) error {
	err := l.db.transact(ctx, "write to the ledger", func(t *tx) error {
		if _, err := t.exec(ctx, `INSERT INTO migrations (version, applied) VALUES (0, 0)`); err != nil {
			return err
		}
		_, err := t.exec(ctx, `DELETE FROM migrations WHERE version = 0`)
		return err
	})
	if err == nil {
		l.db.refused.Store(false)
	}
	return err
}
