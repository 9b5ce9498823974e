package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

func (s *Server) createRun(ctx context.Context, by caller, in *struct {
	Idempotent
	Body api.NewRun
},
) (*versioned[api.Run], error) {
	l, err := s.prepare(by, in.Body, nil)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(in.Body)
	if err != nil {
		return nil, err
	}
	a := controller.Acceptance{Launch: l, By: by.name, Key: in.Key, Request: request, Paused: in.Body.Paused}
	if in.Body.Criticality != nil {
		a.Criticality = in.Body.Criticality
	}
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

func (s *Server) replaceRun(ctx context.Context, by caller, in *struct {
	RunPath
	IfMatch
	Body api.NewRun
},
) (*versioned[api.Run], error) {
	before, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	if err := in.matches(etagOf(before.Version)); err != nil {
		return nil, err
	}
	l, err := s.prepareAs(by, in.Body, before.ID, nil)
	if err != nil {
		return nil, err
	}
	if l.Run.Tenant != before.Tenant {
		return nil, fmt.Errorf("the run is of tenant %q and stays so, but playbook %q is of %q: %w", before.Tenant, in.Body.Playbook, l.Run.Tenant, core.ErrConflict)
	}
	n := ledger.NewRun{Criticality: before.Criticality, Approvals: before.Approvals} // an approval that was asked for is not dropped
	if in.Body.Criticality != nil {
		n.Criticality = *in.Body.Criticality
	}
	if in.Body.FourEyes {
		n.Approvals = max(n.Approvals, 1)
	}
	return s.amend(ctx, by, before, l, n)
}

// amend puts a launch in the place of what a run was accepted with.
func (s *Server) amend(ctx context.Context, by caller, before ledger.Run, l *launch.Launch, n ledger.NewRun) (*versioned[api.Run], error) {
	encoded, err := launch.EncodeRun(l.Run)
	if err != nil {
		return nil, err
	}
	n.Playbook, n.Revision, n.Snapshot, n.Queue = l.Playbook.Name, l.Snapshot.Revision, l.Run.Payload, encoded
	n.Jobs = make([]ledger.JobHost, len(l.Hosts))
	for i, h := range l.Hosts {
		n.Jobs[i] = ledger.JobHost{Host: h.Name, Tenant: h.Customer}
	}
	run, err := s.cfg.Ledger.Amend(ctx, by.scope, by.name, before.ID, ledger.Amendment{Version: before.Version, New: n})
	if err != nil {
		return nil, err
	}
	s.cfg.Controller.Poke()
	return &versioned[api.Run]{etagOf(run.Version), runOf(run)}, nil
}

// maxRetry bounds the hosts of one retry.
const maxRetry = 200_000

func (s *Server) retryRun(ctx context.Context, by caller, in *struct {
	RunPath
	Idempotent
	Body api.Retry
},
) (*versioned[api.Run], error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	if !run.Complete() {
		return nil, fmt.Errorf("run %s is %s: wait for its end, or cancel it, before it is tried again: %w", run.ID, run.Phase, core.ErrConflict)
	}
	hosts, err := s.hostsOf(ctx, by, run, in.Body.Outcomes)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("no host of run %s ended so: there is nothing to try again: %w", run.ID, core.ErrConflict)
	}
	text, err := s.cfg.Ledger.Snapshot(ctx, by.scope, run.ID)
	if err != nil {
		return nil, err
	}
	var was launch.Snapshot
	if err := json.Unmarshal(text, &was); err != nil {
		return nil, fmt.Errorf("read the snapshot of run %s: %w", run.ID, err)
	}
	again := api.NewRun{Playbook: run.Playbook, Vars: launch.Exact(was.Vars), Tags: was.Tags, SkipTags: was.SkipTags, Check: was.Check, Diff: was.Diff}
	l, err := s.prepare(by, again, hosts)
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(struct {
		Retry string
		Body  api.Retry
	}{run.ID, in.Body})
	if err != nil {
		return nil, err
	}
	return s.accept(ctx, controller.Acceptance{Launch: l, By: by.name, Key: in.Key, Request: request, Criticality: &run.Criticality, Approvals: run.Approvals})
}

// hostsOf are the hosts of a run whose jobs ended with one of the outcomes; without any, those that are not good.
func (s *Server) hostsOf(ctx context.Context, by caller, run ledger.Run, outcomes []core.Outcome) (map[string]bool, error) {
	if len(outcomes) == 0 {
		outcomes = slices.DeleteFunc(core.Outcomes(), core.Outcome.Good)
	}
	hosts := map[string]bool{}
	for _, o := range outcomes {
		if !o.Valid() {
			return nil, fmt.Errorf("outcome %q, expected one of %v: %w", o, core.Outcomes(), core.ErrInvalid)
		}
		for p := (ledger.Page{Limit: ledger.MaxPage}); run.Outcomes[o] > 0; {
			jobs, next, err := s.cfg.Ledger.Jobs(ctx, by.scope, run.ID, ledger.JobFilter{Outcome: o}, p)
			if err != nil {
				return nil, err
			}
			for _, j := range jobs {
				hosts[j.Host] = true
			}
			if len(hosts) > maxRetry {
				return nil, fmt.Errorf("more than %d hosts to try again: launch the playbook with a limit instead: %w", maxRetry, core.ErrInvalid)
			}
			if next == "" {
				break
			}
			p.After = next
		}
	}
	return hosts, nil
}

// prepare makes a launch of what is asked for, from the definitions, on hosts of the caller's tenants;
// only, when given, narrows them further.
func (s *Server) prepare(by caller, n api.NewRun, only map[string]bool) (*launch.Launch, error) {
	return s.prepareAs(by, n, "", only)
}

func (s *Server) prepareAs(by caller, n api.NewRun, id string, only map[string]bool) (*launch.Launch, error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	book, known := set.Playbook(n.Playbook)
	if !known || !by.scope.Allows(book.Tenant) {
		return nil, fmt.Errorf("playbook %q is not in the definitions: %w", n.Playbook, core.ErrNotFound)
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
		return !by.scope.Allows(h.Customer) || only != nil && !only[h.Name]
	})
	windows, board := s.cfg.Catalog.Windows()
	return launch.Prepare(book, hosts, launch.Options{
		RunID: id, Files: s.cfg.Catalog.FilesOf(set, book), Vars: n.Vars, Tags: n.Tags, SkipTags: n.SkipTags, Check: n.Check, Diff: n.Diff, MaxInFlight: n.MaxInFlight,
		Revision: set.Revision.Commit, LaunchedBy: by.name, Types: s.cfg.Types, Windows: windows, Board: board, SkipUnfit: n.SkipUnfit,
	})
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
