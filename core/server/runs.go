package server

import (
	"context"
	"net/http"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// page asks for a part of a list.
type page struct {
	Cursor string `query:"cursor" doc:"of the page before" maxLength:"1000"`
	Limit  int    `query:"limit" doc:"at most so many" minimum:"1" maximum:"1000" default:"100"`
}

func (p page) ledger() ledger.Page { return ledger.Page{After: p.Cursor, Limit: p.Limit} }

// list is the answer to a list.
type list[T any] struct {
	Body struct {
		Items []T    `json:"items"`
		Next  string `json:"next,omitempty" doc:"cursor of the next page"`
	}
}

func listOf[T any](items []T, next string) *list[T] {
	out := &list[T]{}
	out.Body.Items, out.Body.Next = items, next
	if items == nil {
		out.Body.Items = []T{}
	}
	return out
}

// body is the answer of one resource.
type body[T any] struct{ Body T }

func (s *Server) runs() {
	handle(s, route{id: "create-run", method: http.MethodPost, path: "/v1/runs", summary: "Run a playbook", role: Operator, status: http.StatusCreated}, s.createRun)
	handle(s, route{id: "list-runs", method: http.MethodGet, path: "/v1/runs", summary: "List runs, newest first", role: Viewer}, s.listRuns)
	handle(s, route{id: "get-run", method: http.MethodGet, path: "/v1/runs/{run}", summary: "Show a run", role: Viewer}, s.getRun)
	handle(s, route{id: "cancel-run", method: http.MethodPost, path: "/v1/runs/{run}/cancel", summary: "End a run: no job of it starts any more", role: Operator}, s.cancelRun)
}

type runPath struct {
	Run string `path:"run" maxLength:"128"`
}

func (s *Server) listRuns(ctx context.Context, by caller, in *struct {
	page
	Playbook string `query:"playbook" maxLength:"200"`
	Host     string `query:"host" maxLength:"253" doc:"with an outcome on this host"`
},
) (*list[api.Run], error) {
	runs, next, err := s.cfg.Ledger.Runs(ctx, by.scope, ledger.RunFilter{Playbook: in.Playbook, Host: in.Host}, in.ledger())
	if err != nil {
		return nil, err
	}
	items := make([]api.Run, len(runs))
	for i := range runs {
		items[i] = runOf(runs[i])
	}
	return listOf(items, next), nil
}

func (s *Server) getRun(ctx context.Context, by caller, in *runPath) (*body[api.Run], error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	return &body[api.Run]{runOf(run)}, nil
}

func (s *Server) cancelRun(ctx context.Context, by caller, in *struct {
	runPath
	Body api.Why
},
) (*body[api.Run], error) {
	run, err := s.cfg.Controller.Cancel(ctx, by.scope, by.name, in.Run, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return &body[api.Run]{runOf(run)}, nil
}

// runOf shows a run of the ledger.
func runOf(r ledger.Run) api.Run {
	phase := api.Phase(r.Phase)
	if r.Phase == ledger.PhaseAwaiting {
		phase = api.Approval
	}
	return api.Run{
		ID: r.ID, Tenant: r.Tenant, Playbook: r.Playbook, Revision: r.Revision, Phase: phase, Reason: r.Reason, LaunchedBy: r.LaunchedBy,
		Criticality: r.Criticality, Created: r.Created, Ended: r.Ended, Total: r.Total, Outcomes: r.Outcomes,
	}
}
