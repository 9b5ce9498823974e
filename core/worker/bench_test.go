package worker

import (
	"context"
	"testing"
	"time"

	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// idle is a Plugins whose calls cost nothing.
type idle struct{}

func (idle) Type(name string) (host.Type, bool) { t, ok := scriptTypes[name]; return t, ok }

func (idle) Warm([]string) {}

func (idle) Run(context.Context, host.Call) (host.Outcome, error) { return host.Outcome{}, nil }

// BenchmarkNoOpJob is the worker's own cost of a job, the memory queue's included.
// Run it with -cpu 1.
func BenchmarkNoOpJob(b *testing.B) {
	p, err := playbooks.Parse("bench.yaml", []byte("playbook: p\ntargets: true\n"+oneStep), playbooks.Options{})
	if err != nil {
		b.Fatal(err)
	}
	l, err := launch.Prepare(p, hosts(b.N), launch.Options{RunID: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	w, err := New(Config{Queue: q, Payload: q.Payload, Plugins: idle{}, Concurrency: 64})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := queue.SubmitOne(b.Context(), q, l.Run); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { done <- w.Run(ctx) }()
	news := map[int]string{queue.Part("bench"): ""}
	for cursor, left := "", b.N; left > 0; {
		got, err := q.News(b.Context(), news, time.Second)
		if err != nil {
			b.Fatal(err)
		}
		seen := q.Poll(b.Context(), 1000, queue.Ask{Run: "bench", Cursor: cursor})[0]
		if seen.Err != nil {
			b.Fatal(seen.Err)
		}
		news, cursor, left = got.Next, seen.Next, left-len(seen.Records)
	}
	b.StopTimer()
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
