package pages

import (
	"context"
	"net/url"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// runsView is a part of the list of runs, newest first, with its filter.
type runsView struct {
	Filter       client.RunFilter
	Since, Until string // as typed
	Problem      string // with what was typed
	Items        []api.Run
	Next         string
}

func readRuns(ctx context.Context, v visit, q url.Values) (any, error) {
	view := runsView{Since: q.Get("since"), Until: q.Get("until"), Filter: client.RunFilter{
		Playbook: q.Get("playbook"), Phase: api.Phase(q.Get("phase")), Host: q.Get("host"), Outcome: core.Outcome(q.Get("outcome")), By: q.Get("by"), Live: true,
	}}
	if view.Filter.Since, view.Filter.Until, view.Problem = rangeTyped(view.Since, view.Until); view.Problem != "" {
		return view, nil
	}
	runs, err := v.client.Runs(ctx, view.Filter, client.Page{Cursor: q.Get("cursor"), Limit: listed})
	if err != nil {
		return nil, err
	}
	view.Items, view.Next = runs.Items, nextPage(q, runs.Next)
	return view, nil
}

// Phases are the choices of the filter, those that are open first.
func (runsView) Phases() []api.Phase {
	return []api.Phase{api.Approval, api.Queued, api.Active, api.Paused, api.Stopped, api.Cancelled, api.Finished}
}

// Outcomes are the choices of the filter, the worst first.
func (runsView) Outcomes() []core.Outcome { return allOutcomes }

// Filtered reports whether the list may lack runs.
func (view runsView) Filtered() bool {
	return view.Filter != client.RunFilter{Live: true}
}
