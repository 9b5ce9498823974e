package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// Outcome is how one job ended, or Count jobs in a row.
type Outcome struct {
	Index   int // of the first job
	Count   int // 0 and 1 mean one job; more only of jobs that ended together without being started
	Outcome core.Outcome
	Reason  core.Reason
	Step    string // that decided a bad outcome
	Attempt int
	Worker  string
	Started time.Time
	Took    time.Duration // kept in microseconds
	Detail  []byte        // opaque; of one job
	// Handlers are the pending handlers that the job took over, and those that it leaves to the next
	// run; nil changes nothing.
	Handlers *core.Handlers
	// Facts are the values that the host reported about its own state; nil changes nothing. Facts of
	// more than core.MaxFacts bytes are dropped.
	Facts *core.Facts
}

// Cursor is where in the queue's records a batch begins and ends. A batch whose From is not the
// ledger's next record was recorded by another server, or does not follow what was.
type Cursor struct {
	Incarnation string // of the queue that gave the records out: that of Enqueued
	From, To    string
}

// Batch is outcomes of one run.
type Batch struct {
	Run      string
	Cursor   *Cursor // nil: of outcomes that no queue recorded
	Outcomes []Outcome
}

// Recorded is the result of a batch.
type Recorded struct {
	New int // outcomes that count now
	// Repeated is how many jobs began that had the outcome of another execution. Reading a record
	// again does not count.
	Repeated int
	Position string // where the ledger is in the queue's records
	Complete bool   // every job of the run has its outcome
	Run      Run    // as it is then
	// Err is why the batch was not recorded: core.ErrNotFound (no such run), core.ErrInvalid (an index
	// beyond the run, an unknown outcome), core.ErrConflict (the cursor: continue from Position).
	// Of one that took several transactions New were.
	Err error
}

// MaxBatch is how many outcomes of several batches one transaction of Record takes. A larger batch
// has one of its own.
const MaxBatch = 250

// Record makes outcomes durable, each exactly once, and keeps the counts of their runs in step in
// the same transaction. The answer has one Recorded a batch. An error means that nothing is known
// of the batches: repeat them.
//
// A job's outcome never changes. A run whose last job has its outcome is ended.
//
// Where only one can write at a time and others wait, a batch may take several transactions; its
// cursor moves with the last.
func (l *Ledger) Record(ctx context.Context, batches ...Batch) ([]Recorded, error) {
	out := make([]Recorded, len(batches))
	// Runs are locked in one order, whatever order servers have them in.
	order := make([]int, len(batches))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(batches[a].Run, batches[b].Run) })
	for from := 0; from < len(order); {
		var group []*remaining
		for n := 0; from < len(order); from++ {
			b := &batches[order[from]]
			if n += len(b.Outcomes); len(group) > 0 && n > MaxBatch {
				break
			}
			group = append(group, l.remainingOf(b, &out[order[from]]))
		}
		if err := l.recordGroup(ctx, group); err != nil {
			return nil, err
		}
	}
	return out, nil
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
		case o.Count > 1 && len(o.Detail) > 0:
			return fmt.Errorf("run %s, job %d: %d jobs together have no detail: %w", run.ID, o.Index, o.Count, core.ErrInvalid)
		}
	}
	return nil
}
