package memory_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

// contest drives the queue in virtual time: flows that always have ready jobs, few slots.
type contest struct {
	q       *memory.Queue
	now     time.Time
	session string
	slots   int
	runs    []queue.Run
	each    []time.Duration
	running []contestJob
	flying  []int
	served  []time.Duration
}

type contestJob struct {
	run   int
	end   time.Time
	lease queue.Lease
}

func newContest(t *rapid.T) *contest {
	c := &contest{now: time.Unix(0, 0), slots: rapid.IntRange(1, 8).Draw(t, "slots")}
	c.q = memory.New(memory.Options{SessionTTL: 1e6 * time.Hour, Now: func() time.Time { return c.now }})
	var err error
	if c.session, err = c.q.Open(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	for i := range rapid.IntRange(2, 6).Draw(t, "flows") {
		r := queue.Run{
			ID: fmt.Sprint(i), Targets: make([]queue.Target, 20_000),
			Weight:   rapid.IntRange(1, 4).Draw(t, "weight"),
			Priority: rapid.IntRange(-queue.MaxPriority, queue.MaxPriority).Draw(t, "priority"),
		}
		for k := range r.Targets {
			r.Targets[k].Host = fmt.Sprint(i, "-", k)
		}
		submitTo(t, c.q, r)
		c.runs = append(c.runs, r)
		c.each = append(c.each, time.Duration(rapid.IntRange(50, 5000).Draw(t, "ms each"))*time.Millisecond)
	}
	c.flying = make([]int, len(c.runs))
	c.served = make([]time.Duration, len(c.runs))
	return c
}

func submitTo(t *rapid.T, q *memory.Queue, r queue.Run) {
	if _, err := q.Submit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// step ends what ends next and fills the slots again.
func (c *contest) step(t *rapid.T) {
	if len(c.running) > 0 {
		c.now = c.running[0].end
		for _, j := range c.running {
			if j.end.Before(c.now) {
				c.now = j.end
			}
		}
	}
	turn := queue.Turn{Session: c.session}
	kept := c.running[:0]
	for _, j := range c.running {
		if j.end.After(c.now) {
			kept = append(kept, j)
			continue
		}
		c.flying[j.run]--
		c.served[j.run] += c.each[j.run]
		turn.Acks = append(turn.Acks, queue.Ack{Job: j.lease.Job, Token: j.lease.Token, Kind: queue.AckDone, Outcome: core.Changed})
	}
	c.running = kept
	turn.Want = c.slots - len(kept)
	res, err := c.q.Turn(t.Context(), turn)
	if err != nil || len(res.Leases) != turn.Want {
		t.Fatalf("%d leases of %d, %v", len(res.Leases), turn.Want, err)
	}
	for _, l := range res.Leases {
		run := int(l.Job.Run[0] - '0')
		c.fewest(t, run)
		c.flying[run]++
		c.running = append(c.running, contestJob{run, c.now.Add(c.each[run]), l})
	}
}

// fewest expects that the flow that is leased from has the smallest share in flight, so
// that shares never differ by more than one job for their weight through a lease.
func (c *contest) fewest(t *rapid.T, run int) {
	mine := 64 * c.flying[run] / c.runs[run].Weight
	for other := range c.runs {
		if theirs := 64 * c.flying[other] / c.runs[other].Weight; theirs < mine {
			t.Fatalf("run %d was leased from at a share of %d/64, run %d had %d/64", run, mine, other, theirs)
		}
	}
}

// TestNobodyStarves: whatever weights, priorities and lengths of jobs, every flow
// gets a good part of its share of worker time, and leases follow shares in flight.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newContest(t)
		for range 1500 {
			c.step(t)
		}
		total, weights := time.Duration(0), 0
		for i := range c.runs {
			total += c.served[i]
			weights += c.runs[i].Weight
		}
		for i := range c.runs {
			// What priority can cost at most, of a flow's own worker time, and one job's grain.
			grace := 2*time.Duration(queue.HeadStart(queue.MaxPriority))*queue.TagUnit*time.Duration(weights) + 10*time.Second
			fair := (total - grace) * time.Duration(c.runs[i].Weight) / time.Duration(weights)
			if c.served[i] < fair/3 {
				t.Fatalf("flow %d (weight %d of %d) was served %v of %v", i, c.runs[i].Weight, weights, c.served[i], total)
			}
		}
	})
}
