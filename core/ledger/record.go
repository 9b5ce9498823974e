package ledger

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
)

// ready is an outcome with the columns prepared outside the write lock.
type ready struct {
	*Outcome
	of     *recording
	reason string // as the column has it
	detail []byte // packed and encrypted
	facts  []byte // as they are stored, but not encrypted; nil: none
}

// remaining is the part of a batch that is not recorded yet.
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
		m.outcomes[i] = ready{
			Outcome: o,
			reason:  l.encryptReason(cleanReason(o.Reason), run, o.Index, o.Attempt),
			detail:  l.encrypt(o.Detail, tryPlace(detailOf, run, o.Index, o.Attempt)...),
			facts:   encodeFacts(o.Facts),
		}
	}
	return m
}

// recordGroup records batches in one transaction, and in more where others wait for their turn.
// After an error, the results of the transaction do not count.
func (l *Ledger) recordGroup(ctx context.Context, group []*remaining) error {
	for len(group) > 0 {
		rest := group
		err := l.db.transact(ctx, "write outcomes", func(t *tx) error {
			for rest = group; len(rest) > 0; {
				part := rest[:partOf(t, rest)]
				if err := l.recordPart(ctx, t, part); err != nil {
					return err
				}
				if len(part[len(part)-1].outcomes) > 0 { // the transaction is full
					rest = rest[len(part)-1:]
					return nil
				}
				if rest = rest[len(part):]; t.yields() {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		group = rest
		l.db.checkpoint(ctx)
	}
	return nil
}

// partOf is how many batches the next statements take together: of one run each, and where writers
// take turns of no more outcomes than fit between two checks of the clock. A larger one goes alone.
func partOf(t *tx, group []*remaining) int {
	outcomes := 0
	for i, m := range group {
		outcomes += len(m.outcomes)
		if i > 0 && (t.turns && outcomes > turnStep || m.Run == group[i-1].Run) {
			return i
		}
	}
	return len(group)
}

// recording is one batch on its way.
type recording struct {
	*Ledger
	t      *tx
	m      *remaining
	run    Run
	hosts  []JobHost
	ranges []jobRange // of the run, by first
	now    int64
	counts map[core.Outcome]int // changes
	facts  []*ready             // outcomes with facts that count now
	out    *Recorded
}

// recordPart records batches of different runs, or as much of a single one as the writer's turn
// lasts for. The rest stays among the batch's outcomes.
func (l *Ledger) recordPart(ctx context.Context, t *tx, part []*remaining) error {
	all, err := l.beginPart(ctx, t, part)
	if err != nil {
		return err
	}
	for {
		step := takeStep(t, all)
		if err := recordOutcomes(ctx, t, step); err != nil {
			return err
		}
		if len(step) == 0 || t.yields() {
			return l.finish(ctx, t, all)
		}
	}
}

// takeStep takes what is recorded before the next check of the clock off the batches.
func takeStep(t *tx, all []*recording) (step []*ready) {
	for _, r := range all {
		n := len(r.m.outcomes)
		if t.turns {
			n = min(n, turnStep)
		}
		for i := range r.m.outcomes[:n] {
			step = append(step, &r.m.outcomes[i])
		}
		r.m.outcomes = r.m.outcomes[n:]
	}
	return step
}

// beginPart locks the runs of batches, and finds what is needed to record them. Those that were
// refused are not among them.
func (l *Ledger) beginPart(ctx context.Context, t *tx, part []*remaining) ([]*recording, error) {
	ids := make([]string, len(part))
	for i, m := range part {
		ids[i] = clean(m.Run, maxText)
	}
	runs, err := lockRuns(ctx, t, ids)
	if err != nil {
		return nil, err
	}
	all, now := make([]*recording, 0, len(part)), micros(l.now())
	for i, m := range part {
		run, ok := runs[ids[i]]
		if !ok {
			m.out.Err, m.outcomes = noRun(m.Run), nil
			continue
		}
		m.out.Position = run.Position
		if m.out.Err = m.check(&run); m.out.Err != nil {
			m.outcomes = nil
			continue
		}
		r := &recording{Ledger: l, t: t, m: m, run: run, now: now, counts: map[core.Outcome]int{}, out: m.out}
		for i := range m.outcomes {
			m.outcomes[i].of = r
		}
		if run.ranges > 0 {
			if r.ranges, err = readRanges(ctx, t, run.seq); err != nil {
				return nil, err
			}
		}
		all = append(all, r)
	}
	return all, l.readHosts(ctx, t, all)
}

// lockRun reads a run and keeps others from changing it until the transaction ends.
func lockRun(ctx context.Context, t *tx, id string) (Run, error) {
	return scanRun(t.row(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1`+t.forUpdate, clean(id, maxText)))
}

// lockRuns is lockRun of several, by id. Those that are not in the ledger are not in the answer.
func lockRuns(ctx context.Context, t *tx, ids []string) (map[string]Run, error) {
	runs := make(map[string]Run, len(ids))
	rows, err := t.rows(ctx, `SELECT `+runColumns+` FROM runs WHERE id `+fmt.Sprintf(t.anyOf, "$1")+` ORDER BY id`+t.forUpdate, t.list(ids))
	return runs, each(rows, err, func(row scanner) error {
		run, err := scanRun(row)
		runs[run.ID] = run
		return err
	})
}

// recordOutcomes keeps the order of each batch where it matters: new outcomes are inserted
// together, up to the next range or the next outcome of the same job.
func recordOutcomes(ctx context.Context, t *tx, all []*ready) error {
	type job struct {
		of    *recording
		index int
	}
	fresh, seen := make([]*ready, 0, len(all)), make(map[job]bool, len(all))
	flush := func() error {
		known, err := insertFresh(ctx, t, fresh)
		if err != nil {
			return err
		}
		fresh = fresh[:0]
		clear(seen)
		return countRepeated(ctx, t, known)
	}
	for _, o := range all {
		j := job{o.of, o.Index}
		if o.Count > 1 || seen[j] {
			if err := flush(); err != nil {
				return err
			}
		}
		if o.Count > 1 {
			if err := o.of.rangeOf(ctx, o.Outcome); err != nil {
				return err
			}
			continue
		}
		seen[j] = true
		fresh = append(fresh, o)
	}
	return flush()
}

// insertFresh adds the outcomes of jobs that have none, and returns the others.
func insertFresh(ctx context.Context, t *tx, all []*ready) (known []*ready, err error) {
	rows := make([]*ready, 0, len(all))
	for _, o := range all {
		if o.of.covering(o.Index) != nil {
			known = append(known, o)
			continue
		}
		rows = append(rows, o)
	}
	added, err := insertJobs(ctx, t, rows)
	if err != nil {
		return nil, err
	}
	for i, o := range rows {
		if !added[i] {
			known = append(known, o)
			continue
		}
		if err := o.of.counted(ctx, o); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// counted takes in that an outcome counts from now on.
func (r *recording) counted(ctx context.Context, o *ready) error {
	r.count(o.Outcome.Outcome, 1)
	r.out.New++
	if o.Facts != nil {
		r.facts = append(r.facts, o)
	}
	return r.handlers(ctx, o.Outcome)
}

// fields are the columns outcome to recorded.
func (r *recording) fields(o *ready) []any {
	return []any{string(o.Outcome.Outcome), o.reason, clean(o.Step, maxID), o.Attempt, clean(o.Worker, maxID), micros(o.Started), o.Took.Microseconds(), r.now}
}

func (r *recording) count(o core.Outcome, n int) { r.counts[o] += n }

// runRow lists the columns of a run that finish writes, seq first.
var runRow = columns{
	"seq bigint", "recorded bigint", "ended bigint", "phase text", "ranges bigint", "position text", "unchanged bigint", "changed bigint", "skipped bigint",
	"rolled_back bigint", "failed bigint", "unreachable bigint", "lost bigint", "cancelled bigint",
}

// finish brings the rows of runs up to what was recorded.
func (l *Ledger) finish(ctx context.Context, t *tx, all []*recording) error {
	var rows [][]any
	var ended []Happening
	for _, r := range all {
		if r.close() {
			ended = append(ended, ofRun(&r.run, HappenedEnded, ""))
		}
		rows = append(rows, r.row())
	}
	if err := l.reportAll(ctx, t, ended); err != nil {
		return err
	}
	if err := l.recordFacts(ctx, t, all); err != nil {
		return err
	}
	return t.set(ctx, runRow, `UPDATE runs SET recorded = u.recorded, ended = u.ended, phase = u.phase, ranges = u.ranges, position = u.position, unchanged = u.unchanged,
		changed = u.changed, skipped = u.skipped, rolled_back = u.rolled_back, failed = u.failed, unreachable = u.unreachable, lost = u.lost, cancelled = u.cancelled
		FROM u WHERE runs.seq = u.seq`, rows, nil)
}

// close makes the run what it is with the outcomes that were recorded, and reports whether that
// ended it.
func (r *recording) close() (ends bool) {
	run := &r.run
	for o, n := range r.counts {
		run.Outcomes[o] += n
		run.Recorded += n
	}
	if run.Recorded == run.Total && run.Ended.IsZero() {
		ends = true
		run.Ended = fromMicros(r.now)
		switch run.Phase {
		case PhaseStopped, PhaseCancelled:
		default:
			run.Phase = PhaseFinished
		}
	}
	if r.m != nil && len(r.m.outcomes) == 0 && r.m.Cursor != nil {
		run.Position = r.m.Cursor.To
	}
	r.out.Position, r.out.Complete, r.out.Run = run.Position, run.Complete(), *run
	return ends
}

// row returns the values of the run for runRow.
func (r *recording) row() []any {
	run := &r.run
	n := func(o core.Outcome) int { return run.Outcomes[o] }
	return []any{
		run.seq, run.Recorded, micros(run.Ended), string(run.Phase), run.ranges, run.Position, n(core.Unchanged), n(core.Changed), n(core.Skipped),
		n(core.RolledBack), n(core.Failed), n(core.Unreachable), n(core.Lost), n(core.Cancelled),
	}
}
