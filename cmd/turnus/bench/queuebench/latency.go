package queuebench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// IdleToStart measures the time from the call of Submit until a node that
// was waiting has the job, samples times, one job each.
func IdleToStart(ctx context.Context, q queue.Queue, nodes, samples int) (Percentiles, error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	started := make(chan time.Time, 1)
	c := crew{nodes: nodes, batch: 1, leased: func(_ int, _ []queue.Lease, at time.Time) { started <- at }}
	ended := make(chan error, 1)
	go func() { ended <- c.run(working, q) }()

	times := make([]time.Duration, 0, samples)
	err := func() error {
		for range samples {
			// Let the nodes go back to sleep: what is measured is waking them.
			if core.Sleep(ctx, 5*time.Millisecond) != nil {
				return ctx.Err()
			}
			start := time.Now()
			if _, err := queue.SubmitOne(ctx, q, bulk(runID("idle"), 1)); err != nil {
				return fmt.Errorf("submit: %w", err)
			}
			select {
			case at := <-started:
				times = append(times, at.Sub(start))
			case err := <-ended:
				ended <- err
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}()
	stop()
	if crewErr := <-ended; err == nil {
		err = crewErr
	}
	return percentiles(times), err
}

// TimedResult is a measurement of Burst and Spread: start minus due.
type TimedResult struct {
	Jobs       int          `json:"jobs"`
	Nodes      int          `json:"nodes"`
	Over       core.Seconds `json:"over_seconds"` // between the first and the last due time
	Late       Percentiles  `json:"late"`
	AllStarted core.Seconds `json:"all_started_seconds"` // from the last due time to the last start
	Early      int          `json:"early"`               // started before they were due: always 0
}

// Burst measures jobs that all become due at one instant, each timed alone.
func Burst(ctx context.Context, q queue.Queue, nodes, batch, jobs int, lead time.Duration) (TimedResult, error) {
	return timed(ctx, q, nodes, batch, jobs, lead, 0)
}

// Spread measures jobs whose due times are spread evenly over a span of time.
func Spread(ctx context.Context, q queue.Queue, nodes, jobs int, over time.Duration) (TimedResult, error) {
	return timed(ctx, q, nodes, 16, jobs, 200*time.Millisecond, over)
}

func timed(ctx context.Context, q queue.Queue, nodes, batch, jobs int, lead, over time.Duration) (TimedResult, error) {
	res := TimedResult{Jobs: jobs, Nodes: nodes, Over: core.InSeconds(over)}
	r := bulk(runID("timed"), jobs)
	first := time.Now().Add(lead).Round(0)
	due := make([]time.Time, jobs)
	for i := range due {
		due[i] = first.Add(over * time.Duration(i) / time.Duration(max(jobs-1, 1)))
		r.Segments = append(r.Segments, queue.Segment{Due: due[i], Count: 1})
	}
	if _, err := queue.SubmitOne(ctx, q, r); err != nil {
		return res, fmt.Errorf("submit: %w", err)
	}
	return started(ctx, q, res, batch, first, func(job core.JobID) time.Time { return due[job.Index] }, due[jobs-1])
}

// started leases all jobs, the first of which is due at first and the last at end.
func started(ctx context.Context, q queue.Queue, res TimedResult, batch int, first time.Time, due func(core.JobID) time.Time, end time.Time) (TimedResult, error) {
	if !time.Now().Before(first) {
		return res, fmt.Errorf("submitting %d timed jobs took longer than the lead: choose a longer one", res.Jobs)
	}
	working, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var late []time.Duration
	var last time.Time
	c := crew{nodes: res.Nodes, batch: batch, leased: func(_ int, leases []queue.Lease, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range leases {
			d := at.Sub(due(l.Job))
			if d < 0 {
				res.Early++
			}
			late = append(late, d)
		}
		if last = at; len(late) == res.Jobs {
			stop()
		}
	}}
	if err := c.run(working, q); err != nil {
		return res, err
	}
	if err := ctx.Err(); err != nil {
		return res, err
	}
	res.AllStarted = core.InSeconds(last.Sub(end))
	res.Late = percentiles(late)
	return res, nil
}
