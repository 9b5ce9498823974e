package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// nodes registers workers and the queue. They serve all tenants, and report about all: a tenant's
// token is refused.
func (s *Server) nodes() {
	handle(s, route{
		id: "list-workers", method: http.MethodGet, path: "/v1/workers", summary: "List workers, by name", role: Viewer, everyone: true,
		detail: "Those that reported within 10 s, and those that are away and were cordoned or drained.",
	}, s.listWorkers)
	order := func(id, verb, summary, detail string, change func(*api.Order)) {
		handle(s, route{
			id: id, method: http.MethodPost, path: "/v1/workers/{worker}/" + verb, summary: summary, detail: detail, role: Operator, everyone: true, status: http.StatusOK,
		}, func(ctx context.Context, by caller, in *struct {
			Worker string `path:"worker" maxLength:"100"`
			Body   api.Why
		},
		) (*body[api.Worker], error) {
			return s.order(ctx, by, "worker."+verb, in.Worker, in.Body.Reason, change)
		})
	}
	order("cordon-worker", "cordon", "Give a worker no further jobs", "Its jobs continue.", func(o *api.Order) { o.Cordoned = true })
	order("uncordon-worker", "uncordon", "Give a worker jobs again", "It also ends a drain, if the worker has not ended yet.", func(o *api.Order) { o.Cordoned, o.Draining = false, false })
	order("drain-worker", "drain", "End a worker", "It suspends its jobs after the step that runs, so that other workers continue them, and ends.", func(o *api.Order) { o.Cordoned, o.Draining = true, true })
	handle(s, route{id: "get-queue", method: http.MethodGet, path: "/v1/queue", summary: "Show the state of the queue", role: Viewer, everyone: true}, s.getQueue)
	handle(s, route{
		id: "list-settings", method: http.MethodGet, path: "/v1/settings", summary: "List the settings of the server that answers, by name", role: Admin, everyone: true,
		detail: "Values have … in the place of secrets. Settings change with a restart.",
	}, func(context.Context, caller, *struct{}) (*list[api.Setting], error) {
		return listOf(s.cfg.Settings, ""), nil
	})
}

// worker reads a worker's report, and its order.
func (s *Server) worker(ctx context.Context, name string) (w api.Worker, o api.Order, found bool, err error) {
	data, _, err := s.cfg.Board.Posted(ctx, api.WorkerDocument(name), 0)
	alive := err == nil
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return w, o, false, err
	}
	if alive && json.Unmarshal(data, &w) != nil {
		return w, o, false, fmt.Errorf("worker %s sends something that is not understood: is it of another version? %w", name, core.ErrConflict)
	}
	data, _, err = s.cfg.Board.Posted(ctx, api.OrderDocument(name), 0)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return w, o, false, err
	}
	reported := err == nil && json.Unmarshal(data, &o) == nil
	w.Name = name
	if o.Draining {
		w.DrainedBy = o.By
	}
	switch {
	case !alive:
		w.State = api.WorkerAway
	case o.Draining:
		w.State = api.WorkerDraining
	case o.Cordoned:
		w.State = api.WorkerCordoned
	case reported && o.At.After(w.Reported) && (w.State == api.WorkerCordoned || w.State == api.WorkerDraining): // it has yet to report what it made of it
		w.State = api.WorkerReady
	}
	return w, o, alive || reported && (o.Cordoned || o.Draining), nil
}

func (s *Server) listWorkers(ctx context.Context, _ caller, in *struct{ Page }) (*list[api.Worker], error) {
	names := map[string]bool{}
	for _, prefix := range []string{api.WorkerPrefix, api.OrderPrefix} {
		documents, err := s.cfg.Board.Names(ctx, prefix)
		if err != nil {
			return nil, err
		}
		for _, d := range documents {
			names[strings.TrimPrefix(d, prefix)] = true
		}
	}
	sorted, next := pageOf(sortedKeys(names), strings.Clone, in.Page)
	items := make([]api.Worker, 0, len(sorted))
	for _, name := range sorted {
		w, _, found, err := s.worker(ctx, name)
		if err != nil && !errors.Is(err, core.ErrConflict) {
			return nil, err
		}
		if found {
			items = append(items, w)
		}
	}
	return listOf(items, next), nil
}

// order posts an order to a worker. The order stays when the worker is started again under its
// name.
func (s *Server) order(ctx context.Context, by caller, action, name, reason string, change func(*api.Order)) (*body[api.Worker], error) {
	_, before, found, err := s.worker(ctx, name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("worker %q is not there, none of that name has reported for 10 s: turnus admin workers ls lists them: %w", clip(name, 100), core.ErrNotFound)
	}
	after := before
	change(&after)
	after.At = time.Now().UTC()
	if !before.Draining || !after.Draining { // otherwise its author is kept
		after.By, after.Reason = by.name, reason
	}
	if err := s.note(ctx, by, ledger.Entry{Action: action, Kind: "worker", Subject: name, Before: asJSON(before), After: asJSON(after)}); err != nil {
		return nil, err
	}
	if _, err := s.cfg.Board.Post(ctx, api.OrderDocument(name), asJSON(after), api.OrderKeep); err != nil {
		return nil, fmt.Errorf("send the order to worker %s: %w", name, err)
	}
	w, _, _, err := s.worker(ctx, name)
	if err != nil {
		return nil, err
	}
	return &body[api.Worker]{w}, nil
}

// Workers lists the workers by name, as the API does: workers that are alive, and those that have
// an order and are away.
func (s *Server) Workers(ctx context.Context) ([]api.Worker, error) {
	list, err := s.listWorkers(ctx, caller{}, &struct{ Page }{Page{Limit: metricsWorkers}})
	if err != nil {
		return nil, err
	}
	return list.Body.Items, nil
}

// DrainWorker orders a worker to give its jobs away and end, as the API does. The audit log has who
// and reason.
func (s *Server) DrainWorker(ctx context.Context, who, name, reason string) error {
	_, err := s.order(ctx, caller{name: who}, "worker.drain", name, reason, func(o *api.Order) { o.Cordoned, o.Draining = true, true })
	return err
}

// ForgetWorker removes the order to a worker that has ended, so that another of its name begins as
// new.
func (s *Server) ForgetWorker(ctx context.Context, name string) error {
	_, err := s.cfg.Board.Post(ctx, api.OrderDocument(name), asJSON(api.Order{}), time.Second)
	return err
}

func (s *Server) getQueue(ctx context.Context, _ caller, _ *struct{}) (*body[api.Queue], error) {
	q := api.Queue{Backend: s.cfg.Backend}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	st, err := s.cfg.Queue.Stats(ctx)
	if err != nil {
		q.Away = err.Error()
		return &body[api.Queue]{q}, nil
	}
	q.Runs, q.Tenants, q.Ready, q.InFlight, q.Timed, q.Sessions, q.Oldest = st.Runs, st.Tenants, st.Ready, st.InFlight, st.Timed, st.Sessions, core.InSeconds(st.Oldest)
	return &body[api.Queue]{q}, nil
}
