package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnus/turnus/core"
)

// Finding is one broken promise of the record.
type Finding struct {
	Run      string `json:"run,omitempty"`
	What     string `json:"what"`
	Repaired bool   `json:"repaired"`
}

// Check returns broken promises: counts of runs that are not the outcomes that can be read, an
// ended run with jobs without an outcome or the other way round, and the audit log's chain. With
// repair, counts are taken from the outcomes; the audit log is never repaired. It reads every
// outcome of every run: minutes over millions of jobs. A sound record has no findings.
func (l *Ledger) Check(ctx context.Context, repair bool) ([]Finding, error) {
	var all []Finding
	for after := int64(0); ; {
		rows, err := l.db.rows(ctx, `SELECT seq, id FROM runs WHERE seq > $1 ORDER BY seq LIMIT $2`, after, MaxPage)
		type run struct {
			seq int64
			id  string
		}
		runs, err := collect(rows, err, func(row scanner) (r run, err error) {
			err = row.Scan(&r.seq, &r.id)
			return r, err
		})
		if err != nil {
			return nil, translate("check the ledger", err)
		}
		for _, r := range runs {
			after = r.seq
			found, err := l.checkRun(ctx, r.id, repair)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		if len(runs) < MaxPage {
			break
		}
	}
	if _, err := l.VerifyAudit(ctx); errors.Is(err, ErrTampered) {
		all = append(all, Finding{What: err.Error()})
	} else if err != nil {
		return nil, err
	}
	return all, nil
}

func (l *Ledger) checkRun(ctx context.Context, id string, repair bool) (found []Finding, _ error) {
	err := l.db.transact(ctx, "check run "+id, func(t *tx) error {
		run, err := lockRun(ctx, t, id)
		if none(err) {
			return nil // pruned meanwhile
		}
		if err != nil {
			return err
		}
		counts, whole, err := countOutcomes(ctx, t, run.seq)
		if err != nil || !whole {
			return err
		}
		sum := 0
		for _, o := range core.Outcomes() {
			sum += counts[o]
			if counts[o] != run.Outcomes[o] {
				found = append(found, Finding{Run: id, What: fmt.Sprintf("counts %d jobs as %s, %d can be read", run.Outcomes[o], o, counts[o])})
			}
		}
		if sum != run.Recorded {
			found = append(found, Finding{Run: id, What: fmt.Sprintf("counts %d outcomes, %d can be read", run.Recorded, sum)})
		}
		if run.Complete() != (sum == run.Total) {
			found = append(found, Finding{Run: id, What: fmt.Sprintf("has %d of %d outcomes, and is %s", sum, run.Total, run.Phase)})
		}
		if len(found) == 0 || !repair {
			return nil
		}
		r := &recording{Ledger: l, t: t, run: run, now: micros(l.now()), counts: map[core.Outcome]int{}, out: &Recorded{}}
		for _, o := range core.Outcomes() {
			r.count(o, counts[o]-run.Outcomes[o])
		}
		if sum < run.Total && run.Complete() {
			r.run.Ended = fromMicros(0)
			if run.Phase == PhaseFinished {
				r.run.Phase = PhaseActive
			}
		}
		// finish adds the differences; Recorded has one of its own.
		r.run.Recorded = 0
		for _, n := range run.Outcomes {
			r.run.Recorded += n
		}
		for i := range found {
			found[i].Repaired = true
		}
		return l.finish(ctx, t, []*recording{r})
	})
	return found, err
}

// countOutcomes reads every outcome of a run; whole is false for a run that is being pruned.
func countOutcomes(ctx context.Context, t *tx, seq int64) (counts map[core.Outcome]int, whole bool, err error) {
	var n int
	if err := t.row(ctx, `SELECT count(*) FROM materials WHERE run = $1`, seq).Scan(&n); err != nil || n == 0 {
		return nil, false, err
	}
	rows, err := t.rows(ctx, `SELECT outcome, count(*) FROM jobs WHERE run = $1 GROUP BY outcome
		UNION ALL SELECT outcome, sum(count) FROM ranges WHERE run = $1 GROUP BY outcome`, seq)
	type part struct {
		o core.Outcome
		n int
	}
	parts, err := collect(rows, err, func(row scanner) (p part, err error) {
		err = row.Scan(&p.o, &p.n)
		return p, err
	})
	counts = map[core.Outcome]int{}
	for _, p := range parts {
		counts[p.o] += p.n
	}
	return counts, true, err
}
