package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/turnus/turnus/core"
)

// translate turns an error of a database into one of core, with what was being done.
func translate(what string, err error) error {
	if err == nil {
		return nil
	}
	if hint := tlsHint(err); hint != "" {
		return fmt.Errorf("%s: %w: %s", what, core.ErrUnavailable, hint)
	}
	if kind := classify(err); kind != nil {
		return fmt.Errorf("%s: %w: %w", what, kind, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// translateCommit is translate for a commit: where no answer came, nobody knows whether it
// happened.
func translateCommit(ctx context.Context, what string, err error) error {
	var refused *pgconn.PgError
	var lite *sqlite.Error
	if errors.As(err, &refused) || errors.As(err, &lite) {
		return translate(what, err) // an answer: it did not happen
	}
	if errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil { // it was rolled back when ctx ended
		return translate(what, ctx.Err())
	}
	return fmt.Errorf("%s: %w: %w", what, core.ErrUnknown, err)
}

// classify is nil for what needs no error of core: it is one, or the context's, or a fault of this
// program.
func classify(err error) error {
	for _, known := range []error{core.ErrNotFound, core.ErrConflict, core.ErrInvalid, core.ErrUnavailable, core.ErrUnknown, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return nil
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		return core.ErrNotFound
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		return classifySQLite(lite.Code())
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyPostgres(pg.Code)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, sql.ErrConnDone) || pgconn.SafeToRetry(err) {
		return core.ErrUnavailable
	}
	return nil
}

func classifySQLite(code int) error {
	switch code & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM:
		return core.ErrUnavailable
	case sqlite3.SQLITE_INTERRUPT:
		return context.Canceled
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOTADB:
		return core.ErrInvalid
	case sqlite3.SQLITE_CONSTRAINT:
		switch code {
		case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_TRIGGER:
			return core.ErrConflict
		}
		return core.ErrInvalid
	}
	return nil
}

// DamagedError is the error of a ledger's file that is no database, or one that SQLite cannot read.
type DamagedError struct {
	File string
	Err  error
}

func (e *DamagedError) Error() string { return "the file is damaged: " + e.Err.Error() }

// Unwrap makes it core.ErrInvalid.
func (e *DamagedError) Unwrap() []error { return []error{core.ErrInvalid, e.Err} }

// damage returns a DamagedError for SQLite's error about such a file, and other errors as they are.
func damage(file string, err error) error {
	if lite, ok := errors.AsType[*sqlite.Error](err); ok && file != "" {
		if code := lite.Code() & 0xff; code == sqlite3.SQLITE_NOTADB || code == sqlite3.SQLITE_CORRUPT {
			return &DamagedError{File: file, Err: lite}
		}
	}
	return err
}

// errMoved is core.ErrUnavailable: the file may come back.
var errMoved = fmt.Errorf("the file was removed or replaced while it was open: what is written would be lost: put it back, or stop all processes that use it and start them again: %w", core.ErrUnavailable)

// storageBroken reports whether a file of SQLite refuses to be written, and will again.
func storageBroken(err error) bool {
	lite, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return errors.Is(err, errMoved)
	}
	switch lite.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return false
}

// classifyPostgres goes by https://www.postgresql.org/docs/current/errcodes-appendix.html.
func classifyPostgres(code string) error {
	switch code {
	case "23505", "TU001": // unique_violation; ours: the audit log's guard
		return core.ErrConflict
	case "25006", "55P03", "57014": // read_only_sql_transaction, lock_not_available, query_canceled
		return core.ErrUnavailable
	}
	if len(code) < 2 {
		return nil
	}
	switch code[:2] {
	case "22", "23", "54": // data, integrity, limits
		return core.ErrInvalid
	case "08", "40", "53", "57", "58": // connection, rollback, resources, operator, system
		return core.ErrUnavailable
	}
	return nil
}

// clean makes text that both databases store: UTF-8 without NUL, cut to at most max bytes.
func clean(s string, max int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) > max {
		s = strings.ToValidUTF8(s[:max], "")
	}
	return s
}

// cleanReason is a reason as columns have it.
func cleanReason(r core.Reason) string {
	return string(core.Because(r.Code(), clean(r.Text(), maxText)))
}
