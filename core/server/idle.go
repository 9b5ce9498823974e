package server

import (
	"context"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// nobodyWorks is why nothing starts, if no worker has reported lately.
const nobodyWorks = "no worker of this pool reports: see turnus admin workers ls"

// deserted reports whether no worker is registered on the board. A board that cannot be read counts
// as one with workers.
func (s *Server) deserted(ctx context.Context) bool {
	names, err := s.cfg.Board.Names(ctx, api.WorkerPrefix)
	return err == nil && len(names) == 0
}

// whyPending is why a job has not started: before all else, that there is nobody to start it.
func (s *Server) whyPending(ctx context.Context, e api.Explanation) api.Explanation {
	if e.State == core.Pending && s.deserted(ctx) {
		e.Reason, e.ReasonCode = nobodyWorks+"; "+e.Reason, core.NoWorker
	}
	return e
}

// whyIdle gives a run of which nothing happens the same reason, unless it has one.
func (s *Server) whyIdle(ctx context.Context, shown *api.Run) {
	if l := shown.Live; shown.Phase == api.Active && shown.Reason == "" && l.Pending > 0 && l.InFlight == 0 && s.deserted(ctx) {
		shown.Reason, shown.ReasonCode = nobodyWorks, core.NoWorker
	}
}
