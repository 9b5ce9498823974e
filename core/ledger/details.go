package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/turnus/turnus/core"
)

// detailGap is how many details between two wanted ones are read rather than skipped.
const detailGap = 16

// Details hands what was recorded of jobs of a run to each, by index, one at a time. Jobs without a
// record are left out; unreadable is why one cannot be opened. It is for the service: the caller
// has read the run in a scope.
func (l *Ledger) Details(ctx context.Context, run *Run, indexes []int, use func(index int, detail []byte, unreadable error) error) error {
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
func (l *Ledger) detailsOf(ctx context.Context, run *Run, indexes []int, use func(index int, detail []byte, unreadable error) error) error {
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
		return use(id.Index, detail, err)
	})
}

// JobDetail is a job with what was recorded with its outcome; nil where nothing was. Unreadable is
// why the record cannot be opened.
type JobDetail struct {
	Job
	Detail     []byte
	Unreadable error
}

// JobDetails reads jobs of a run, by index, in two queries at most: those of these indexes that
// have an outcome. It is for the service: the caller has read the run in a scope.
func (l *Ledger) JobDetails(ctx context.Context, run *Run, indexes []int) (map[int]JobDetail, error) {
	texts := make([]string, len(indexes))
	for i, index := range indexes {
		texts[i] = strconv.Itoa(index)
	}
	all := make(map[int]JobDetail, len(indexes))
	rows, err := l.db.rows(ctx, `SELECT a.detail, `+jobReads+` FROM jobs j LEFT JOIN attempts a ON a.run = j.run AND a.idx = j.idx AND a.life = 0 AND a.attempt = j.attempt
		WHERE j.run = $1 AND j.outcome <> '' AND j.idx `+fmt.Sprintf(l.db.anyIndex, "$2"), run.seq, l.db.list(texts))
	err = each(rows, err, func(row scanner) error {
		d := JobDetail{Job: Job{JobID: core.JobID{Run: run.ID}, Playbook: run.Playbook, seq: run.seq}}
		if err := scanJob(row, &d.Job, &d.Detail); err != nil {
			return err
		}
		l.readable(&d.Job)
		d.Detail, d.Unreadable = l.open(d.Detail, tryPlace(detailOf, run.ID, d.Index, d.Attempt)...)
		all[d.Index] = d
		return nil
	})
	if err == nil && len(all) < len(indexes) && run.ranges > 0 {
		err = l.addRanges(ctx, run, indexes, all)
	}
	return all, translate("read jobs of run "+run.ID, err)
}

// addRanges adds the jobs that ended in a range.
func (l *Ledger) addRanges(ctx context.Context, run *Run, indexes []int, all map[int]JobDetail) error {
	rows, err := l.db.rows(ctx, `SELECT `+rangeColumns+` FROM ranges WHERE run = $1 ORDER BY first`, run.seq)
	ranges, err := collect(rows, err, scanRange)
	for _, index := range indexes {
		in := covering(ranges, index)
		if _, has := all[index]; has || in == nil {
			continue
		}
		j := Job{JobID: core.JobID{Run: run.ID, Index: index}, Playbook: run.Playbook, Outcome: in.outcome, Recorded: fromMicros(in.recorded), seq: run.seq}
		j.because(in.reason)
		all[index] = JobDetail{Job: j}
	}
	return err
}
