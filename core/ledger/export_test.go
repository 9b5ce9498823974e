package ledger

import (
	"context"
	"time"
)

// Raw runs SQL behind the ledger's back.
func (l *Ledger) Raw(ctx context.Context, sql string, args ...any) error {
	_, err := l.db.write.ExecContext(ctx, sql, args...)
	return err
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

// Connect opens a ledger without bringing its tables forward, as an earlier program would.
func Connect(url string) (*Ledger, error) {
	d, err := connect(url, 1)
	return &Ledger{db: d, now: time.Now}, err
}
