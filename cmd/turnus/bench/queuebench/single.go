package queuebench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// SingleParams are those of Single. Zero means 50,000 runs, one a call, from one caller, and no
// node.
type SingleParams struct {
	Runs    int `json:"runs"`
	Batch   int `json:"batch"` // runs of one Submit
	Callers int `json:"callers"`
	Nodes   int `json:"nodes"` // that work meanwhile, with turns of 256
}

func (p *SingleParams) defaults() error {
	for _, f := range []struct {
		v   *int
		def int
	}{{&p.Runs, 50_000}, {&p.Batch, 1}, {&p.Callers, 1}} {
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if p.Runs < 1 || p.Batch < 1 || p.Batch > queue.MaxSubmit || p.Callers < 1 || p.Nodes < 0 {
		return fmt.Errorf("queue benchmark %+v: expected runs, callers and a batch of 1 to %d: %w", *p, queue.MaxSubmit, core.ErrInvalid)
	}
	return nil
}

// SingleResult is a measurement of Single.
type SingleResult struct {
	SingleParams
	SubmitSeconds    float64 `json:"submit_seconds"`
	SubmitsPerSecond float64 `json:"submits_per_second"`
	Seconds          float64 `json:"seconds"`         // until the last run is complete; 0 without nodes
	JobsPerSecond    float64 `json:"jobs_per_second"` // 0 without nodes
	BytesPerRun      float64 `json:"bytes_per_run"`   // of a pending run, of all memory of the server; 0 if unknown
}

// Single measures runs of one host: how fast they are accepted and, with nodes, how fast they end.
func Single(ctx context.Context, q queue.Queue, p SingleParams) (SingleResult, error) {
	res := SingleResult{SingleParams: p}
	if err := res.defaults(); err != nil {
		return res, err
	}
	p = res.SingleParams
	runs := singles(p.Runs)
	working, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	if p.Nodes > 0 {
		var left atomic.Int64
		left.Store(int64(p.Runs))
		c := crew{nodes: p.Nodes, batch: queue.MaxLeasesTurn, leased: func(_ int, leases []queue.Lease, _ time.Time) {
			if left.Add(-int64(len(leases))) <= 0 {
				stop()
			}
		}}
		go func() { ended <- c.run(working, q) }()
	} else {
		ended <- nil
	}
	start := time.Now()
	err := submitSingles(ctx, q, runs, p)
	if res.SubmitSeconds = time.Since(start).Seconds(); err != nil {
		stop()
		return res, errors.Join(err, <-ended)
	}
	res.SubmitsPerSecond = float64(p.Runs) / res.SubmitSeconds
	if err := <-ended; err != nil || ctx.Err() != nil {
		return res, cmp.Or(err, ctx.Err())
	}
	if p.Nodes > 0 {
		res.Seconds = time.Since(start).Seconds()
		res.JobsPerSecond = float64(p.Runs) / res.Seconds
	}
	return res, nil
}

func singles(n int) []queue.Run {
	runs, id := make([]queue.Run, n), runID("single")
	for i := range runs {
		runs[i] = bulk(fmt.Sprintf("%s-%d", id, i), 1)
	}
	return runs
}

// submitSingles gives each caller its part of the runs, in batches. It returns an error of one of
// them.
func submitSingles(ctx context.Context, q queue.Queue, runs []queue.Run, p SingleParams) error {
	var next atomic.Int64
	errs := make([]error, p.Callers)
	var wg sync.WaitGroup
	for c := range p.Callers {
		wg.Go(func() {
			for errs[c] == nil {
				from := int(next.Add(int64(p.Batch))) - p.Batch
				if from >= len(runs) {
					return
				}
				for _, answer := range q.Submit(ctx, runs[from:min(from+p.Batch, len(runs))]...) {
					errs[c] = cmp.Or(errs[c], answer.Err)
				}
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// SingleBurst is Burst with a run for each job.
func SingleBurst(ctx context.Context, q queue.Queue, nodes, batch, runs int, lead time.Duration) (TimedResult, error) {
	res := TimedResult{Jobs: runs, Nodes: nodes}
	due := time.Now().Add(lead).Round(0)
	list := singles(runs)
	for i := range list {
		list[i].Segments = []queue.Segment{{Due: due, Count: 1}}
	}
	if err := submitSingles(ctx, q, list, SingleParams{Batch: 250, Callers: 1}); err != nil {
		return res, fmt.Errorf("submit: %w", err)
	}
	return started(ctx, q, res, batch, due, func(core.JobID) time.Time { return due }, due)
}
