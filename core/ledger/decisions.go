package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// WholeRun in Decision.Wave means the run before it is queued, not one of its waves.
const WholeRun = -1

// Decision is one person's word on a run, or on its next wave.
type Decision struct {
	Wave     int       `json:"wave"` // from 0, or WholeRun
	By       string    `json:"by"`
	Approved bool      `json:"approved"`
	Comment  string    `json:"comment,omitempty"`
	At       time.Time `json:"at"`
	Void     bool      `json:"void,omitempty"` // the run was amended afterwards
	Seen     int64     `json:"-"`              // version of the run that the person saw, see Run.IsAt
}

// Decide records a person's decision. If the run asks for approvals, the people who launched or
// amended it, and those of behind, cannot approve it or its waves: core.ErrConflict. A second,
// different decision of the same person is core.ErrConflict, as is a decision on a run that does
// not wait for one. A token counts as the person who made it.
//
// The last approval that a run needs makes it queued. One refusal cancels it, with all its jobs.
// The refusal of a wave is only recorded: the caller cancels the run.
func (l *Ledger) Decide(ctx context.Context, s Scope, id string, d Decision, behind ...string) (Run, error) {
	if err := checkText("decision: by", d.By, true, maxText); err != nil {
		return Run{}, err
	}
	if d.Wave < WholeRun {
		return Run{}, fmt.Errorf("decision on wave %d, expected 0 or more, or %d for the run: %w", d.Wave, WholeRun, core.ErrInvalid)
	}
	d.Comment = clean(d.Comment, maxText)
	return l.change(ctx, s, id, "decide on run", func(t *tx, run *Run) error {
		if err := run.IsAt(d.Seen); err != nil {
			return err
		}
		fresh, err := l.decide(ctx, t, run, d, behind)
		if err != nil || !fresh {
			return err
		}
		before, version := run.Phase, run.Version
		if d.Wave == WholeRun {
			if err := l.apply(ctx, t, run, d); err != nil {
				return err
			}
		}
		if run.Version == version { // the phase stayed: a person who saw the run before the decision saw another one
			run.Version++
			if _, err := t.exec(ctx, `UPDATE runs SET version = $2 WHERE seq = $1`, run.seq, run.Version); err != nil {
				return err
			}
		}
		action := "run.approve"
		if !d.Approved {
			action = "run.refuse"
		}
		type decided struct {
			Phase   Phase  `json:"phase"`
			Wave    int    `json:"wave"`
			Comment string `json:"comment,omitempty"`
		}
		_, err = l.audit(ctx, t, Entry{
			Who: d.By, Tenant: run.Tenant, Action: action, Kind: "run", Subject: run.ID,
			Before: asJSON(decided{Phase: before, Wave: d.Wave}), After: asJSON(decided{run.Phase, d.Wave, d.Comment}),
		})
		return err
	})
}

// decide stores the decision; fresh is false where it was there already.
func (l *Ledger) decide(ctx context.Context, t *tx, run *Run, d Decision, behind []string) (fresh bool, err error) {
	var amendedBy string
	if err := t.row(ctx, `SELECT amended_by FROM runs WHERE seq = $1`, run.seq).Scan(&amendedBy); err != nil {
		return false, err
	}
	if run.Approvals > 0 && d.Approved {
		who, err := kin(ctx, t, d.By, slices.Concat([]string{run.LaunchedBy}, strings.FieldsFunc(amendedBy, func(r rune) bool { return r == '\n' }), behind))
		if err != nil {
			return false, err
		}
		if who != "" {
			return false, fmt.Errorf("%s is the same person as %s, who launched or changed it (a token counts as who made it): somebody else has to approve it, "+
				"by turnus login, or with a token made with turnus admin tokens create --ledger: %w", d.By, who, core.ErrConflict)
		}
	}
	who, err := collectNames(t.rows(ctx, `SELECT who FROM decisions WHERE run = $1 AND wave = $2 AND content = $3`, run.seq, d.Wave, run.content))
	if err != nil {
		return false, err
	}
	same, err := kin(ctx, t, d.By, who)
	if err != nil {
		return false, err
	}
	d.By = cmp.Or(same, d.By) // a person decides once, under whatever name
	approved := 0
	if d.Approved {
		approved = 1
	}
	n, err := t.exec(ctx, `INSERT INTO decisions (run, wave, content, who, approved, comment, at) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
		run.seq, d.Wave, run.content, d.By, approved, d.Comment, micros(l.now()))
	if err != nil {
		return false, err
	}
	if n == 0 {
		var had int
		err := t.row(ctx, `SELECT approved FROM decisions WHERE run = $1 AND wave = $2 AND content = $3 AND who = $4`, run.seq, d.Wave, run.content, d.By).Scan(&had)
		if err == nil && had != approved {
			err = fmt.Errorf("%s decided otherwise before: %w", d.By, core.ErrConflict)
		}
		return false, err
	}
	switch {
	case run.Complete() || run.Phase == PhaseCancelled:
		return false, fmt.Errorf("it is %s: %w", run.Phase, core.ErrConflict)
	case d.Wave == WholeRun && run.Phase != PhaseAwaiting:
		return false, fmt.Errorf("it is %s, and as a whole waits for nobody; a wave that waits is approved by its number (--wave): %w", run.Phase, core.ErrConflict)
	}
	return true, nil
}

func collectNames(rows *sql.Rows, err error) ([]string, error) {
	return collect(rows, err, scanOne[string])
}

// apply does what a decision on the run as a whole brings about.
func (l *Ledger) apply(ctx context.Context, t *tx, run *Run, d Decision) error {
	if !d.Approved {
		reason := "refused by " + d.By
		if d.Comment != "" {
			reason += ": " + d.Comment
		}
		if err := setPhase(ctx, t, run, PhaseCancelled, core.Because(core.WaveRefused, reason)); err != nil {
			return err
		}
		return l.endRest(ctx, t, run, 0)
	}
	var have int
	if err := t.row(ctx, `SELECT count(*) FROM decisions WHERE run = $1 AND wave = $2 AND content = $3 AND approved = 1`, run.seq, WholeRun, run.content).Scan(&have); err != nil {
		return err
	}
	if have < run.Approvals {
		return nil
	}
	return setPhase(ctx, t, run, PhaseQueued, "")
}

// Decisions lists what was decided on a run in scope, oldest first. They are few.
func (l *Ledger) Decisions(ctx context.Context, s Scope, id string) ([]Decision, error) {
	run, err := l.Run(ctx, s, id)
	if err != nil {
		return nil, err
	}
	rows, err := l.db.rows(ctx, `SELECT wave, content, who, approved, comment, at FROM decisions WHERE run = $1 ORDER BY at, wave, who LIMIT $2`, run.seq, MaxPage)
	all, err := collect(rows, err, func(row scanner) (d Decision, err error) {
		var content, approved, at int64
		err = row.Scan(&d.Wave, &content, &d.By, &approved, &d.Comment, &at)
		d.Approved, d.At, d.Void = approved == 1, fromMicros(at), content != run.content
		return d, err
	})
	return all, translate("read the decisions on run "+run.ID, err)
}
