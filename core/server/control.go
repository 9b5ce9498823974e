package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// late explains a 202 of these operations.
const late = "A 202 says that it is recorded and that the queue does not answer: jobs may begin until the queue is back, and a server has notified it."

func (s *Server) control() {
	post := func(id, path, summary, detail string, role Role) route {
		return route{id: id, method: http.MethodPost, path: path, summary: summary, detail: detail, role: role, status: http.StatusOK}
	}
	handle(s, post("cancel-run", "/v1/runs/{run}/cancel", "End a run",
		"After a 200, no job of it starts any more. Those that run are asked to end, and a command that is under way on a host is killed; to let them finish, pause the run. "+late, Operator), s.word(s.cfg.Controller.Cancel))
	handle(s, post("pause-run", "/v1/runs/{run}/pause", "Start no further jobs of a run", "Jobs that run continue to their end. "+late, Operator), s.word(s.cfg.Controller.Pause))
	handle(s, post("resume-run", "/v1/runs/{run}/resume", "Let a paused run continue", late, Operator), s.word(s.cfg.Controller.Resume))
	signal := post("signal-run", "/v1/runs/{run}/signal", "Send an event to jobs that wait for it",
		"Jobs that their job type suspended until this event continue immediately; others are left alone.", Operator)
	handle(s, signal, s.signalRun)
	signal.id, signal.path, signal.deprecated = "wake-run", "/v1/runs/{run}/wake", true // the former name
	signal.summary = "Send an event to jobs: the former path of signal-run"
	handle(s, signal, s.signalRun)
	handle(s, post("approve-run", "/v1/runs/{run}/approve", "Approve or refuse a run or its next wave",
		"A person who launched or changed a run that asks for four eyes cannot approve it, nor its waves, with any role, nor can a token of that person: a token counts as its maker. Refusing cancels the run.", Approver), s.approveRun)
	handle(s, route{id: "list-decisions", method: http.MethodGet, path: "/v1/runs/{run}/decisions", summary: "List what was decided on a run", role: Viewer}, s.decisions)
	handle(s, route{
		id: "change-run", method: http.MethodPatch, path: "/v1/runs/{run}", summary: "Change a run's weight or criticality", role: Operator,
		detail: "The weight can be changed until the run has ended, the criticality until it is in the queue.",
	}, s.changeRun)
}

// changedRun is a run after a change that the queue may not have yet: 202 then.
type changedRun struct {
	Status int
	ETag   string `header:"ETag"`
	Body   api.Run
}

// word is a change of a run for which a reason is all that is given.
func (s *Server) word(change func(ctx context.Context, scope ledger.Scope, who, id, reason string, seen ...int64) (ledger.Run, bool, error)) func(context.Context, caller, *struct {
	RunPath
	IfMatch
	Body api.Why
}) (*changedRun, error) {
	return func(ctx context.Context, by caller, in *struct {
		RunPath
		IfMatch
		Body api.Why
	},
	) (*changedRun, error) {
		seen, err := in.version()
		if err != nil {
			return nil, err
		}
		run, late, err := change(ctx, by.scope, by.name, in.Run, in.Body.Reason, seen)
		if err != nil {
			return nil, err
		}
		out := &changedRun{http.StatusOK, etagOf(run.Version), runOf(run)}
		if late {
			out.Status, out.Body.QueueAway = http.StatusAccepted, true
		}
		return out, nil
	}
}

func (s *Server) approveRun(ctx context.Context, by caller, in *struct {
	RunPath
	IfMatch
	Body api.Approve
},
) (*versioned[api.Run], error) {
	seen, err := in.version()
	if err != nil {
		return nil, err
	}
	d := ledger.Decision{Wave: in.Body.Wave - 1, By: by.name, Approved: in.Body.Approve, Comment: in.Body.Reason, Seen: seen}
	if in.Body.Wave == 0 {
		d.Wave = ledger.WholeRun
	} else if err := s.isWave(ctx, by, in.Run, in.Body.Wave); err != nil {
		return nil, err
	}
	behind, err := s.behind(ctx, by, in.Run)
	if err != nil {
		return nil, err
	}
	run, err := s.cfg.Controller.Decide(ctx, by.scope, in.Run, d, behind...)
	if err != nil {
		return nil, err
	}
	return &versioned[api.Run]{etagOf(run.Version), runOf(run)}, nil
}

// behind lists who made, changed, triggered or backfilled the schedule that launched a run: it is
// their run.
func (s *Server) behind(ctx context.Context, by caller, id string) ([]string, error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, id)
	if err != nil {
		return nil, err
	}
	schedule, ok := strings.CutPrefix(run.LaunchedBy, scheduledBy)
	if !ok {
		return nil, nil
	}
	name := schedule[strings.LastIndexByte(schedule, ':')+1:] // of TENANT:NAME, or of the provider's NAME
	var who []string
	list := func(ctx context.Context, p ledger.Page) ([]ledger.Entry, string, error) {
		return s.cfg.Ledger.AuditLog(ctx, ledger.Tenants(run.Tenant), ledger.AuditFilter{Kind: "schedule", Subject: name}, p)
	}
	for e, err := range ledger.Each(ctx, ledger.MaxPage, list) {
		if err != nil {
			return nil, err
		}
		if !slices.Contains(who, e.Who) {
			who = append(who, e.Who)
		}
	}
	return who, nil
}

// isWave reports whether a run has a wave, from 1, that a person is asked about.
func (s *Server) isWave(ctx context.Context, by caller, id string, wave int) error {
	if _, err := s.cfg.Ledger.Run(ctx, by.scope, id); err != nil {
		return err
	}
	l, err := s.restore(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case !l.Playbook.Strategy.PauseBetween.Approve:
		return fmt.Errorf("run %s asks nobody between its waves: its playbook has no pause_between: approve: %w", id, core.ErrConflict)
	case wave < 2 || wave > l.Waves():
		return fmt.Errorf("wave %d of run %s: it has %d, and somebody is asked before each but the first: %w", wave, id, l.Waves(), core.ErrInvalid)
	}
	return nil
}

func (s *Server) decisions(ctx context.Context, by caller, in *RunPath) (*list[api.Decision], error) {
	all, err := s.cfg.Ledger.Decisions(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	items := make([]api.Decision, len(all))
	for i, d := range all {
		items[i] = api.Decision{Wave: d.Wave + 1, By: d.By, Approve: d.Approved, Reason: d.Comment, Time: d.At, Void: d.Void}
	}
	return listOf(items, ""), nil
}

func (s *Server) changeRun(ctx context.Context, by caller, in *struct {
	RunPath
	IfMatch
	Body api.ChangeRun
},
) (*versioned[api.Run], error) {
	before, err := s.runAsSeen(ctx, by, in.Run, in.IfMatch)
	if err != nil {
		return nil, err
	}
	seen, err := in.version()
	if err != nil {
		return nil, err
	}
	if before.Complete() {
		return nil, fmt.Errorf("run %s has ended: %w", before.ID, core.ErrConflict)
	}
	if before.Incarnation == "" {
		return s.changeWaiting(ctx, by, before, in.Body)
	}
	if in.Body.Criticality != nil && *in.Body.Criticality != before.Criticality {
		return nil, fmt.Errorf("run %s is in the queue, and its criticality is fixed: %w", before.ID, core.ErrConflict)
	}
	if in.Body.Weight == nil && in.Body.MaxInFlight == nil {
		return &versioned[api.Run]{etagOf(before.Version), runOf(before)}, nil
	}
	l, err := s.restore(ctx, before.ID)
	if err != nil {
		return nil, err
	}
	launched := launchedWith(l)
	had := launched.of(before)
	has := had
	if in.Body.Weight != nil {
		has.Weight = *in.Body.Weight
	}
	if in.Body.MaxInFlight != nil {
		has.MaxInFlight = *in.Body.MaxInFlight
	}
	if err := s.noteShares(ctx, by, before, had, has); err != nil {
		return nil, err
	}
	after, err := s.cfg.Controller.SetShares(ctx, by.scope, before.ID, ledger.Shares{Weight: in.Body.Weight, MaxInFlight: in.Body.MaxInFlight}, seen)
	if err != nil {
		return nil, err
	}
	shown := runOf(after)
	launched.of(after).show(&shown)
	return &versioned[api.Run]{etagOf(after.Version), shown}, nil
}

// shares are a run's shares of the workers.
type shares struct {
	Weight      int `json:"weight"`
	MaxInFlight int `json:"max_in_flight"`
}

// launchedWith returns the shares that a run had at its launch.
func launchedWith(l *launch.Launch) shares { return shares{max(l.Run.Weight, 1), l.Run.MaxInFlight} }

// of returns the shares that a run launched with s has now.
func (s shares) of(r ledger.Run) shares {
	now := shares{s.Weight, r.Shares.Most(s.MaxInFlight)}
	if r.Shares.Weight != nil {
		now.Weight = *r.Shares.Weight
	}
	return now
}

func (s shares) show(r *api.Run) { r.Weight, r.MaxInFlight = s.Weight, s.MaxInFlight }

// changeWaiting changes a run that no queue has had.
func (s *Server) changeWaiting(ctx context.Context, by caller, before ledger.Run, c api.ChangeRun) (*versioned[api.Run], error) {
	if c.Weight == nil && c.MaxInFlight == nil && (c.Criticality == nil || *c.Criticality == before.Criticality) {
		return &versioned[api.Run]{etagOf(before.Version), runOf(before)}, nil
	}
	l, err := s.restore(ctx, before.ID)
	if err != nil {
		return nil, err
	}
	a := controller.Acceptance{Launch: l, By: by.name, Criticality: &before.Criticality, Approvals: before.Approvals}
	if c.Criticality != nil {
		a.Criticality = c.Criticality
	}
	had := launchedWith(l)
	if c.Weight != nil {
		l.Run.Weight = *c.Weight
	}
	if c.MaxInFlight != nil {
		l.Run.MaxInFlight = *c.MaxInFlight
	}
	has := launchedWith(l)
	if has != had { // the ledger's entry run.amend has no shares
		if err := s.noteShares(ctx, by, before, had, has); err != nil {
			return nil, err
		}
	}
	shown, err := s.amend(ctx, by, before, a)
	if err == nil {
		has.show(&shown.Body)
	}
	return shown, err
}

// noteShares writes a change of a run's shares of the workers to the audit log.
func (s *Server) noteShares(ctx context.Context, by caller, run ledger.Run, had, has shares) error {
	return s.note(ctx, by, ledger.Entry{Tenant: run.Tenant, Action: "run.reweight", Kind: "run", Subject: run.ID, Before: asJSON(had), After: asJSON(has)})
}

// note writes changes to the audit log that the ledger does not see. Call it before the change: an
// entry for something that did not happen is seen, and an action without an entry would not be.
func (s *Server) note(ctx context.Context, by caller, e ledger.Entry) error {
	e.Who = by.name
	if _, err := s.cfg.Ledger.AppendAudit(ctx, e); err != nil {
		return fmt.Errorf("write the audit log: %w", err)
	}
	return nil
}

// asJSON writes a value of ours, which always can be.
func asJSON(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return text
}
