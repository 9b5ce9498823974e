package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/playbooks"
)

func (s *Server) createRun(ctx context.Context, by caller, in *struct {
	Key  string `header:"Idempotency-Key" maxLength:"200" doc:"the same key and body make one run, however often they are sent"`
	Body api.NewRun
},
) (*body[api.Run], error) {
	l, err := s.prepare(by, in.Body)
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
	run, _, err := s.cfg.Controller.Accept(ctx, a)
	if err != nil {
		return nil, err
	}
	return &body[api.Run]{runOf(run)}, nil
}

// prepare makes a launch of what is asked for, from the definitions, on hosts of the caller's tenants.
func (s *Server) prepare(by caller, n api.NewRun) (*launch.Launch, error) {
	set := s.cfg.Definitions()
	if set == nil {
		return nil, fmt.Errorf("the server has no definitions yet: %w", core.ErrUnavailable)
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
		var err error
		if hosts, err = set.Inventory.Limit(strings.Join(n.Limit, ",")); err != nil {
			return nil, err
		}
	}
	hosts = slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool { return !by.scope.Allows(h.Customer) })
	windows, board := s.cfg.Windows()
	return launch.Prepare(book, hosts, launch.Options{
		Vars: n.Vars, Tags: n.Tags, SkipTags: n.SkipTags, Check: n.Check, Diff: n.Diff, MaxInFlight: n.MaxInFlight,
		Revision: set.Revision.Commit, LaunchedBy: by.name, Types: s.cfg.Types, Windows: windows, Board: board, SkipUnfit: n.SkipUnfit,
	})
}
