package ledger

import (
	"context"
	"slices"

	"github.com/turnus/turnus/core"
)

// Ended is Count jobs in a row, from Index on, that have one outcome.
type Ended struct {
	Index, Count int
	Outcome      core.Outcome
}

// Ended lists the jobs of a run that have an outcome, by index, as few stretches as they are: what
// a queue that was lost need not do again. It is for the service.
func (l *Ledger) Ended(ctx context.Context, id string) ([]Ended, error) {
	var list []Ended
	err := l.db.transact(ctx, "read the outcomes of run "+clean(id, maxID), func(t *tx) error {
		run, err := scanRun(t.row(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1`, id))
		if none(err) {
			return noRun(id)
		}
		if err != nil {
			return err
		}
		rows, err := t.rows(ctx, `SELECT idx, outcome FROM jobs WHERE run = $1 ORDER BY idx`, run.seq)
		single, err := collect(rows, err, func(row scanner) (Ended, error) {
			e := Ended{Count: 1}
			return e, row.Scan(&e.Index, &e.Outcome)
		})
		if err != nil {
			return err
		}
		ranges, err := readRanges(ctx, t, run.seq)
		list = stretches(single, ranges)
		return err
	})
	return list, err
}

// stretches joins rows of single jobs with ranges. No job is in two.
func stretches(single []Ended, ranges []jobRange) []Ended {
	list := slices.Clone(single)
	for _, r := range ranges {
		list = append(list, Ended{r.first, r.count, r.outcome})
	}
	slices.SortFunc(list, func(a, b Ended) int { return a.Index - b.Index })
	out := list[:0]
	for _, e := range list {
		if n := len(out); n > 0 && out[n-1].Outcome == e.Outcome && out[n-1].Index+out[n-1].Count == e.Index {
			out[n-1].Count += e.Count
			continue
		}
		out = append(out, e)
	}
	return out
}
