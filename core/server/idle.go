package server

import (
	"context"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// nobodyWorks is why nothing starts, if no worker has reported lately.
const nobodyWorks = "no worker of this pool reports: see turnus admin workers ls"

// takesNone is why none of the workers that report takes a job: "" if one does.
func takesNone(workers []api.Worker) string {
	var states []string
	for _, w := range workers {
		switch w.State {
		case api.WorkerReady, api.WorkerBusy:
			return ""
		case api.WorkerAway:
		default:
			states = append(states, w.State)
		}
	}
	if len(states) == 0 {
		return nobodyWorks
	}
	slices.Sort(states)
	return "every worker of this pool is " + strings.Join(slices.Compact(states), " or ") + ": see turnus admin workers ls"
}

// unworked is why no worker takes a job: "" if one does. A board that cannot be read counts as one
// with such a worker.
func (s *Server) unworked(ctx context.Context) string {
	names, err := s.cfg.Board.Names(ctx, api.WorkerPrefix)
	if err != nil {
		return ""
	}
	var workers []api.Worker
	for _, name := range names[:min(len(names), metricsWorkers)] {
		w, _, _, err := s.worker(ctx, strings.TrimPrefix(name, api.WorkerPrefix))
		if err != nil || takesNone([]api.Worker{w}) == "" {
			return ""
		}
		workers = append(workers, w)
	}
	return takesNone(workers)
}

// whyPending is why a job has not started: before all else, that no worker takes it.
func whyPending(e api.Explanation, unworked string) api.Explanation {
	if e.State == core.Pending && unworked != "" {
		e.Reason, e.ReasonCode = unworked+"; "+e.Reason, core.NoWorker
	}
	return e
}

// whyIdle gives a run of which nothing happens the same reason, unless it has one.
func (s *Server) whyIdle(ctx context.Context, shown *api.Run) {
	if l := shown.Live; shown.Phase == api.Active && shown.Reason == "" && l.Pending > 0 && l.InFlight == 0 {
		if why := s.unworked(ctx); why != "" {
			shown.Reason, shown.ReasonCode = why, core.NoWorker
		}
	}
}
