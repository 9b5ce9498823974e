package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// signalRun sends an event to jobs of a run. A run that is not in the queue has none that waits.
func (s *Server) signalRun(ctx context.Context, by caller, in *struct {
	RunPath
	Body api.Signal
},
) (*body[api.Signalled], error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	if !queue.ForPeople(in.Body.Event) {
		return nil, fmt.Errorf("event %q is the service's own, and only the service sends it: expected the event that a suspended job waits for, as the run's jobs show: %w", in.Body.Event, core.ErrInvalid)
	}
	if job := in.Body.Job; job != nil && *job >= run.Total {
		return nil, fmt.Errorf("run %s has no job %d: expected 0 to %d: %w", run.ID, *job, run.Total-1, core.ErrInvalid)
	}
	if err := s.note(ctx, by, ledger.Entry{Tenant: run.Tenant, Action: "run.signal", Kind: "run", Subject: run.ID, After: asJSON(in.Body)}); err != nil {
		return nil, err
	}
	signalled, err := s.signal(ctx, run.ID, in.Body)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return nil, err
	}
	return &body[api.Signalled]{api.Signalled{Jobs: signalled}}, nil
}

func (s *Server) signal(ctx context.Context, run string, w api.Signal) (int, error) {
	if w.Job == nil {
		return s.cfg.Queue.Signal(ctx, run, w.Event)
	}
	ok, err := s.cfg.Queue.SignalJob(ctx, core.JobID{Run: run, Index: *w.Job}, w.Event)
	if ok {
		return 1, err
	}
	return 0, err
}
