package ledger

import (
	"context"
	"fmt"
	"hash/fnv"
)

// Marks are numbers by tenant that differ when what they are of has changed. The same record gives
// the same numbers on every server.
type Marks struct {
	Runs      map[string]uint64 // phase, outcomes and progress of runs that are not complete
	Schedules map[string]uint64
}

// Marks reads what lists of runs and schedules depend on, without reading the lists. A run that
// ends no longer counts, which changes the number of its tenant.
func (l *Ledger) Marks(ctx context.Context) (Marks, error) {
	runs, err := l.marks(ctx, `SELECT tenant, seq, version, recorded, progress FROM runs WHERE ended = 0`, 4)
	if err != nil {
		return Marks{}, translate("read what changed of runs", err)
	}
	schedules, err := l.marks(ctx, `SELECT tenant, name, version FROM schedules`, 2)
	return Marks{runs, schedules}, translate("read what changed of schedules", err)
}

// marks adds up the hashes of rows by their first column; so many others follow it. The order of
// rows does not matter.
func (l *Ledger) marks(ctx context.Context, query string, others int) (map[string]uint64, error) {
	rows, err := l.db.rows(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	sums := map[string]uint64{}
	var tenant string
	values := make([]string, others)
	into := []any{&tenant}
	for i := range values {
		into = append(into, &values[i])
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%q", values)
		sums[tenant] += h.Sum64()
	}
	return sums, rows.Err()
}
