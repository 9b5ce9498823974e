package ledger

import (
	"context"
	"time"
)

// kindDuty is of the documents by which servers agree on who does a piece of work. They hold a name
// and a time only.
const kindDuty = "duty"

// Duty reports whether this server has a piece of work, by its name, for the time ttl: nobody else
// has it, by the database's clock. A server keeps it by calling Duty again in time. It serves work
// that two servers may do at the same time without harm, but should not.
func (l *Ledger) Duty(ctx context.Context, name, by string, ttl time.Duration) (mine bool, err error) {
	err = l.db.transact(ctx, "take the duty "+name, func(t *tx) error {
		d := Document{Kind: kindDuty, Name: name}
		if _, _, err := l.lockDocument(ctx, t, d); err != nil {
			return err
		}
		n, err := t.exec(ctx, `UPDATE documents SET who = $3, updated = `+t.now+` + $4, version = version + 1
			WHERE kind = $1 AND tenant = '' AND name = $2 AND (who = $3 OR updated < `+t.now+`)`, kindDuty, name, by, ttl.Microseconds())
		mine = n == 1
		return err
	})
	return mine, err
}
