package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	callers = 8
	workers = 64
	payload = 200 // bytes
)

// peer is asynq in its default configuration.
type peer struct {
	redis  *redis.Client
	socket string
	client *asynq.Client
	took   time.Duration // of the last work, until its last job started
}

func (p *peer) measure(ctx context.Context, jobs int) ([]float64, error) {
	options := asynq.RedisClientOpt{Network: "unix", Addr: p.socket}
	p.client = asynq.NewClient(options)
	defer p.client.Close()
	now := func(int) time.Time { return time.Now() }
	if err := p.fill(callers, now); err != nil { // opens the connections
		return nil, err
	}
	before := p.memory(ctx)
	start := time.Now()
	if err := p.fill(jobs, now); err != nil {
		return nil, err
	}
	submits := float64(jobs) / time.Since(start).Seconds()
	bytes := (p.memory(ctx) - before) / float64(jobs)

	if _, err := p.work(ctx, options, jobs, func() error { return p.fill(jobs, now) }); err != nil {
		return nil, err
	}
	rate := float64(jobs) / p.took.Seconds()
	idle, err := p.work(ctx, options, 100, func() error {
		time.Sleep(2 * time.Second) // until the workers are idle
		for range 100 {
			time.Sleep(rand.N(200 * time.Millisecond))
			if err := p.fill(1, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	due := time.Now().Add(20 * time.Second)
	burst, err := p.work(ctx, options, 10_000, func() error {
		err := p.fill(10_000, func(int) time.Time { return due })
		if err == nil && time.Now().After(due) {
			err = errors.New("enqueueing 10,000 jobs took longer than 20 s")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	first := time.Now().Add(3 * time.Second)
	spread, err := p.work(ctx, options, 1000, func() error {
		return p.fill(1000, func(i int) time.Time { return first.Add(time.Duration(i) * 30 * time.Millisecond) })
	})
	if err != nil {
		return nil, err
	}
	all := burst[len(burst)-1]
	return []float64{submits, rate, rate, rate, bytes, bytes, idle[50], idle[99], all, all, spread[990]}, nil
}

// fill enqueues n jobs. One that is due now is enqueued for immediate processing.
func (p *peer) fill(n int, due func(i int) time.Time) error {
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < n && errs[c] == nil; i += callers {
				at := due(i)
				data := binary.BigEndian.AppendUint64(make([]byte, 0, payload), uint64(at.UnixNano()))
				_, errs[c] = p.client.Enqueue(asynq.NewTask("job", data[:payload]), asynq.ProcessAt(at))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// work handles n jobs of an empty Redis, which fill enqueues meanwhile. It returns how many seconds
// after its due time each job started, sorted.
func (p *peer) work(ctx context.Context, options asynq.RedisClientOpt, n int, fill func() error) ([]float64, error) {
	if err := p.redis.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	started := make(chan float64, n)
	failed := make(chan error, 1)
	begun := time.Now()
	go func() {
		if err := fill(); err != nil {
			failed <- err
		}
	}()
	s := asynq.NewServer(options, asynq.Config{Concurrency: workers, LogLevel: asynq.ErrorLevel})
	err := s.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		started <- time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(t.Payload())))).Seconds()
		return nil
	}))
	if err != nil {
		return nil, err
	}
	defer s.Shutdown()
	late := make([]float64, 0, n)
	for len(late) < n {
		select {
		case l := <-started:
			late = append(late, l)
		case err := <-failed:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Minute):
			return nil, fmt.Errorf("%d of %d jobs started within 10 minutes", len(late), n)
		}
	}
	p.took = time.Since(begun) // without Shutdown, which waits for a second
	slices.Sort(late)
	return late, nil
}

// memory returns what Redis holds, in bytes; 0 without an answer.
func (p *peer) memory(ctx context.Context) float64 {
	var n float64
	_, rest, _ := strings.Cut(p.redis.Info(ctx, "memory").Val(), "used_memory:")
	_, _ = fmt.Sscan(rest, &n)
	return n
}
