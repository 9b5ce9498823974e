package ledger

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// latest asks migrate for all there is.
const latest = 1 << 30

// migration is one step of the tables: a file NNNN_name.sql for both databases, or
// NNNN_name.sqlite.sql and NNNN_name.postgres.sql.
type migration struct {
	version int
	text    string
}

// migrations lists those of a dialect, in order. A released one is never edited.
func migrations(dialect string) ([]migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []migration
	for _, name := range names {
		base := strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql")
		if stem, other, ok := strings.Cut(base, "."); ok && other != dialect {
			continue
		} else if ok {
			base = stem
		}
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %s: expected NNNN_name: %w", name, err)
		}
		if n := len(all); n > 0 && all[n-1].version == version {
			return nil, fmt.Errorf("migration %s: another one has number %d: %w", name, version, core.ErrInvalid)
		}
		text, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, migration{version, string(text)})
	}
	return all, nil
}

// migrate brings the tables to a version, in one transaction under a lock, so that of several
// servers that start at the same time one does it and the others find it done.
func (d *db) migrate(ctx context.Context, to int) error {
	all, err := migrations(d.name)
	if err != nil {
		return err
	}
	return d.transact(ctx, "migrate", func(t *tx) error { return t.migrate(ctx, all, to) })
}

func (t *tx) migrate(ctx context.Context, all []migration, to int) error {
	if t.lock != "" {
		if _, err := t.exec(ctx, t.lock); err != nil {
			return err
		}
	}
	if _, err := t.exec(ctx, `CREATE TABLE IF NOT EXISTS migrations (version BIGINT PRIMARY KEY, applied BIGINT NOT NULL)`); err != nil {
		return err
	}
	var have int
	if err := t.row(ctx, `SELECT coalesce(max(version), 0) FROM migrations`).Scan(&have); err != nil {
		return err
	}
	if last := all[len(all)-1].version; have > last {
		return fmt.Errorf("the database has tables of version %d, this program knows %d: use the newer turnus: %w", have, last, core.ErrInvalid)
	}
	for _, m := range all {
		if m.version <= have || m.version > to {
			continue
		}
		if _, err := t.exec(ctx, t.schema.Replace(m.text)); err != nil {
			return fmt.Errorf("to version %d: %w", m.version, err)
		}
		if _, err := t.exec(ctx, `INSERT INTO migrations (version, applied) VALUES ($1, `+t.now+`)`, m.version); err != nil {
			return err
		}
	}
	return nil
}

// Version is that of the tables that this program makes.
func Version() int {
	all, err := migrations("sqlite")
	if err != nil || len(all) == 0 {
		return 0 // they are part of the program
	}
	return all[len(all)-1].version
}
