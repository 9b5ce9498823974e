package service

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/service/scale"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/telemetry"
)

// scaleFlags set how many workers there should be, and which hook is called.
type scaleFlags struct {
	hook, secret string
	cfg          scale.Config
}

func (f *scaleFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.hook, "scale-hook", "", "command, or http(s) URL, that gets the number of workers that the pool should have, at each change")
	fl.StringVar(&f.secret, "scale-hook-secret-file", "", "file with the secret that calls of a URL are signed with")
	settings.NamesSecretFiles(fl, "scale-hook-secret-file")
	fl.IntVar(&f.cfg.Min, "scale-min", 1, "fewest workers that are wanted")
	fl.IntVar(&f.cfg.Max, "scale-max", 10, "most workers that are wanted")
	fl.IntVar(&f.cfg.Concurrency, "scale-concurrency", 0, "concurrency of one worker (default: the mean of those that are there, or 256)")
	fl.DurationVar(&f.cfg.Target, "scale-target", 5*time.Minute, "jobs that are due should start within it")
	fl.DurationVar(&f.cfg.Ahead, "scale-ahead", 2*time.Minute, "also count jobs that become due within it: as long as a new worker takes to start")
	fl.DurationVar(&f.cfg.Calm, "scale-calm", 5*time.Minute, "fewer workers are wanted once fewer would have been enough for so long")
}

// config checks the flags.
func (f *scaleFlags) config(pool string) (scale.Config, error) {
	cfg := f.cfg
	cfg.Pool = pool
	if f.secret != "" && f.hook == "" {
		return cfg, console.Invalid("--scale-hook-secret-file needs --scale-hook: the secret signs the requests to the hook")
	}
	cfg, err := cfg.Defaults()
	if err != nil {
		return cfg, console.Invalid("--scale-min, --scale-max, --scale-concurrency, --scale-target, --scale-ahead, --scale-calm: %w", err)
	}
	return cfg, nil
}

// scaler makes what follows how many workers the service should have.
func (s *service) scaler() (*scale.Scaler, error) {
	cfg, err := s.f.scale.config(cmp.Or(s.f.Queue.Pool, node.DefaultPool))
	if err != nil {
		return nil, err
	}
	parts := scale.Parts{
		Poll: func(ctx context.Context) (scale.Demand, []scale.Worker, error) {
			load, workers, err := s.api.Census(ctx)
			return s.demand(load, workers, err)
		},
		Mine:  func() bool { return s.ctl.Owns("scale/" + cfg.Pool) },
		Drain: func(ctx context.Context, w string) error { return s.api.DrainWorker(ctx, scaling, w, scaledDown) },
		Forget: func(ctx context.Context, w string) error {
			return s.api.ForgetWorker(ctx, w)
		},
		Done: func(err error) {
			if err == nil {
				s.metrics.Add(telemetry.ScaleCalls, 1, "ok")
				return
			}
			s.metrics.Add(telemetry.ScaleCalls, 1, "failed")
			if text := "--scale-hook: " + core.ErrorText(err); s.messages.Allow(text) {
				s.con.Message(s.con.Paint(console.Yellow, "trouble: ") + console.Printable(text))
			}
		},
		Log: s.log,
	}
	if s.f.scale.hook != "" {
		var secret string
		if s.f.scale.secret != "" {
			if secret, err = settings.ReadTokenFile(s.f.scale.secret); err != nil {
				return nil, fmt.Errorf("--scale-hook-secret-file: %w", err)
			}
		}
		if parts.Call, err = scale.Hook(s.f.scale.hook, []byte(secret)); err != nil {
			return nil, fmt.Errorf("--scale-hook: %w", err)
		}
		parts.Poll = func(ctx context.Context) (scale.Demand, []scale.Worker, error) {
			load, err := s.queue.Load(ctx, cfg.Ahead)
			if err != nil {
				return scale.Demand{}, nil, err
			}
			workers, err := s.api.Workers(ctx)
			return s.demand(load, workers, err)
		}
	}
	scaler, err := scale.New(cfg, parts)
	if err != nil {
		return nil, err
	}
	for _, result := range []string{"ok", "failed"} {
		s.metrics.Add(telemetry.ScaleCalls, 0, result)
	}
	s.metrics.Source(func(ctx context.Context, emit telemetry.Emit) {
		if w, known := scaler.Desired(ctx); known {
			emit(telemetry.ConcurrencyDesired, float64(w.Concurrency), cfg.Pool)
			emit(telemetry.WorkersDesired, float64(w.Workers), cfg.Pool)
		}
	})
	return scaler, nil
}

// Actor and reason in the audit log when a worker that is not needed is drained.
const (
	scaling    = "scaling"
	scaledDown = "fewer workers are needed"
)

// demand returns the work, and the workers for it, unless they could not be read.
func (s *service) demand(load queue.Load, known []api.Worker, err error) (scale.Demand, []scale.Worker, error) {
	if err != nil {
		return scale.Demand{}, nil, err
	}
	workers := make([]scale.Worker, 0, len(known))
	for _, w := range known {
		asked := w.DrainedBy == scaling
		if w.State == api.WorkerAway && !asked {
			continue
		}
		workers = append(workers, scale.Worker{
			Name: w.Name, Concurrency: w.Concurrency, Running: w.Running, Started: w.Started, Fixed: w.Fixed, Asked: asked,
			Leaving: w.State == api.WorkerCordoned || w.State == api.WorkerDraining || w.State == api.WorkerAway,
		})
	}
	return scale.Demand{Leased: load.InFlight, Due: load.Due, Runnable: load.Runnable, Soon: load.Soon, Took: s.took.mean()}, workers, nil
}

// took is how long jobs took lately: a mean in which the last hundred or so count most. It is safe
// for concurrent use.
type took struct {
	mu   sync.Mutex
	n    int
	secs float64
}

func (t *took) add(r controller.Recorded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range r.Results {
		if d := r.Results[i].Took; d > 0 {
			t.n++
			t.secs += (d.Seconds() - t.secs) / float64(min(t.n, 100))
		}
	}
}

// mean is 0 while no job has ended.
func (t *took) mean() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Duration(t.secs * float64(time.Second))
}
