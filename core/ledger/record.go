package ledger

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
)

// ready is an outcome with what takes time to make of it, so that the one writer has not to wait for that.
type ready struct {
	*Outcome
	reason string // as the column has it, of the outcome's life()
	detail []byte // of the same, packed and sealed
}

// life is the one that an outcome is of, or the first where it does not say.
func (o *Outcome) life() int { return max(o.Life, 0) }

// remaining is what of a batch is not recorded yet.
type remaining struct {
	*Batch
	outcomes []ready
	out      *Recorded
}

func (l *Ledger) remainingOf(b *Batch, out *Recorded) *remaining {
	m := &remaining{Batch: b, outcomes: make([]ready, len(b.Outcomes)), out: out}
	run := clean(b.Run, maxText)
	for i := range b.Outcomes {
		o := &b.Outcomes[i]
		m.outcomes[i] = ready{Outcome: o, reason: l.storedReason(o, run, o.life()), detail: l.storedDetail(o, run, o.life())}
	}
	return m
}

func (l *Ledger) storedReason(o *Outcome, run string, life int) string {
	return l.sealReason(clean(o.Reason, maxText), run, o.Index, life, o.Attempt)
}

func (l *Ledger) storedDetail(o *Outcome, run string, life int) []byte {
	return l.seal(o.Detail, tryPlace(detailOf, run, o.Index, life, o.Attempt)...)
}

// whole tells whether the batch has to be recorded at once: NextLife would count again what was recorded before a crash.
func (m *remaining) whole() bool {
	for i := range m.outcomes {
		if m.outcomes[i].Life == NextLife {
			return true
		}
	}
	return false
}

// recordGroup records batches in one transaction, and in more where others wait for their turn. After an error, what it said of them counts for nothing.
func (l *Ledger) recordGroup(ctx context.Context, group []*remaining) error {
	for len(group) > 0 {
		done := 0
		err := l.db.transact(ctx, "record outcomes", func(t *tx) error {
			for _, m := range group {
				if err := l.recordOne(ctx, t, m); err != nil {
					return fmt.Errorf("of run %s: %w", m.Run, err)
				}
				if len(m.outcomes) > 0 {
					break
				}
				if done++; t.yields() {
					break
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		group = group[done:]
		l.db.checkpoint(ctx)
	}
	return nil
}

// recording is one batch on its way.
type recording struct {
	*Ledger
	t      *tx
	run    Run
	hosts  []JobHost
	ranges []jobRange // of the run, by first
	now    int64
	counts map[core.Outcome]int // changes
	out    *Recorded
}

// recordOne records a batch, or as much of it as the writer's turn lasts for. What it leaves stays among the batch's outcomes.
func (l *Ledger) recordOne(ctx context.Context, t *tx, m *remaining) error {
	run, err := lockRun(ctx, t, m.Run)
	if none(err) {
		m.out.Err, m.outcomes = noRun(m.Run), nil
		return nil
	}
	if err != nil {
		return err
	}
	r := &recording{Ledger: l, t: t, run: run, now: micros(l.now()), counts: map[core.Outcome]int{}, out: m.out}
	r.out.Position = run.Position
	if r.out.Err = m.check(&run); r.out.Err != nil {
		m.outcomes = nil
		return nil //nolint:nilerr // it is of this batch alone
	}
	return r.all(ctx, m)
}

// all records what is left of a batch that was found right, for as long as the writer's turn lasts.
func (r *recording) all(ctx context.Context, m *remaining) (err error) {
	if r.hosts, err = r.hostsOf(ctx, r.t.scanner, &r.run); err != nil {
		return err
	}
	if r.run.ranges > 0 {
		if r.ranges, err = readRanges(ctx, r.t, r.run.seq); err != nil {
			return err
		}
	}
	step := len(m.outcomes)
	if r.t.turns && !m.whole() {
		step = turnStep
	}
	for len(m.outcomes) > 0 {
		n := min(step, len(m.outcomes))
		if err := r.outcomes(ctx, m.outcomes[:n]); err != nil {
			return err
		}
		if m.outcomes = m.outcomes[n:]; r.t.yields() {
			break
		}
	}
	if len(m.outcomes) > 0 {
		return r.finish(ctx, nil)
	}
	return r.finish(ctx, m.Cursor)
}

// lockRun reads a run and keeps others from changing it until the transaction ends.
func lockRun(ctx context.Context, t *tx, id string) (Run, error) {
	return scanRun(t.row(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1`+t.forUpdate, clean(id, maxText)))
}

// outcomes keeps the batch's order where it matters: what is new goes in at once, up to the
// next range or the next outcome of the same job.
func (r *recording) outcomes(ctx context.Context, all []ready) error {
	fresh, seen := make([]*ready, 0, len(all)), make(map[int]bool, len(all))
	flush := func() error {
		known, err := r.insert(ctx, fresh)
		for _, o := range known {
			if err == nil {
				err = r.again(ctx, o)
			}
		}
		fresh = fresh[:0]
		clear(seen)
		return err
	}
	for i := range all {
		o := &all[i]
		if o.Count <= 1 && !seen[o.Index] {
			seen[o.Index] = true
			fresh = append(fresh, o)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if o.Count > 1 {
			if err := r.rangeOf(ctx, o.Outcome); err != nil {
				return err
			}
			continue
		}
		seen[o.Index] = true
		fresh = append(fresh, o)
	}
	return flush()
}

// insert adds the outcomes of jobs that have none, and returns the others.
func (r *recording) insert(ctx context.Context, all []*ready) (known []*ready, err error) {
	rows := make([]*ready, 0, len(all))
	for _, o := range all {
		if r.covering(o.Index) != nil {
			known = append(known, o)
			continue
		}
		rows = append(rows, o)
	}
	if len(rows) == 0 {
		return known, nil
	}
	added, err := r.t.insert(ctx, r.t, r, rows)
	if err != nil {
		return nil, err
	}
	for i, o := range rows {
		if !added[i] {
			known = append(known, o)
			continue
		}
		r.count(o.Outcome.Outcome, 1)
		r.out.New++
		if err := r.handlers(ctx, o.Outcome); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// again takes the outcome of a job that has one, or waits for that of its next life.
func (r *recording) again(ctx context.Context, o *ready) error {
	var life int
	var had core.Outcome
	err := r.t.row(ctx, `SELECT life, outcome FROM jobs WHERE run = $1 AND idx = $2`, r.run.seq, o.Index).Scan(&life, &had)
	if none(err) { // it stands in a range, as its first life
		c := r.covering(o.Index)
		if c == nil || o.Life <= 0 {
			r.out.Known++
			return nil
		}
		r.count(c.outcome, -1)
		if _, err = r.t.insert(ctx, r.t, r, []*ready{o}); err != nil {
			return err
		}
		r.count(o.Outcome.Outcome, 1)
		r.out.New++
		return r.handlers(ctx, o.Outcome)
	}
	if err != nil {
		return err
	}
	next := o.Life
	switch {
	case next == NextLife && had != "":
		next = life + 1
	case next < 0:
		next = life
	}
	if next < life || next == life && had != "" {
		r.out.Known++
		return nil
	}
	if had != "" {
		if err := archive(ctx, r.t, r.run.seq, o.Index); err != nil {
			return err
		}
		r.count(had, -1)
	}
	r.count(o.Outcome.Outcome, 1)
	r.out.New++
	if err := r.handlers(ctx, o.Outcome); err != nil {
		return err
	}
	_, err = r.t.exec(ctx, `UPDATE jobs SET life = $3, outcome = $4, reason = $5, step = $6, attempt = $7, worker = $8, started = $9, took = $10, recorded = $11
		WHERE run = $1 AND idx = $2`, append([]any{r.run.seq, o.Index, next}, r.fields(o, next)...)...)
	if err != nil || len(o.Detail) == 0 {
		return err
	}
	return putAttempt(ctx, r.t, r.run.seq, o.Index, next, r.fields(o, next), r.detail(o, next))
}

// reason is stored of a job's outcome in one of its lives.
func (r *recording) reason(o *ready, life int) string {
	if life == o.life() {
		return o.reason
	}
	return r.storedReason(o.Outcome, r.run.ID, life)
}

// detail is the same of what the attempt left.
func (r *recording) detail(o *ready, life int) []byte {
	if life == o.life() {
		return o.detail
	}
	return r.storedDetail(o.Outcome, r.run.ID, life)
}

// fields are the columns outcome to recorded, of an outcome in one of the job's lives.
func (r *recording) fields(o *ready, life int) []any {
	return r.fieldsFor(o.Outcome, r.reason(o, life))
}

func (r *recording) fieldsFor(o *Outcome, reason string) []any {
	return []any{string(o.Outcome), reason, clean(o.Step, maxID), o.Attempt, clean(o.Worker, maxID), micros(o.Started), o.Took.Microseconds(), r.now}
}

func (r *recording) count(o core.Outcome, n int) { r.counts[o] += n }

// finish brings the run's row up to what was recorded.
func (r *recording) finish(ctx context.Context, c *Cursor) error {
	run := &r.run
	for o, n := range r.counts {
		run.Outcomes[o] += n
		run.Recorded += n
	}
	ended := micros(run.Ended)
	if run.Recorded == run.Total && ended == 0 {
		ended = r.now
		switch run.Phase {
		case PhaseStopped, PhaseCancelled:
		default:
			run.Phase = PhaseFinished
		}
	}
	if ended != 0 && run.Ended.IsZero() {
		if err := r.happened(ctx, r.t, run, HappenedEnded, ""); err != nil {
			return err
		}
	}
	if c != nil {
		run.Position = c.To
	}
	r.out.Position, r.out.Complete = run.Position, ended != 0
	run.Ended = fromMicros(ended)
	r.out.Run = *run
	n := func(o core.Outcome) int { return run.Outcomes[o] }
	_, err := r.t.exec(ctx, `UPDATE runs SET recorded = $2, ended = $3, phase = $4, ranges = $5, position = $6, unchanged = $7, changed = $8, skipped = $9,
		rolled_back = $10, failed = $11, unreachable = $12, lost = $13, cancelled = $14 WHERE seq = $1`,
		run.seq, run.Recorded, ended, string(run.Phase), run.ranges, run.Position, n(core.Unchanged), n(core.Changed), n(core.Skipped),
		n(core.RolledBack), n(core.Failed), n(core.Unreachable), n(core.Lost), n(core.Cancelled))
	return err
}
