package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

func bulk(id string, n int) queue.Run {
	r := queue.Run{ID: id, Targets: make([]queue.Target, n)}
	for i := range r.Targets {
		r.Targets[i].Host = fmt.Sprintf("%s-%d", id, i)
	}
	return r
}

func turn(tb testing.TB, q queue.Node, session string, want int, acks []queue.Ack) queue.TurnResult {
	res, err := q.Turn(tb.Context(), queue.Turn{Session: session, Acks: acks, Want: want})
	if err != nil || len(res.Stale) > 0 {
		tb.Fatalf("stale %v, %v", res.Stale, err)
	}
	return res
}

// BenchmarkCycle is one job's whole life: its share of submit, lease and
// acknowledgement in batches. ns/op must be flat in what else is in flight.
func BenchmarkCycle(b *testing.B) {
	for _, c := range []struct{ batch, runs, held int }{
		{64, 3, 0},
		{64, 3, 100},
		{64, 3, 10_000},
		{64, 500, 0},
		{1, 3, 0},
	} {
		b.Run(fmt.Sprintf("batch=%d/runs=%d/held=%d", c.batch, c.runs, c.held), func(b *testing.B) {
			q := memory.New(memory.Options{SessionTTL: time.Hour})
			b.Cleanup(q.Shutdown)
			session, err := q.Open(b.Context(), "n")
			if err != nil {
				b.Fatal(err)
			}
			if c.held > 0 {
				submit(b, q, bulk("held", c.held))
				for held := 0; held < c.held; {
					held += len(turn(b, q, session, min(queue.MaxLeasesTurn, c.held-held), nil).Leases)
				}
			}
			runs := make([]queue.Run, c.runs)
			for i := range runs {
				runs[i] = bulk(fmt.Sprint("r", i), b.N/c.runs+1)
			}
			acks := make([]queue.Ack, 0, c.batch)
			b.ReportAllocs()
			b.ResetTimer()
			for _, r := range runs {
				submit(b, q, r)
			}
			for ended := 0; ended < b.N; {
				res := turn(b, q, session, c.batch, acks)
				acks = acks[:0]
				for _, l := range res.Leases {
					acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed})
				}
				ended += len(acks)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

func submit(tb testing.TB, q queue.Control, r queue.Run) {
	if created, err := queue.SubmitOne(tb.Context(), q, r); err != nil || !created {
		tb.Fatalf("Submit: created %t, %v", created, err)
	}
}

// BenchmarkSubmit accepts a bulk run; its cost is the validation of the names.
func BenchmarkSubmit(b *testing.B) {
	r := bulk("r", 1_000_000)
	q := memory.New(memory.Options{})
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		r.ID = fmt.Sprint("r", i)
		submit(b, q, r)
	}
}
