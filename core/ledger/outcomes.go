package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// NextLife in Outcome.Life means the job's first life that has no outcome yet, ThisLife its present one, whose outcome stays
// where it has one: for a queue whose records do not count lives. They are sound only in a batch with a Cursor, which keeps
// it from being recorded twice. ThisLife bears records that are read again from the beginning.
const (
	NextLife = -1
	ThisLife = -2
)

// Outcome is how one job ended, or Count jobs in a row.
type Outcome struct {
	Index   int // of the first job
	Count   int // 0 and 1 mean one job; more only of jobs that ended together without being started
	Life    int // 0, or how often the job had been redriven, NextLife or ThisLife
	Outcome core.Outcome
	Reason  string
	Step    string // that decided a bad outcome
	Attempt int
	Worker  string
	Started time.Time
	Took    time.Duration // kept in microseconds
	Detail  []byte        // opaque; of one job
}

// Cursor says where in the queue's records a batch begins and ends. A batch whose From is not
// where the ledger stands was recorded by another server, or does not follow what was.
type Cursor struct {
	Incarnation string // of the queue that gave the records out: that of Enqueued
	From, To    string
}

// Batch is outcomes of one run.
type Batch struct {
	Run      string
	Cursor   *Cursor // nil: the outcomes' lives alone keep them from counting twice
	Outcomes []Outcome
}

// Recorded says what became of a batch.
type Recorded struct {
	New      int    // outcomes that count now
	Known    int    // jobs whose outcome, in that life, was recorded before
	Position string // where the ledger stands in the queue's records
	Complete bool   // every job of the run has its outcome
	// Err is why nothing of the batch was recorded: core.ErrNotFound (no such run), core.ErrInvalid
	// (an index beyond the run, an unknown outcome), core.ErrConflict (the cursor: go on from Position).
	Err error
}

// MaxBatch is how many outcomes one transaction of Record takes; a larger batch is cut
// where it has no cursor, so that others get their turn to write.
const MaxBatch = 250

// Record makes outcomes durable, each exactly once, and keeps the counts of their runs in step in
// the same transaction. The answer has one Recorded a batch. An error means that nothing is known
// of the batches: repeat them.
//
// A job's outcome in one life never changes. The outcome of a later life takes the place of the earlier one,
// which stays among the job's attempts. A run whose last job has its outcome is ended.
func (l *Ledger) Record(ctx context.Context, batches ...Batch) ([]Recorded, error) {
	out := make([]Recorded, len(batches))
	// Runs are locked in one order, whatever order servers have them in.
	order := make([]int, len(batches))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(batches[a].Run, batches[b].Run) })
	for from := 0; from < len(order); {
		to, n := from, 0
		for to < len(order) && (to == from || n+len(batches[order[to]].Outcomes) <= MaxBatch) {
			n += len(batches[order[to]].Outcomes)
			to++
		}
		err := l.db.transact(ctx, "record outcomes", func(t *tx) error {
			for _, i := range order[from:to] {
				var err error
				if out[i], err = l.record(ctx, t, batches[i]); err != nil {
					return fmt.Errorf("of run %s: %w", batches[i].Run, err)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		from = to
	}
	return out, nil
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
	out    Recorded
}

func (l *Ledger) record(ctx context.Context, t *tx, b Batch) (Recorded, error) {
	run, err := lockRun(ctx, t, b.Run)
	if none(err) {
		return Recorded{Err: noRun(b.Run)}, nil
	}
	if err != nil {
		return Recorded{}, err
	}
	r := &recording{Ledger: l, t: t, run: run, now: micros(l.now()), counts: map[core.Outcome]int{}, out: Recorded{Position: run.Position}}
	if r.out.Err = b.check(&run); r.out.Err == nil {
		err = r.all(ctx, b)
	}
	return r.out, err
}

// all records a batch that was found right.
func (r *recording) all(ctx context.Context, b Batch) (err error) {
	if r.hosts, err = r.hostsOf(ctx, r.t.scanner, &r.run); err != nil {
		return err
	}
	if r.run.ranges > 0 {
		if r.ranges, err = readRanges(ctx, r.t, r.run.seq); err != nil {
			return err
		}
	}
	if err := r.outcomes(ctx, b.Outcomes); err != nil {
		return err
	}
	return r.finish(ctx, b.Cursor)
}

// lockRun reads a run and keeps others from changing it until the transaction ends.
func lockRun(ctx context.Context, t *tx, id string) (Run, error) {
	return scanRun(t.row(ctx, `SELECT `+runColumns+` FROM runs WHERE id = $1`+t.forUpdate, clean(id, maxText)))
}

func (b *Batch) check(run *Run) error {
	if b.Cursor != nil && b.Cursor.Incarnation != run.Incarnation {
		return fmt.Errorf("run %s: outcomes of queue %q, but the run is in %q: %w", run.ID, b.Cursor.Incarnation, run.Incarnation, core.ErrConflict)
	}
	if b.Cursor != nil && b.Cursor.From != run.Position {
		return fmt.Errorf("run %s: outcomes behind %q, but those up to %q are recorded: %w", run.ID, b.Cursor.From, run.Position, core.ErrConflict)
	}
	if b.Cursor != nil {
		if err := checkText("cursor", b.Cursor.To, false, maxText); err != nil {
			return err
		}
	}
	for i := range b.Outcomes {
		o := &b.Outcomes[i]
		switch {
		case o.Index < 0 || o.Count < 0 || o.Index >= run.Total || max(o.Count, 1) > run.Total-o.Index:
			return fmt.Errorf("run %s: outcome of %d jobs from %d, the run has %d: %w", run.ID, max(o.Count, 1), o.Index, run.Total, core.ErrInvalid)
		case !o.Outcome.Valid():
			return fmt.Errorf("run %s, job %d: outcome %q, expected one of %v: %w", run.ID, o.Index, o.Outcome, core.Outcomes(), core.ErrInvalid)
		case o.Life < ThisLife || o.Life < 0 && b.Cursor == nil:
			return fmt.Errorf("run %s, job %d: life %d, expected 0 or more, or NextLife or ThisLife with a cursor: %w", run.ID, o.Index, o.Life, core.ErrInvalid)
		case o.Count > 1 && (o.Life > 0 || len(o.Detail) > 0):
			return fmt.Errorf("run %s, job %d: %d jobs together have neither a life nor a detail: %w", run.ID, o.Index, o.Count, core.ErrInvalid)
		}
	}
	return nil
}

// outcomes keeps the batch's order where it matters: what is new goes in at once, up to the
// next range or the next outcome of the same job.
func (r *recording) outcomes(ctx context.Context, all []Outcome) error {
	fresh, seen := make([]*Outcome, 0, len(all)), make(map[int]bool, len(all))
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
			if err := r.rangeOf(ctx, o); err != nil {
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
func (r *recording) insert(ctx context.Context, all []*Outcome) (known []*Outcome, err error) {
	rows := make([]*Outcome, 0, len(all))
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
		r.count(o.Outcome, 1)
		r.out.New++
	}
	return known, nil
}

// again takes the outcome of a job that has one, or waits for that of its next life.
func (r *recording) again(ctx context.Context, o *Outcome) error {
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
		_, err = r.t.insert(ctx, r.t, r, []*Outcome{o})
		r.count(o.Outcome, 1)
		r.out.New++
		return err
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
	r.count(o.Outcome, 1)
	r.out.New++
	_, err = r.t.exec(ctx, `UPDATE jobs SET life = $3, outcome = $4, reason = $5, step = $6, attempt = $7, worker = $8, started = $9, took = $10, recorded = $11
		WHERE run = $1 AND idx = $2`, append([]any{r.run.seq, o.Index, next}, r.fields(o, next)...)...)
	if err != nil || len(o.Detail) == 0 {
		return err
	}
	return putAttempt(ctx, r.t, r.run.seq, o.Index, next, r.fields(o, next), r.detail(o, next))
}

// reason and detail are stored of a job's outcome in one of its lives.
func (r *recording) reason(o *Outcome, life int) string {
	return r.sealReason(clean(o.Reason, maxText), r.run.ID, o.Index, life, o.Attempt)
}

func (r *recording) detail(o *Outcome, life int) []byte {
	return r.seal(o.Detail, tryPlace(detailOf, r.run.ID, o.Index, life, o.Attempt)...)
}

// fields are the columns outcome to recorded, of an outcome in one of the job's lives.
func (r *recording) fields(o *Outcome, life int) []any {
	return r.fieldsFor(o, r.reason(o, life))
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
	n := func(o core.Outcome) int { return run.Outcomes[o] }
	_, err := r.t.exec(ctx, `UPDATE runs SET recorded = $2, ended = $3, phase = $4, ranges = $5, position = $6, unchanged = $7, changed = $8, skipped = $9,
		rolled_back = $10, failed = $11, unreachable = $12, lost = $13, cancelled = $14 WHERE seq = $1`,
		run.seq, run.Recorded, ended, string(run.Phase), run.ranges, run.Position, n(core.Unchanged), n(core.Changed), n(core.Skipped),
		n(core.RolledBack), n(core.Failed), n(core.Unreachable), n(core.Lost), n(core.Cancelled))
	return err
}
