package ledger

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
)

// Options guide Open. The zero value is right for tests and small services.
type Options struct {
	// Bucket keeps output that is too large for the database. Close closes it. Nil keeps all
	// output in the database, which then refuses what is over MaxInlineOutput.
	Bucket *blob.Bucket
	// Connections is how many may be open: of SQLite to read, of PostgreSQL in all. 8 when zero.
	Connections int
	// Keyring encrypts what is stored of runs and their jobs, documents and output. Nil encrypts
	// nothing; a ledger that is encrypted is then core.ErrInvalid, unless Blind.
	Keyring *keyring.Ring
	// Blind opens an encrypted ledger without its ring: counts and the audit log can be read, and what
	// is encrypted cannot.
	Blind bool
	// Private is set for the record of one person's own runs: it writes no audit log, which its owner
	// could change anyway and which could not be pruned, and no news, because nothing sends them.
	Private bool
	// Broken gets the error when the storage refuses a write: it is full, read-only, damaged or gone,
	// and trying again will not help. Nil: nobody asks. It must not block.
	Broken func(error)
}

// Ledger is the open record. See the package comment for what its methods promise.
type Ledger struct {
	db      *db
	bucket  *blob.Bucket
	ring    *keyring.Ring
	hosts   hostCache
	private bool
	now     func() time.Time
	close   sync.Once
}

// Open opens the ledger at a URL, `sqlite:PATH` or `postgres://…`, and updates its tables to this
// program's version. It reads PostgreSQL's URLs as PostgreSQL's own programs do; a Unix socket is
// `postgres:///DB?host=/DIR`. For servers on other machines sslmode is verify-full. A weaker one is
// refused unless the URL has insecure=true.
//
// Several servers may open one ledger at the same time. A database that a newer program has changed
// is core.ErrInvalid; one that does not answer is core.ErrUnavailable.
func Open(ctx context.Context, url string, o Options) (*Ledger, error) {
	if o.Connections <= 0 {
		o.Connections = 8
	}
	d, err := connect(url, o.Connections)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", redact(url), err)
	}
	if err := d.migrate(ctx, latest); err != nil {
		d.close()
		return nil, fmt.Errorf("open ledger %s: %w", redact(url), damage(d.file, err))
	}
	d.broken = o.Broken
	l := &Ledger{db: d, bucket: o.Bucket, ring: o.Keyring, private: o.Private, now: time.Now}
	if o.Blind {
		return l, nil
	}
	if err := l.mark(ctx); err != nil {
		d.close()
		return nil, fmt.Errorf("open ledger %s: %w", redact(url), err)
	}
	return l, nil
}

// FileOf is the file of a ledger's URL; false where it names no file.
func FileOf(url string) (path string, ok bool) {
	path, ok = strings.CutPrefix(url, "sqlite:")
	return strings.TrimPrefix(path, "//"), ok
}

func connect(url string, connections int) (*db, error) {
	if path, ok := FileOf(url); ok {
		d, err := openSQLite(path, connections)
		return d, damage(path, err)
	}
	if url == Memory {
		return openMemory()
	}
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "postgres", "postgresql":
		return openPostgres(url, connections)
	}
	return nil, errScheme
}

var errScheme = fmt.Errorf("expected sqlite:PATH or postgres://USER@HOST/DATABASE: %w", core.ErrInvalid)

// Close ends all connections. Calls that are under way may fail.
func (l *Ledger) Close() error {
	var err error
	l.close.Do(func() {
		l.db.close()
		if l.bucket != nil {
			err = l.bucket.Close()
		}
	})
	return err
}

// Ping reports whether the database answers, for a health check; and after a write was refused,
// whether it takes writes again.
func (l *Ledger) Ping(ctx context.Context) error {
	if err := l.db.inPlace(); err != nil {
		return translate("ask the database", err)
	}
	if l.db.refused.Load() {
		return l.Writable(ctx)
	}
	var one int
	return translate("ask the database", l.db.row(ctx, `SELECT 1`).Scan(&one))
}

// redact hides the password of a URL, also one that was not escaped: what stands before the last @
// is shown as far as a user's name goes, and no query is shown.
func redact(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		if scheme, _, _ := strings.Cut(url, ":"); scheme == "sqlite" {
			return url
		}
		return "***" // as host=db password=…, which is no URL
	}
	user, at := "", strings.LastIndex(rest, "@")
	if at >= 0 {
		user, rest = rest[:at], rest[at+1:]
		if end := strings.IndexAny(user, ":/?"); end >= 0 {
			user = user[:end] + ":***"
		}
		user += "@"
	}
	rest, _, _ = strings.Cut(rest, "?") // a password may also be there
	return scheme + "://" + user + rest
}

// micros and fromMicros are how times are stored: microseconds since 1970, 0 for no time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// bound is micros of the border of a span of time: rounded up, so that what was stored as later
// stays later.
func bound(t time.Time) int64 { return micros(t.Add(time.Microsecond - 1)) }

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
