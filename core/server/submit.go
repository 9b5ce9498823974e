package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/telemetry"
)

// createRun is the operation to which keys of new runs belong, whichever route they come by.
const createRun = "create-run"

func (s *Server) createRun(ctx context.Context, by caller, in *struct {
	Idempotent
	Body api.NewRun
},
) (_ *versioned[api.Run], err error) {
	ctx, span := telemetry.StartSpan(ctx, telemetry.SpanLaunch)
	defer func() { telemetry.EndSpan(span, err) }()
	request, err := json.Marshal(in.Body)
	if err != nil {
		return nil, err
	}
	key := in.of(by, createRun)
	if answer, found, err := s.repeated(ctx, by, key, request); found || err != nil {
		return answer, err
	}
	a, err := s.acceptance(ctx, by, in.Body)
	if err != nil {
		return nil, err
	}
	a.Key, a.Request = key, request
	return s.accept(ctx, a)
}

// acceptance prepares a new run.
func (s *Server) acceptance(ctx context.Context, by caller, n api.NewRun) (controller.Acceptance, error) {
	l, err := s.prepare(ctx, by, n, catalog.Launching{})
	if err != nil {
		return controller.Acceptance{}, err
	}
	a := controller.Acceptance{Launch: l, By: by.name, Criticality: n.Criticality, Paused: n.Paused}
	if n.FourEyes {
		a.Approvals = 1
	}
	return a, nil
}

func (s *Server) accept(ctx context.Context, a controller.Acceptance) (*versioned[api.Run], error) {
	run, _, err := s.cfg.Controller.Accept(ctx, a)
	if err != nil {
		return nil, keyed(err)
	}
	return &versioned[api.Run]{etagOf(run.Version), launched(runOf(run), a.Launch)}, nil
}

// launched returns a run with what only the answer to its launch shows.
func launched(run api.Run, l *launch.Launch) api.Run {
	run.WithoutFacts, run.Warnings = len(l.WithoutFacts), l.Warnings()
	return run
}

// runAsSeen reads a run before a change, and refuses it if it is not any more as the caller saw it,
// by its If-Match.
func (s *Server) runAsSeen(ctx context.Context, by caller, id string, seen IfMatch) (ledger.Run, error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, id)
	if err != nil {
		return ledger.Run{}, err
	}
	return run, seen.matches(etagOf(run.Version))
}

func (s *Server) replaceRun(ctx context.Context, by caller, in *struct {
	RunPath
	IfMatch
	Body api.NewRun
},
) (_ *versioned[api.Run], err error) {
	before, err := s.runAsSeen(ctx, by, in.Run, in.IfMatch)
	if err != nil {
		return nil, err
	}
	ctx, span := telemetry.StartSpan(ctx, telemetry.SpanLaunch)
	defer func() { telemetry.EndSpan(span, err) }()
	l, err := s.prepare(ctx, by, in.Body, catalog.Launching{RunID: before.ID})
	if err != nil {
		return nil, err
	}
	if l.Run.Tenant != before.Tenant {
		return nil, fmt.Errorf("the run is of tenant %q and stays so, but playbook %q is of %q: %w", before.Tenant, in.Body.Playbook, l.Run.Tenant, core.ErrConflict)
	}
	a := controller.Acceptance{Launch: l, By: by.name, Criticality: &before.Criticality, Approvals: before.Approvals, Paused: in.Body.Paused} // what was asked for is not dropped
	if in.Body.Criticality != nil {
		a.Criticality = in.Body.Criticality
	}
	if in.Body.FourEyes {
		a.Approvals = max(a.Approvals, 1)
	}
	answer, err := s.amend(ctx, by, before, a)
	if err == nil {
		answer.Body = launched(answer.Body, l)
	}
	return answer, err
}

// amend puts something else in the place of what a run was accepted with.
func (s *Server) amend(ctx context.Context, by caller, before ledger.Run, a controller.Acceptance) (*versioned[api.Run], error) {
	run, err := s.cfg.Controller.Amend(ctx, by.scope, by.name, before.ID, before.Version, a)
	if err != nil {
		return nil, err
	}
	return &versioned[api.Run]{etagOf(run.Version), runOf(run)}, nil
}

// prepare makes a launch of a request, from the project as it is now, on hosts of the caller's
// tenants. It takes RunID, Only, Asked and Kept of as, and sets the rest.
func (s *Server) prepare(ctx context.Context, by caller, n api.NewRun, as catalog.Launching) (*launch.Launch, error) {
	now, playbook, err := s.playbook(by, n.Playbook)
	if err != nil {
		return nil, err
	}
	as.By, as.Trace, as.Scope, as.SkipNoWindow = by.name, telemetry.Traceparent(ctx), by.scope, n.SkipNoWindow || n.SkipUnfit
	l, err := s.cfg.Catalog.Prepare(ctx, now, playbook, requestOf(n.Playbook, n.LaunchOptions), as)
	if err == nil {
		err = asPlanned(l, n.Plan)
	}
	if err == nil {
		trace.SpanFromContext(ctx).SetAttributes(telemetry.AttributeRun.String(l.Run.ID), telemetry.AttributeTenant.String(l.Run.Tenant))
	}
	return l, err
}

// requestOf is a launch as the catalog takes it: params and vars have different names, and travel
// as one.
func requestOf(playbook string, o api.LaunchOptions) catalog.Request {
	vars := o.Vars
	if len(o.Params) > 0 {
		vars = make(map[string]any, len(o.Vars)+len(o.Params))
		maps.Copy(vars, o.Vars)
		maps.Copy(vars, o.Params)
	}
	return catalog.Request{Playbook: playbook, Limit: o.Limit, Vars: vars, Tags: o.Tags, SkipTags: o.SkipTags, Check: o.Check, Diff: o.Diff, MaxInFlight: o.MaxInFlight, Reason: o.Reason}
}
