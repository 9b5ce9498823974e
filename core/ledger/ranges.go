package ledger

import (
	"context"
	"slices"

	"github.com/turnus/turnus/core"
)

// jobRange is jobs in a row that ended together. Ranges of a run never overlap, and no job in
// one has a row of its own.
type jobRange struct {
	first, count int
	outcome      core.Outcome
	reason       string
	recorded     int64
}

func (j *jobRange) end() int { return j.first + j.count }

func scanRange(row scanner) (jobRange, error) {
	var j jobRange
	err := row.Scan(&j.first, &j.count, &j.outcome, &j.reason, &j.recorded)
	return j, err
}

const rangeColumns = `first, count, outcome, reason, recorded`

func readRanges(ctx context.Context, t *tx, seq int64) ([]jobRange, error) {
	rows, err := t.rows(ctx, `SELECT `+rangeColumns+` FROM ranges WHERE run = $1 ORDER BY first`, seq)
	return collect(rows, err, scanRange)
}

// covering is the range that a job is in, or nil. ranges are sorted by first.
func covering(ranges []jobRange, index int) *jobRange {
	i, found := slices.BinarySearchFunc(ranges, index, func(j jobRange, index int) int { return j.first - index })
	if !found {
		i--
	}
	if i < 0 || index >= ranges[i].end() {
		return nil
	}
	return &ranges[i]
}

func (r *recording) covering(index int) *jobRange { return covering(r.ranges, index) }

// rangeOf records the jobs of o that have no outcome, as one range for each gap between those that
// have.
func (r *recording) rangeOf(ctx context.Context, o *Outcome) error {
	end := o.Index + o.Count
	rows, err := r.t.rows(ctx, `SELECT idx FROM jobs WHERE run = $1 AND idx >= $2 AND idx < $3 ORDER BY idx`, r.run.seq, o.Index, end)
	taken, err := collect(rows, err, func(row scanner) (jobRange, error) {
		one := jobRange{count: 1}
		err := row.Scan(&one.first)
		return one, err
	})
	if err != nil {
		return err
	}
	taken = append(taken, r.ranges...)
	slices.SortFunc(taken, func(a, b jobRange) int { return a.first - b.first })
	next, added := o.Index, 0
	for _, t := range append(taken, jobRange{first: end}) {
		if to := min(t.first, end); to > next {
			if err := r.putRange(ctx, jobRange{first: next, count: to - next, outcome: o.Outcome, reason: cleanReason(o.Reason), recorded: r.now}); err != nil {
				return err
			}
			added += to - next
		}
		next = max(next, t.end())
	}
	r.count(o.Outcome, added)
	r.out.New += added
	slices.SortFunc(r.ranges, func(a, b jobRange) int { return a.first - b.first })
	return nil
}

func (r *recording) putRange(ctx context.Context, j jobRange) error {
	r.ranges = append(r.ranges, j)
	r.run.ranges++
	_, err := r.t.exec(ctx, `INSERT INTO ranges (run, `+rangeColumns+`) VALUES ($1, $2, $3, $4, $5, $6)`,
		r.run.seq, j.first, j.count, string(j.outcome), j.reason, j.recorded)
	return err
}
