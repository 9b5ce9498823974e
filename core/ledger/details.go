package ledger

import (
	"context"
	"slices"

	"github.com/turnus/turnus/core"
)

// detailGap is how many details between two wanted ones are read rather than skipped.
const detailGap = 16

// Details hands what was recorded of jobs of a run to each, by index, one at a time. Jobs without a
// record are left out. It is for the service: the caller has read the run in a scope.
func (l *Ledger) Details(ctx context.Context, run *Run, indexes []int, use func(index int, detail []byte) error) error {
	indexes = slices.Sorted(slices.Values(indexes))
	for len(indexes) > 0 {
		n := 1
		for n < len(indexes) && indexes[n]-indexes[n-1] <= detailGap {
			n++
		}
		if err := l.detailsOf(ctx, run, indexes[:n], use); err != nil {
			return translate("read the details of run "+run.ID, err)
		}
		indexes = indexes[n:]
	}
	return nil
}

// detailsOf reads indexes that are near each other.
func (l *Ledger) detailsOf(ctx context.Context, run *Run, indexes []int, use func(index int, detail []byte) error) error {
	rows, err := l.db.rows(ctx, `SELECT a.idx, a.attempt, a.detail FROM jobs j JOIN attempts a ON a.run = j.run AND a.idx = j.idx AND a.life = 0 AND a.attempt = j.attempt
		WHERE j.run = $1 AND j.idx >= $2 AND j.idx <= $3 AND j.outcome <> '' ORDER BY j.idx`, run.seq, indexes[0], indexes[len(indexes)-1])
	return each(rows, err, func(row scanner) error {
		id := core.JobID{Run: run.ID}
		var attempt int
		var packed []byte
		if err := row.Scan(&id.Index, &attempt, &packed); err != nil {
			return err
		}
		if _, wanted := slices.BinarySearch(indexes, id.Index); !wanted || len(packed) == 0 {
			return nil
		}
		detail, err := l.open(packed, tryPlace(detailOf, id.Run, id.Index, attempt)...)
		if err != nil {
			return err
		}
		return use(id.Index, detail)
	})
}
