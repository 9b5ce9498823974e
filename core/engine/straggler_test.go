package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/queuetest"
)

// hang leases one job, holds it for so long, and ends it as failed. leased is closed once it has
// it.
func (b *bed) hang(held time.Duration, leased chan<- struct{}) {
	ctx := context.Background()
	s, err := b.q.Open(ctx, "slow node")
	if err != nil {
		b.t.Error(err)
		return
	}
	var lease queue.Lease
	for lease.Host == "" {
		res, err := b.q.Turn(ctx, queue.Turn{Session: s, Want: 1})
		if err != nil {
			b.t.Error(err)
			return
		}
		if len(res.Leases) > 0 {
			lease = res.Leases[0]
		}
		<-time.After(time.Millisecond)
	}
	close(leased)
	for until := time.Now().Add(held); time.Now().Before(until); <-time.After(queue.BeatEvery) {
		if _, err := b.q.Beat(ctx, s); err != nil {
			b.t.Error(err)
			return
		}
	}
	if _, err := b.q.Turn(ctx, queue.Turn{Session: s, Acks: []queue.Ack{{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Failed}}}); err != nil {
		b.t.Error(err)
	}
}

// A host that hangs delays the next wave as next_wave_at sets, and counts in stop_after when it
// ends.
func TestStragglers(t *testing.T) {
	const held = 10 * time.Minute
	for _, c := range []struct {
		strategy     string
		after, until time.Duration // when the second wave is released
	}{
		{"", held, held + 5*time.Second},
		{", next_wave_at: 75%", 0, 5 * time.Second},
		{", next_wave_at: 76%", held, held + 5*time.Second},
		{", next_wave_at: 3m", 3 * time.Minute, 3*time.Minute + 5*time.Second},
	} {
		inBed(t, func(b *bed) {
			l, o := b.prepare(8, "strategy: {waves: [4], stop_after: 2"+c.strategy+"}\n"), b.options()
			start, released := time.Now(), time.Duration(-1)
			say := o.OnEvent
			o.OnEvent = func(e engine.Event) {
				if e.Kind == engine.EventReleased {
					released = time.Since(start)
				}
				say(e)
			}
			working, stop := context.WithCancel(context.Background())
			leased := make(chan struct{})
			var nodes sync.WaitGroup
			nodes.Go(func() { b.hang(held, leased) })
			nodes.Go(func() { <-leased; b.work(working) })
			s, err := queuetest.Drive(context.Background(), b.q, l, o)
			stop()
			nodes.Wait()
			if err != nil || !s.Complete || s.Outcomes[core.Failed] != 1 {
				t.Errorf("%q: %+v, %v", c.strategy, s, err)
			}
			if released < c.after || released > c.until {
				t.Errorf("%q: the second wave was released after %v, expected %v", c.strategy, released, c.after)
			}
		})
	}
}

// A straggler that fails spends the threshold of the wave that runs by then.
func TestStragglerThatFailsStopsTheRun(t *testing.T) {
	inBed(t, func(b *bed) {
		b.took = 20 * time.Second
		l := b.prepare(40, "strategy: {waves: [4], max_in_flight: 4, stop_after: 1, next_wave_at: 75%}\n")
		working, stop := context.WithCancel(context.Background())
		leased := make(chan struct{})
		var nodes sync.WaitGroup
		nodes.Go(func() { b.hang(time.Minute, leased) })
		nodes.Go(func() { <-leased; b.work(working) })
		s, err := queuetest.Drive(context.Background(), b.q, l, b.options())
		stop()
		nodes.Wait()
		if err != nil || s.Phase != queue.Stopped || s.Outcomes[core.Cancelled] == 0 || !strings.Contains(b.said(), "released 1") {
			t.Errorf("%+v, %v\n%s", s, err, b.said())
		}
	})
}
