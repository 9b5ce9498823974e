package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
)

// nextPhases has the phases that may follow each phase. Finished is never set: the last outcome
// finishes a run.
var nextPhases = map[Phase][]Phase{
	PhaseAwaiting: {PhaseCancelled},
	PhaseQueued:   {PhaseActive, PhasePaused, PhaseStopped, PhaseCancelled},
	PhaseActive:   {PhasePaused, PhaseStopped, PhaseCancelled},
	PhasePaused:   {PhaseQueued, PhaseActive, PhaseStopped, PhaseCancelled},
	PhaseStopped:  {PhaseCancelled},
}

// byService maps a phase to what happens to a run that the service itself puts into it.
var byService = map[Phase]string{PhaseStopped: HappenedStopped, PhasePaused: HappenedPaused}

// SetPhase writes down the phase of a run. who is the person who asked for it, and is audited; ""
// is the service, which saw it in the queue. A run that is already there stays as it is. A phase
// that cannot follow, and any of a complete run, is core.ErrConflict. seen is the version that the
// person saw. If the run has another one, nothing is done, and the error is a ChangedError.
func (l *Ledger) SetPhase(ctx context.Context, s Scope, who, id string, phase Phase, reason core.Reason, seen ...int64) (Run, error) {
	return l.change(ctx, s, id, "set the phase of run", func(t *tx, run *Run) error {
		if err := run.IsAt(cmp.Or(seen...)); err != nil {
			return err
		}
		if run.Phase == phase {
			return nil
		}
		if run.Complete() || !slices.Contains(nextPhases[run.Phase], phase) {
			return fmt.Errorf("a run that is %s cannot become %q: %w", run.Phase, phase, core.ErrConflict)
		}
		before := run.Phase
		if err := setPhase(ctx, t, run, phase, reason); err != nil {
			return err
		}
		if what, ok := byService[phase]; ok && who == "" {
			if err := l.happened(ctx, t, run, what, run.Reason.Text()); err != nil {
				return err
			}
		}
		if who == "" {
			return nil
		}
		_, err := l.audit(ctx, t, phaseEntry(who, "run."+string(phase), run, before))
		return err
	})
}

// Cancel ends a run: no queue will start a job of it. Where no queue has it, or is about to, all
// jobs without an outcome end as cancelled in the same transaction; otherwise
// the caller cancels it in the queue, whose records then end them. A cancelled run
// stays as it is; a finished one is core.ErrConflict.
func (l *Ledger) Cancel(ctx context.Context, s Scope, who, id string, reason core.Reason) (Run, error) {
	out, err := l.CancelAll(ctx, Cancellation{Scope: s, Who: who, ID: id, Reason: reason})
	if err == nil {
		err = out[0].Err
	}
	if err != nil {
		return Run{}, err
	}
	return out[0].Run, nil
}

// Cancellation asks to end a run.
type Cancellation struct {
	Scope   Scope
	Who, ID string
	Reason  core.Reason
	Seen    int64 // version of the run that the person saw, see Run.IsAt
}

// Cancelled is the answer to one Cancellation.
type Cancelled struct {
	Run Run
	Err error // why this run was not cancelled
}

// CancelAll is Cancel of several runs in one transaction. Each has its own answer: one that is
// refused does not refuse the others. After an error none of them is cancelled.
func (l *Ledger) CancelAll(ctx context.Context, all ...Cancellation) ([]Cancelled, error) {
	out, ids := make([]Cancelled, len(all)), make([]string, len(all))
	for i := range all {
		ids[i] = clean(all[i].ID, maxText)
	}
	what := "cancel run " + clean(all[0].ID, maxID)
	if len(all) > 1 {
		what = fmt.Sprintf("cancel %d runs", len(all))
	}
	err := l.db.transact(ctx, what, func(t *tx) error {
		runs, err := lockRuns(ctx, t, ids)
		if err != nil {
			return err
		}
		var entries []Entry // written last: a transaction that has locked the audit log never waits for a run
		for i, c := range all {
			run, ok := runs[ids[i]]
			if !ok || !c.Scope.Allows(run.Tenant) {
				out[i].Err = noRun(c.ID)
				continue
			}
			if err := run.IsAt(c.Seen); err != nil {
				out[i].Err = err
				continue
			}
			before := run.Phase
			switch err := l.cancelRun(ctx, t, &run, c.Reason); {
			case errors.Is(err, core.ErrConflict):
				out[i].Err = err
				continue
			case err != nil:
				return err
			}
			if c.Who != "" && before != run.Phase {
				entries = append(entries, phaseEntry(c.Who, "run.cancel", &run, before))
			}
			runs[ids[i]], out[i].Run = run, run
		}
		return l.auditAll(ctx, t, entries)
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Err = translate("cancel run "+clean(all[i].ID, maxID), out[i].Err)
	}
	return out, nil
}

// cancelRun is Cancel of a locked run. A conflict has changed nothing.
func (l *Ledger) cancelRun(ctx context.Context, t *tx, run *Run, reason core.Reason) error {
	if run.Phase == PhaseCancelled {
		return nil
	}
	if run.Complete() {
		return fmt.Errorf("it is %s, and complete: %w", run.Phase, core.ErrConflict)
	}
	if err := setPhase(ctx, t, run, PhaseCancelled, reason); err != nil {
		return err
	}
	idle, err := unclaimed(ctx, t, run)
	if err == nil && idle {
		err = l.endRest(ctx, t, run, 0)
	}
	return err
}

// Refuse ends a run that no queue can take, or that cannot be read. Of its jobs without an outcome
// the first begun end as lost, since they may have begun in a queue that was lost, the rest as
// cancelled. by is the caller's claim of the run, if it has one. If that was taken over, the run
// may be in the queue: core.ErrConflict.
func (l *Ledger) Refuse(ctx context.Context, id string, begun int, reason core.Reason, by ...Claim) error {
	_, err := l.change(ctx, AllTenants(), id, "refuse run", func(t *tx, run *Run) error {
		for _, c := range by {
			if err := held(c, t.row(ctx, heldBy, c.Run.seq)); err != nil {
				return err
			}
		}
		if run.Complete() {
			return nil
		}
		if err := setPhase(ctx, t, run, PhaseCancelled, reason); err != nil {
			return err
		}
		return l.endRest(ctx, t, run, begun)
	})
	return err
}

// change locks a run in scope, lets do change it, and returns what it then is.
func (l *Ledger) change(ctx context.Context, s Scope, id, what string, do func(*tx, *Run) error) (Run, error) {
	var run Run
	err := l.db.transact(ctx, what+" "+clean(id, maxID), func(t *tx) (err error) {
		run, err = lockRun(ctx, t, id)
		if none(err) || err == nil && !s.Allows(run.Tenant) {
			return noRun(id)
		}
		if err == nil {
			err = do(t, &run)
		}
		return err
	})
	if err != nil {
		return Run{}, err
	}
	return run, nil
}

// ChangedError is the error of a person's action on a run that is not any more what the person saw.
// It is a core.ErrConflict.
type ChangedError struct{ Seen, Has int64 }

// Error implements error.
func (e *ChangedError) Error() string {
	return fmt.Sprintf("it now has version %d, not %d: read it again", e.Has, e.Seen)
}

// Unwrap returns core.ErrConflict.
func (*ChangedError) Unwrap() error { return core.ErrConflict }

// IsAt returns a ChangedError if the run has another version than the one that was seen; 0 is any.
func (r *Run) IsAt(seen int64) error {
	if seen == 0 || r.Version == seen {
		return nil
	}
	return &ChangedError{seen, r.Version}
}

func setPhase(ctx context.Context, t *tx, run *Run, phase Phase, reason core.Reason) error {
	run.Phase, run.Reason = phase, core.Reason(cleanReason(reason))
	run.Version++
	_, err := t.exec(ctx, `UPDATE runs SET phase = $2, reason = $3, version = $4 WHERE seq = $1`, run.seq, string(phase), string(run.Reason), run.Version)
	return err
}

// phaseEntry returns the audit entry of a run that a person put into another phase.
func phaseEntry(who, action string, run *Run, before Phase) Entry {
	type state struct {
		Phase  Phase  `json:"phase"`
		Reason string `json:"reason,omitempty"`
	}
	return Entry{
		Who: who, Tenant: run.Tenant, Action: action, Kind: "run", Subject: run.ID,
		Before: asJSON(state{Phase: before}), After: asJSON(state{run.Phase, run.Reason.Text()}),
	}
}

// unclaimed reports whether no queue has the run and no server is about to put it into one.
func unclaimed(ctx context.Context, t *tx, run *Run) (idle bool, err error) {
	if run.Incarnation != "" {
		return false, nil
	}
	var n int
	err = t.row(ctx, `SELECT count(*) FROM runs WHERE seq = $1 AND (claimed_by = '' OR claimed_until < `+t.now+`)`, run.seq).Scan(&n)
	return n == 1, err
}

// endRest ends every job that has no outcome for the run's reason: the first so many as lost, the
// others as cancelled.
func (l *Ledger) endRest(ctx context.Context, t *tx, run *Run, lost int) error {
	r := &recording{Ledger: l, t: t, run: *run, now: micros(l.now()), counts: map[core.Outcome]int{}, out: &Recorded{}}
	var err error
	if r.ranges, err = readRanges(ctx, t, run.seq); err != nil {
		return err
	}
	for _, o := range []Outcome{{Count: lost, Outcome: core.Lost}, {Index: lost, Count: run.Total - lost, Outcome: core.Cancelled}} {
		o.Reason = run.Reason
		if o.Count == 0 {
			continue
		}
		if err := r.rangeOf(ctx, &o); err != nil {
			return err
		}
	}
	if err := l.finish(ctx, t, []*recording{r}); err != nil {
		return err
	}
	*run, err = scanRun(t.row(ctx, `SELECT `+runColumns+` FROM runs WHERE seq = $1`, run.seq))
	return err
}
