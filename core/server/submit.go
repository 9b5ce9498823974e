package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/tracing"
	"github.com/turnus/turnus/playbooks"
)

func (s *Server) createRun(ctx context.Context, by caller, in *struct {
	Idempotent
	Body api.NewRun
},
) (_ *versioned[api.Run], err error) {
	ctx, span := tracing.Start(ctx, tracing.Launch)
	defer func() { tracing.End(span, err) }()
	request, err := json.Marshal(in.Body)
	if err != nil {
		return nil, err
	}
	key := in.of(by, "create-run")
	if answer, found, err := s.repeated(ctx, by, key, request); found || err != nil {
		return answer, err
	}
	l, err := s.prepare(ctx, by, in.Body, "", nil)
	if err != nil {
		return nil, err
	}
	a := controller.Acceptance{Launch: l, By: by.name, Key: key, Request: request, Criticality: in.Body.Criticality, Paused: in.Body.Paused}
	if in.Body.FourEyes {
		a.Approvals = 1
	}
	return s.accept(ctx, a)
}

func (s *Server) accept(ctx context.Context, a controller.Acceptance) (*versioned[api.Run], error) {
	run, _, err := s.cfg.Controller.Accept(ctx, a)
	if err != nil {
		return nil, err
	}
	return &versioned[api.Run]{etagOf(run.Version), runOf(run)}, nil
}

// runAsSeen reads a run that is to be changed, and refuses it where it is not any more what its If-Match says that the caller saw.
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
	ctx, span := tracing.Start(ctx, tracing.Launch)
	defer func() { tracing.End(span, err) }()
	l, err := s.prepare(ctx, by, in.Body, before.ID, nil)
	if err != nil {
		return nil, err
	}
	if l.Run.Tenant != before.Tenant {
		return nil, fmt.Errorf("the run is of tenant %q and stays so, but playbook %q is of %q: %w", before.Tenant, in.Body.Playbook, l.Run.Tenant, core.ErrConflict)
	}
	a := controller.Acceptance{Launch: l, By: by.name, Criticality: &before.Criticality, Approvals: before.Approvals} // what was asked for is not dropped
	if in.Body.Criticality != nil {
		a.Criticality = in.Body.Criticality
	}
	if in.Body.FourEyes {
		a.Approvals = max(a.Approvals, 1)
	}
	return s.amend(ctx, by, before, a)
}

// amend puts something else in the place of what a run was accepted with.
func (s *Server) amend(ctx context.Context, by caller, before ledger.Run, a controller.Acceptance) (*versioned[api.Run], error) {
	run, err := s.cfg.Controller.Amend(ctx, by.scope, by.name, before.ID, before.Version, a)
	if err != nil {
		return nil, err
	}
	return &versioned[api.Run]{etagOf(run.Version), runOf(run)}, nil
}

// prepare makes a launch of a request, from the project as it is now, on hosts of the caller's tenants that only allows; nil
// allows all. id is that of an existing run; "" makes one.
func (s *Server) prepare(ctx context.Context, by caller, n api.NewRun, id string, only func(core.Host) bool) (*launch.Launch, error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	book, known := set.Playbook(n.Playbook)
	if !known || !by.scope.Allows(book.Tenant) {
		return nil, unknownPlaybook(set, by, n.Playbook)
	}
	if text, err := json.Marshal(n.Vars); err != nil || len(text) > core.QuotaVars.Max {
		return nil, cmp.Or(err, core.QuotaVars.Over("the run"))
	}
	if len(n.Vars) > 0 { // expressions may read names that only these vars have
		again, err := playbooks.Parse(book.File, book.Source, playbooks.Options{Types: s.cfg.Types, Vars: n.Vars})
		if err != nil {
			return nil, err
		}
		book = again
	}
	hosts := set.Inventory.Hosts
	if len(n.Limit) > 0 {
		if hosts, err = limited(set.Inventory.Limit, by, n.Limit); err != nil {
			return nil, err
		}
	}
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool {
		return !by.scope.Allows(h.Customer) || only != nil && !only(h)
	})
	windows, board := s.cfg.Catalog.Windows()
	l, err := launch.Prepare(book, hosts, launch.Options{
		RunID: id, Files: s.cfg.Catalog.FilesOf(set, book), Vars: n.Vars, Tags: n.Tags, SkipTags: n.SkipTags, Check: n.Check, Diff: n.Diff, MaxInFlight: n.MaxInFlight,
		Revision: set.Revision.Commit, LaunchedBy: by.name, Types: s.cfg.Types, Place: "the server", Windows: windows, Board: board, SkipUnfit: n.SkipUnfit, Pool: s.cfg.Pool,
		Secrets: set.SecretRefs(), FourEyes: set.FourEyes, Trace: tracing.Traceparent(ctx),
	})
	if err == nil {
		trace.SpanFromContext(ctx).SetAttributes(tracing.Run.String(l.Run.ID), tracing.Tenant.String(l.Run.Tenant))
	}
	return l, err
}

// limited selects hosts as --limit does, of what the caller may see. @FILE would be read here, and
// is refused; a pattern that only meets others' hosts is told as one that meets none.
func limited(limit func(string) ([]core.Host, error), by caller, patterns []string) ([]core.Host, error) {
	pattern := strings.Join(patterns, ",")
	if strings.Contains(pattern, "@") {
		return nil, fmt.Errorf("limit %q: @FILE is not read by a server: send the names themselves: %w", clip(pattern, 200), core.ErrInvalid)
	}
	hosts, err := limit(pattern)
	if by.scope.All() {
		return hosts, err
	}
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool { return !by.scope.Allows(h.Customer) })
	if err != nil && !errors.Is(err, core.ErrInvalid) && !errors.Is(err, core.ErrNotFound) {
		return nil, err
	}
	if err != nil || len(hosts) == 0 { // what err suggests may be another tenant's
		return nil, fmt.Errorf("limit %q: it selects no host of yours: %w", clip(pattern, 200), core.ErrNotFound)
	}
	return hosts, nil
}
