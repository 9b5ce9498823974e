package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// Amendment is the new content of a run before it starts: everything that New has replaces what was
// accepted, except ID, Tenant, Created, LaunchedBy and Key, which stay.
type Amendment struct {
	Version int64 // of the run that was checked; another is a ChangedError
	New     NewRun
}

// Amend changes a run that no queue has had. Earlier approvals are void: the run needs
// New.Approvals again, from people who neither launched nor amended it. A server whose claim has
// ended cannot mark it as queued with the content it had. A run that was queued already is
// core.ErrConflict.
func (l *Ledger) Amend(ctx context.Context, s Scope, who, id string, a Amendment) (Run, error) {
	run, err := l.Run(ctx, s, id)
	if err != nil {
		return Run{}, err
	}
	n := a.New
	n.ID, n.Tenant, n.LaunchedBy, n.Key = run.ID, run.Tenant, run.LaunchedBy, run.Key
	if err := n.validate(); err != nil {
		return Run{}, err
	}
	snapshot, queue, hosts := l.encrypt(n.Snapshot, snapshotOf, n.ID), l.encrypt(n.Queue, queueOf, n.ID), packHosts(n.Jobs)
	return l.change(ctx, s, id, "amend run", func(t *tx, run *Run) error {
		if err := run.IsAt(a.Version); err != nil {
			return err
		}
		idle, err := unclaimed(ctx, t, run)
		switch {
		case err != nil:
			return err
		case !idle || run.Complete() || run.Recorded > 0:
			return fmt.Errorf("it is %s: only a run that was never queued can be amended: %w", run.Phase, core.ErrConflict)
		}
		var by string
		if err := t.row(ctx, `SELECT amended_by FROM runs WHERE seq = $1`, run.seq).Scan(&by); err != nil {
			return err
		}
		before, phase := *run, amendedPhase(run.Phase, &n)
		*run, err = scanRun(t.row(ctx, `UPDATE runs SET playbook = $2, revision = $3, criticality = $4, approvals = $5, total = $6, phase = $7, amended_by = $8, sources = $9, check_mode = $10,
			reason = CASE WHEN phase = $7 THEN reason ELSE '' END, content = content + 1, claimed_by = '', claimed_until = 0, version = version + 1 WHERE seq = $1 RETURNING `+runColumns,
			run.seq, n.Playbook, n.Revision, n.Criticality, n.Approvals, len(n.Jobs), string(phase), withAmender(by, who), encodeSources(n.Sources), asNumber(n.Check)))
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, `UPDATE materials SET snapshot = $2, queue = $3, hosts = $4 WHERE run = $1`, run.seq, snapshot, queue, hosts); err != nil {
			return err
		}
		if run.Phase == PhaseAwaiting { // also one that waited: people who approved it have to look again
			if err := l.happened(ctx, t, run, HappenedAwaiting, who); err != nil {
				return err
			}
		}
		_, err = l.audit(ctx, t, contentEntry(who, "run.amend", &before, run, &n))
		return err
	})
}

// withAmender adds a person to those who amended a run: a line each.
func withAmender(all, who string) string {
	who = clean(strings.ReplaceAll(who, "\n", " "), maxText)
	if all == "" || amended(all, who) {
		return cmp.Or(all, who)
	}
	return all + "\n" + who
}

// amended reports whether a person is one of those.
func amended(all, who string) bool {
	return slices.ContainsFunc(strings.Split(all, "\n"), func(one string) bool { return core.SamePerson(one, who) })
}

// amendedPhase is the phase of a run after it was amended. One that needs approvals waits for them,
// also where somebody had paused it or let it continue: only an approval may make it start. One
// that needs none is paused if the amendment asks for it, or if it was paused before.
func amendedPhase(before Phase, n *NewRun) Phase {
	switch before {
	case PhaseQueued, PhasePaused, PhaseActive, PhaseAwaiting:
		switch {
		case n.Approvals > 0:
			return PhaseAwaiting
		case n.Paused:
			return PhasePaused
		case before == PhaseAwaiting:
			return PhaseQueued
		}
	case PhaseStopped, PhaseCancelled, PhaseFinished:
	}
	return before
}

// shownRun is a run as the audit log has it.
type shownRun struct {
	Playbook    string `json:"playbook"`
	Revision    string `json:"revision,omitempty"`
	Criticality int    `json:"criticality"`
	Approvals   int    `json:"approvals,omitempty"`
	Jobs        int    `json:"jobs"`
	Phase       Phase  `json:"phase"`
	Reason      string `json:"launch_reason,omitempty"`
	Exec        *Exec  `json:"exec,omitempty"`
}

func (r *Run) shown() shownRun {
	return shownRun{Playbook: r.Playbook, Revision: r.Revision, Criticality: r.Criticality, Approvals: r.Approvals, Jobs: r.Total, Phase: r.Phase}
}

// acceptEntry is of a run that is new: run.exec of a command, run.accept of a playbook.
func acceptEntry(r *acceptRow, run *Run) Entry {
	e := contentEntry(r.LaunchedBy, "run.accept", nil, run, r.NewRun)
	if r.Exec != nil {
		e.Action = "run.exec"
	}
	return e
}

// contentEntry is a runEntry with what n has for the audit log alone.
func contentEntry(who, action string, before, after *Run, n *NewRun) Entry {
	e := runEntry(who, action, before, after)
	if n.Reason != "" || n.Exec != nil {
		shown := after.shown()
		shown.Reason, shown.Exec = n.Reason, n.Exec
		e.After = asJSON(shown)
	}
	return e
}

func runEntry(who, action string, before, after *Run) Entry {
	e := Entry{Who: who, Tenant: after.Tenant, Action: action, Kind: "run", Subject: after.ID, After: asJSON(after.shown())}
	if before != nil {
		e.Before = asJSON(before.shown())
	}
	return e
}
