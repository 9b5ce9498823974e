package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/launch"
)

// planning registers what a launch would do, before it is one.
func (s *Server) planning() {
	handle(s, route{
		id: "plan-run", method: http.MethodPost, path: "/v1/plan", summary: "Show what a run would do, and create none", role: Operator, status: http.StatusOK,
		detail: "Takes what create-run takes. Hosts that no window fits are listed, whatever skip_no_window is. " +
			"Send the hash as plan with create-run: a run that would have other hosts by then, or another playbook, is refused.",
	}, s.planRun)
	handle(s, route{
		id: "plan-retry", method: http.MethodPost, path: "/v1/runs/{run}/retry/plan", summary: "Show what a retry would do, and create none", role: Operator, status: http.StatusOK,
		detail: "Takes what retry-run takes. Send the hash as plan with retry-run.",
	}, s.planRetry)
}

const (
	planHosts   = 1000    // names that a plan lists
	planSamples = 200_000 // samples × hosts of its forecast, which nobody keeps
)

func (s *Server) planRun(ctx context.Context, by caller, in *struct{ Body api.NewRun }) (*body[api.Plan], error) {
	n := in.Body
	n.SkipNoWindow, n.Plan = true, ""
	l, err := s.prepare(ctx, by, n, catalog.Launching{})
	return s.planned(ctx, l, err)
}

// planSchedule shows what a trigger of a schedule would launch: of a pinned one the project and the
// hosts that it pinned.
func (s *Server) planSchedule(ctx context.Context, by caller, in *SchedulePath) (*body[api.Plan], error) {
	found, err := s.schedule(ctx, by, in.Schedule)
	if err != nil {
		return nil, err
	}
	l, err := s.cfg.Catalog.PlanSchedule(ctx, by.scope, found.Definition.ID)
	return s.planned(ctx, l, err)
}

// planned shows a launch that was prepared. cause is why there is none.
func (s *Server) planned(ctx context.Context, l *launch.Launch, cause error) (*body[api.Plan], error) {
	if none, ok := errors.AsType[*launch.NoWindowError](cause); ok {
		return &body[api.Plan]{planOfNone(none)}, nil
	}
	if cause != nil {
		return nil, cause
	}
	p, err := s.planShown(ctx, l)
	return &body[api.Plan]{p}, err
}

// planOfNone is the plan of a launch of which no window fits any host: there is none.
func planOfNone(e *launch.NoWindowError) api.Plan {
	return api.Plan{Playbook: e.Playbook, Hash: hashOfPlan(nil, nil), Waves: []api.PlanWave{}, Windows: []api.PlanWindow{}, NoWindow: noWindowOf(e.Hosts)}
}

// planShown shows a launch with its forecast.
func (s *Server) planShown(ctx context.Context, l *launch.Launch) (api.Plan, error) {
	p := planOfLaunch(l)
	f, err := s.forecastOf(ctx, l)
	p.Forecast = &f
	return p, err
}

// forecastOf estimates a launch that is none yet. One is made at a time.
func (s *Server) forecastOf(ctx context.Context, l *launch.Launch) (api.Forecast, error) {
	e := estimate{at: time.Now(), launch: l, hosts: len(l.Hosts)}
	select {
	case s.forecasting <- struct{}{}:
		defer func() { <-s.forecasting }()
	case <-ctx.Done():
		return api.Forecast{}, fmt.Errorf("wait for other forecasts: %w", ctx.Err())
	}
	if err := s.forecastAt(ctx, &e, e.at); err != nil {
		return api.Forecast{}, err
	}
	f := e.show()
	f.Run = ""
	return f, nil
}

// planOfLaunch shows a launch.
func planOfLaunch(l *launch.Launch) api.Plan {
	made := l.Plan()
	p := api.Plan{
		Playbook: made.Playbook, Tenant: l.Run.Tenant, Revision: l.Snapshot.Revision, Hash: planHash(l), Check: made.Check, Hosts: made.Total, Disruptive: made.Disruptive,
		Approval: l.FourEyes, Pause: made.Pause, MaxInFlight: made.MaxInFlight, StopAfter: made.StopAfter,
		Waves: []api.PlanWave{}, Windows: []api.PlanWindow{}, NoWindow: noWindowOf(made.NoWindow),
	}
	left := planHosts
	for _, w := range made.Waves {
		wave := api.PlanWave{Wave: w.Wave, Total: w.Count, Hosts: []string{}}
		for _, h := range w.Hosts[:min(left, len(w.Hosts))] {
			wave.Hosts = append(wave.Hosts, h.Host)
		}
		left -= len(wave.Hosts)
		p.Waves = append(p.Waves, wave)
	}
	for _, w := range made.Windows {
		if w.Hosts == 0 { // all of them are among NoWindow
			continue
		}
		shown := api.PlanWindow{Set: w.Set, Hosts: w.Hosts, Need: w.Need, Starts: w.Start, Reason: w.Reason}
		i := slices.IndexFunc(l.Starts, func(s launch.Start) bool { return s.Set == w.Set && !s.At.IsZero() })
		if i >= 0 {
			shown.StartsLocal = w.Start.In(l.Starts[i].Zone).Format(localTime)
		}
		p.Windows = append(p.Windows, shown)
	}
	return p
}

func noWindowOf(list []launch.NoWindow) []api.NoWindow {
	out := make([]api.NoWindow, len(list))
	for i, n := range list {
		out[i] = api.NoWindow{Host: n.Host, Set: n.Set, Need: n.Need, Reason: n.Reason}
	}
	return out
}

// planHash identifies the part of a plan that a person agrees to: the hosts and the playbook. It
// does not depend on the time, nor on the order that windows give to hosts.
func planHash(l *launch.Launch) string {
	names := make([]string, len(l.Hosts))
	for i, h := range l.Hosts {
		names[i] = h.Name
	}
	slices.Sort(names)
	return hashOfPlan(l.Playbook.Source, names)
}

func hashOfPlan(source []byte, hosts []string) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%d\n%s\n%q", len(source), source, hosts) // a hash takes all
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// asPlanned refuses a launch that is another one than the plan that its caller has seen; "" is
// none.
func asPlanned(l *launch.Launch, plan string) error {
	if plan == "" || plan == planHash(l) {
		return nil
	}
	return fmt.Errorf("playbook %s: the hosts or the playbook changed since the plan: it would now run on %d hosts: plan it again: %w", l.Playbook.Name, len(l.Hosts), core.ErrConflict)
}
