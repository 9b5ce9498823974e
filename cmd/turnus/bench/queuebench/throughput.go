package queuebench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Params of Throughput. Zero means 100,000 jobs in 3 runs, batches of 64, one node.
type Params struct {
	Jobs         int `json:"jobs"`
	Runs         int `json:"runs"`
	Batch        int `json:"batch"`
	Nodes        int `json:"nodes"`
	InFlightHeld int `json:"in_flight_held"` // jobs that another node holds all the time
	Bytes        int `json:"bytes"`          // of each job's data, and of what is recorded of it
}

func (p *Params) defaults() error {
	for _, f := range []struct {
		v   *int
		def int
	}{{&p.Jobs, 100_000}, {&p.Runs, 3}, {&p.Batch, 64}, {&p.Nodes, 1}} {
		if *f.v == 0 {
			*f.v = f.def
		}
	}
	if p.Runs < 1 || p.Jobs < p.Runs || p.Nodes < 1 || p.InFlightHeld < 0 || p.Bytes < 0 || p.Bytes > queue.MaxDataLength || p.Batch < 1 || p.Batch > queue.MaxAcksPerTurn {
		return fmt.Errorf("queue benchmark %+v: expected at least one job a run, one node, and a batch of 1 to %d: %w", *p, queue.MaxAcksPerTurn, core.ErrInvalid)
	}
	return nil
}

// ThroughputResult is a measurement of Throughput.
type ThroughputResult struct {
	Params
	SubmitSeconds float64     `json:"submit_seconds"`
	Seconds       float64     `json:"seconds"` // submit included
	JobsPerSecond float64     `json:"jobs_per_second"`
	Turns         int         `json:"turns"`
	Turn          Percentiles `json:"turn"`
}

// Throughput measures the whole cycle of no-op jobs: submit, lease, acknowledge.
func Throughput(ctx context.Context, q queue.Queue, p Params) (ThroughputResult, error) {
	res := ThroughputResult{Params: p}
	if err := res.defaults(); err != nil {
		return res, err
	}
	p = res.Params
	if p.InFlightHeld > 0 {
		release, err := hold(ctx, q, p.InFlightHeld)
		if err != nil {
			return res, err
		}
		defer release()
	}
	bytes := make([]byte, p.Bytes)
	for i := range bytes {
		bytes[i] = "a host and its vars, in JSON; "[i%30]
	}
	runs := make([]queue.Run, p.Runs)
	for i := range runs {
		n := p.Jobs / p.Runs
		if i < p.Jobs%p.Runs {
			n++
		}
		runs[i] = bulk(runID("cycle"), n)
		for j := range runs[i].Targets {
			runs[i].Targets[j].Data = bytes
		}
	}
	start := time.Now()
	for _, r := range runs {
		if _, err := queue.SubmitOne(ctx, q, r); err != nil {
			return res, fmt.Errorf("submit: %w", err)
		}
	}
	res.SubmitSeconds = time.Since(start).Seconds()

	working, stop := context.WithCancel(ctx)
	defer stop()
	var left atomic.Int64
	left.Store(int64(p.Jobs))
	took := make([][]time.Duration, p.Nodes)
	c := crew{
		nodes: p.Nodes, batch: p.Batch, detail: bytes,
		leased: func(_ int, leases []queue.Lease, _ time.Time) {
			if left.Add(-int64(len(leases))) <= 0 {
				stop()
			}
		},
		turned: func(node int, d time.Duration) { took[node] = append(took[node], d) },
	}
	if err := c.run(working, q); err != nil {
		return res, err
	}
	if err := ctx.Err(); err != nil {
		return res, err
	}
	res.Seconds = time.Since(start).Seconds()
	res.JobsPerSecond = float64(p.Jobs) / res.Seconds
	var all []time.Duration
	for _, t := range took {
		all = append(all, t...)
	}
	res.Turns, res.Turn = len(all), percentiles(all)
	for _, r := range runs {
		st, err := q.Status(ctx, r.ID)
		if err != nil {
			return res, err
		}
		if st.Outcomes[core.Unchanged] != st.Total {
			return res, fmt.Errorf("run %s ended with %v of %d jobs: the measurement is void", r.ID, st.Outcomes, st.Total)
		}
	}
	return res, nil
}

// hold leases n jobs in a session of its own, which beats until release is called.
func hold(ctx context.Context, q queue.Queue, n int) (release func(), err error) {
	session, err := q.Open(ctx, "bench-holder")
	if err != nil {
		return nil, fmt.Errorf("open the holder: %w", err)
	}
	r := bulk(runID("held"), n)
	if _, err := queue.SubmitOne(ctx, q, r); err != nil {
		return nil, fmt.Errorf("submit jobs to hold: %w", err)
	}
	for held := 0; held < n; {
		res, err := q.Turn(ctx, queue.Turn{Session: session, Want: min(n-held, queue.MaxLeasesTurn)})
		if err != nil {
			return nil, fmt.Errorf("lease jobs to hold: %w", err)
		}
		if held += len(res.Leases); len(res.Leases) == 0 && !res.More {
			return nil, fmt.Errorf("lease jobs to hold: only %d of %d can be had: %w", held, n, core.ErrConflict)
		}
	}
	beating, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		beat := time.NewTicker(queue.BeatEvery)
		defer beat.Stop()
		for {
			select {
			case <-beating.Done():
				return
			case <-beat.C:
				if _, err := q.Beat(beating, session); err != nil {
					return // the next Status shows what came of it
				}
			}
		}
	}()
	return func() {
		stop()
		<-ended
		leave := context.WithoutCancel(ctx)
		_ = q.Cancel(leave, r.ID, "the measurement has ended")
		_ = q.Close(leave, session)
	}, nil
}

// SubmitResult is a measurement of Submit.
type SubmitResult struct {
	Jobs          int     `json:"jobs"`
	Seconds       float64 `json:"seconds"`
	JobsPerSecond float64 `json:"jobs_per_second"`
	CancelSeconds float64 `json:"cancel_seconds"`
}

// Submit measures accepting one run of so many jobs, and ending it unstarted. While it is pending,
// pending is called (nil is allowed), to check memory.
func Submit(ctx context.Context, q queue.Queue, jobs int, pending func() error) (SubmitResult, error) {
	res := SubmitResult{Jobs: jobs}
	r := bulk(runID("submit"), jobs)
	start := time.Now()
	if _, err := queue.SubmitOne(ctx, q, r); err != nil {
		return res, fmt.Errorf("submit %d jobs: %w", jobs, err)
	}
	res.Seconds = time.Since(start).Seconds()
	res.JobsPerSecond = float64(jobs) / res.Seconds
	if pending != nil {
		if err := pending(); err != nil {
			return res, err
		}
	}
	start = time.Now()
	if err := q.Cancel(ctx, r.ID, "the measurement has ended"); err != nil {
		return res, err
	}
	res.CancelSeconds = time.Since(start).Seconds()
	return res, nil
}
