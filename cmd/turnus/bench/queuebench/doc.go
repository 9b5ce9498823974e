// Package queuebench owns how a queue is measured: throughput of the whole cycle,
// time from idle to start, bursts and timed jobs, on any queue.Queue; and
// fairness of three policies, in virtual time.
//
// It prints nothing, reads no flags and must not know how a queue is built, except the queue in
// memory, which the simulation of fairness drives. A queue under measurement is used by nobody else
// meanwhile.
package queuebench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Percentiles of measured times.
type Percentiles struct {
	Samples int          `json:"samples"`
	P50     core.Seconds `json:"p50_seconds"`
	P99     core.Seconds `json:"p99_seconds"`
	Max     core.Seconds `json:"max_seconds"`
}

// percentiles sorts times.
func percentiles(times []time.Duration) Percentiles {
	if len(times) == 0 {
		return Percentiles{}
	}
	slices.Sort(times)
	at := func(share float64) core.Seconds {
		return core.InSeconds(times[min(int(share*float64(len(times))), len(times)-1)])
	}
	return Percentiles{Samples: len(times), P50: at(0.50), P99: at(0.99), Max: at(1)}
}

// runID is new for every measurement, so that one queue can be measured twice.
func runID(what string) string { return "bench-" + what + "-" + rand.Text()[:12] }

// bulk is a run of n no-op jobs on hosts of its own.
func bulk(id string, n int) queue.Run {
	targets := make([]queue.Target, n)
	for i := range targets {
		targets[i].Host = fmt.Sprintf("%s-%d", id, i)
	}
	return queue.Run{ID: id, Tenant: "bench", Targets: targets}
}

func done(leases []queue.Lease, acks []queue.Ack, detail []byte) []queue.Ack {
	acks = acks[:0]
	for _, l := range leases {
		acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Unchanged, Detail: detail})
	}
	return acks
}

// crew is a number of nodes that take jobs and acknowledge them with the next turn.
type crew struct {
	nodes, batch int
	leased       func(node int, leases []queue.Lease, at time.Time) // called by each node for itself
	turned       func(node int, took time.Duration)                 // may be nil
	detail       []byte                                             // of each job
}

// run works until ctx ends. It returns the first error that was not ctx's end.
func (c *crew) run(ctx context.Context, q queue.Queue) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, c.nodes)
	var wg sync.WaitGroup
	for n := range c.nodes {
		wg.Go(func() {
			if errs[n] = c.node(ctx, q, n); errs[n] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *crew) node(ctx context.Context, q queue.Queue, n int) error {
	session, err := q.Open(ctx, fmt.Sprintf("bench-node-%d", n))
	if err != nil {
		return unlessOver(ctx, fmt.Errorf("open node %d: %w", n, err))
	}
	// A turn is never cut off: what it leased or acknowledged would be unknown.
	whole := context.WithoutCancel(ctx)
	var acks []queue.Ack
	for ctx.Err() == nil {
		start := time.Now()
		res, err := q.Turn(whole, queue.Turn{Session: session, Acks: acks, Want: c.batch})
		if err != nil {
			return fmt.Errorf("turn of node %d: %w", n, err)
		}
		at := time.Now()
		if c.turned != nil {
			c.turned(n, at.Sub(start))
		}
		acks = done(res.Leases, acks, c.detail)
		if len(res.Leases) > 0 {
			c.leased(n, res.Leases, at)
		} else if !res.More {
			if err := q.Wait(ctx, session, res.Now.Add(time.Second)); err != nil {
				return unlessOver(ctx, fmt.Errorf("wait of node %d: %w", n, err))
			}
		}
	}
	if len(acks) > 0 {
		if _, err := q.Turn(whole, queue.Turn{Session: session, Acks: acks}); err != nil {
			return fmt.Errorf("last turn of node %d: %w", n, err)
		}
	}
	if err := q.Close(whole, session); err != nil {
		return fmt.Errorf("close node %d: %w", n, err)
	}
	return nil
}

// unlessOver drops errors that come of the end of the measurement.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that is its purpose
	}
	return err
}
