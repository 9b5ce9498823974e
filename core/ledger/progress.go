package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// RunsOf reads many runs in one call, for the service. Those that are not in the ledger are
// left out; the order is none.
func (l *Ledger) RunsOf(ctx context.Context, ids []string) ([]Run, error) {
	rows, err := l.db.rows(ctx, `SELECT `+runColumns+` FROM runs WHERE id `+fmt.Sprintf(l.db.anyOf, "$1"), l.db.list(ids))
	runs, err := collect(rows, err, scanRun)
	return runs, translate("read runs", err)
}

// Ending lists runs that were cancelled and are not complete: their queue has to know of it.
func (l *Ledger) Ending(ctx context.Context) ([]Run, error) {
	rows, err := l.db.rows(ctx, `SELECT `+runColumns+` FROM runs WHERE ended = 0 AND phase = 'cancelled' LIMIT $1`, MaxPage)
	runs, err := collect(rows, err, scanRun)
	return runs, translate("list runs that are being cancelled", err)
}

// SetProgress keeps how far the engine has come with runs that are not complete, by their ids.
func (l *Ledger) SetProgress(ctx context.Context, progress map[string]string) error {
	if len(progress) == 0 {
		return nil
	}
	rows := make([][]any, 0, len(progress))
	for _, id := range slices.Sorted(maps.Keys(progress)) {
		rows = append(rows, []any{clean(id, maxText), progress[id]})
	}
	return l.db.transact(ctx, "keep how far runs have come", func(t *tx) error {
		return t.set(ctx, columns{"id text", "progress text"}, `, locked AS (SELECT r.seq, u.progress FROM u CROSS JOIN runs r
			WHERE r.id = u.id AND r.ended = 0 ORDER BY r.id`+t.forUpdate+`) UPDATE runs SET progress = locked.progress FROM locked WHERE runs.seq = locked.seq`, rows, nil)
	})
}

// KeepExpected keeps what was expected of a run at its launch. The first text stays.
func (l *Ledger) KeepExpected(ctx context.Context, run, expected string) error {
	return l.db.transact(ctx, "keep what is expected of run "+run, func(t *tx) error {
		_, err := t.exec(ctx, `UPDATE runs SET expected = $2 WHERE id = $1 AND expected = ''`, run, expected)
		return err
	})
}
