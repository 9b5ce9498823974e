package redis_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
)

func benchQueue(b *testing.B) (*redis.Queue, *goredis.Client) {
	b.Helper()
	c := servers.StartRedis(b).Client()
	b.Cleanup(func() { _ = c.Close() })
	q, err := redis.New(c, redis.Options{Pool: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	return q, c
}

func targets(prefix string, n int) []queue.Target {
	list := make([]queue.Target, n)
	for i := range list {
		list[i].Host = prefix + fmt.Sprintf("%0*d", 9-len(prefix), i)
	}
	return list
}

func submit(b *testing.B, q *redis.Queue, r queue.Run) {
	b.Helper()
	if _, err := queue.SubmitOne(context.Background(), q, r); err != nil {
		b.Fatal(err)
	}
}

// drain leases and acknowledges with as many nodes, in batches, until n jobs are done; each node
// acknowledges the jobs of its last turn with the next.
func drain(b *testing.B, q *redis.Queue, nodes, batch, n int) {
	b.Helper()
	var wg sync.WaitGroup
	left := make(chan struct{})
	var mu sync.Mutex
	done := 0
	for i := range nodes {
		wg.Go(func() {
			ctx := context.Background()
			s, err := q.Open(ctx, "node"+strconv.Itoa(i))
			if err != nil {
				b.Error(err)
				return
			}
			var acks []queue.Ack
			for {
				select {
				case <-left:
					return
				default:
				}
				res, err := q.Turn(ctx, queue.Turn{Session: s, Acks: acks, Want: batch})
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				if done += len(acks); done >= n && done-len(acks) < n {
					close(left)
				}
				mu.Unlock()
				acks = acks[:0]
				for _, l := range res.Leases {
					acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed})
				}
			}
		})
	}
	wg.Wait()
}

// cpu is the server's CPU time so far, in seconds: what other load on the machine does not distort
// much.
func cpu(b *testing.B, c *goredis.Client) float64 {
	b.Helper()
	info, err := c.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(info) {
		name, v, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			f, _ := strconv.ParseFloat(v, 64)
			sum += f
		}
	}
	return sum
}

// BenchmarkCycle is the whole cycle: submit bulk runs, lease, acknowledge. Jobs per second is the
// figure to read.
func BenchmarkCycle(b *testing.B) {
	for _, c := range []struct{ runs, batch, nodes int }{{3, 64, 2}, {3, 128, 2}, {3, 256, 2}, {500, 64, 2}, {500, 256, 2}, {3, 16, 2}, {3, 1, 2}} {
		b.Run(fmt.Sprintf("runs=%d/batch=%d", c.runs, c.batch), func(b *testing.B) {
			q, rc := benchQueue(b)
			n := max(b.N, c.runs) / c.runs
			before := cpu(b, rc)
			b.ResetTimer()
			for r := range c.runs {
				submit(b, q, queue.Run{ID: "run" + strconv.Itoa(r), Targets: targets("h"+strconv.Itoa(r)+"-", n)})
			}
			drain(b, q, c.nodes, c.batch, n*c.runs)
			b.ReportMetric(float64(n*c.runs)/b.Elapsed().Seconds(), "jobs/s")
			b.StopTimer()
			b.ReportMetric((cpu(b, rc)-before)*1e6/float64(n*c.runs), "redis-cpu-µs/job")
		})
	}
}

// single is a run of one host, of one of ten tenants.
func single(i int) queue.Run {
	id := fmt.Sprintf("run-%08d", i)
	return queue.Run{ID: id, Tenant: strconv.Itoa(i / 256 % 10), Targets: []queue.Target{{Host: "h" + id}}}
}

func submitBatch(b *testing.B, q *redis.Queue, from, n int) {
	b.Helper()
	runs := make([]queue.Run, n)
	for i := range runs {
		runs[i] = single(from + i)
	}
	for _, a := range q.Submit(context.Background(), runs...) {
		if a.Err != nil {
			b.Fatal(a.Err)
		}
	}
}

// BenchmarkSingle is runs of one host: submitted in batches and by 8 callers one by one, and then
// leased and acknowledged.
func BenchmarkSingle(b *testing.B) {
	for name, submitAll := range map[string]func(*testing.B, *redis.Queue){
		"batch": func(b *testing.B, q *redis.Queue) {
			for i := 0; i < b.N; i += 256 {
				submitBatch(b, q, i, min(256, b.N-i))
			}
		},
		"callers": func(b *testing.B, q *redis.Queue) {
			var wg sync.WaitGroup
			for c := range 8 {
				wg.Go(func() {
					for i := c; i < b.N; i += 8 {
						submit(b, q, single(i))
					}
				})
			}
			wg.Wait()
		},
	} {
		b.Run(name, func(b *testing.B) {
			q, rc := benchQueue(b)
			submit(b, q, queue.Run{ID: "first", Targets: targets("x", 1)})
			used, before, start := usedMemory(b, rc), cpu(b, rc), time.Now()
			b.ResetTimer()
			submitAll(b, q)
			n := float64(b.N)
			b.ReportMetric(n/time.Since(start).Seconds(), "submits/s")
			b.ReportMetric((cpu(b, rc)-before)*1e6/n, "submit-redis-cpu-µs")
			b.ReportMetric((usedMemory(b, rc)-used)/n, "bytes/run")
			before, start = cpu(b, rc), time.Now()
			drain(b, q, 2, 256, b.N+1)
			b.ReportMetric(n/time.Since(start).Seconds(), "drained/s")
			b.ReportMetric((cpu(b, rc)-before)*1e6/n, "drain-redis-cpu-µs")
			b.ReportMetric(n/b.Elapsed().Seconds(), "end-to-end/s")
		})
	}
}

// BenchmarkSingleDue is runs of one host that are all due at one instant: until the last one is
// leased.
func BenchmarkSingleDue(b *testing.B) {
	const n = 10_000
	for range b.N {
		b.StopTimer()
		q, rc := benchQueue(b)
		due := time.Now().Add(3 * time.Second)
		used := usedMemory(b, rc)
		for i := 0; i < n; i += 250 {
			runs := make([]queue.Run, 250)
			for j := range runs {
				runs[j] = single(i + j)
				runs[j].Segments = []queue.Segment{{Due: due, Count: 1}}
			}
			if a := q.Submit(context.Background(), runs...); a[0].Err != nil {
				b.Fatal(a[0].Err)
			}
		}
		b.ReportMetric((usedMemory(b, rc)-used)/n, "bytes/run")
		<-time.After(time.Until(due))
		before := cpu(b, rc)
		b.StartTimer()
		leaseAll(b, q, 4, n)
		b.StopTimer()
		b.ReportMetric(time.Since(due).Seconds()*1e3, "ms/last")
		b.ReportMetric((cpu(b, rc)-before)*1e6/n, "redis-cpu-µs")
	}
}

// leaseAll leases n jobs with as many nodes, and acknowledges none.
func leaseAll(b *testing.B, q *redis.Queue, nodes, n int) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			ctx := context.Background()
			s, err := q.Open(ctx, "node"+strconv.Itoa(i))
			for err == nil && left.Load() > 0 {
				var res queue.TurnResult
				res, err = q.Turn(ctx, queue.Turn{Session: s, Want: 256})
				left.Add(-int64(len(res.Leases)))
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// BenchmarkInFlight leases and acknowledges 64 at a time while others are in flight: the cost must
// not grow.
func BenchmarkInFlight(b *testing.B) {
	for _, held := range []int{0, 1000, 10_000} {
		b.Run(strconv.Itoa(held), func(b *testing.B) {
			q, _ := benchQueue(b)
			ctx := context.Background()
			submit(b, q, queue.Run{ID: "held", Targets: targets("x", held+1)})
			s, err := q.Open(ctx, "holder")
			if err != nil {
				b.Fatal(err)
			}
			for got := 0; got < held; {
				res, err := q.Turn(ctx, queue.Turn{Session: s, Want: min(250, held-got)})
				if err != nil {
					b.Fatal(err)
				}
				got += len(res.Leases)
			}
			submit(b, q, queue.Run{ID: "work", Targets: targets("w", b.N+10_000)})
			b.ResetTimer()
			drain(b, q, 1, 64, b.N)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkSubmit is a run of a million jobs: seconds, and bytes of Redis memory a pending job.
func BenchmarkSubmit(b *testing.B) {
	list := targets("h", 1_000_000)
	for _, ranges := range []int{0, 500_000} { // that ended before, each of one target
		b.Run("settled="+strconv.Itoa(ranges), func(b *testing.B) {
			run := queue.Run{Targets: list}
			for i := range ranges {
				run.FinishedJobs = append(run.FinishedJobs, queue.FinishedJobs{Index: 2 * i, Count: 1, Outcome: core.Changed})
			}
			for i := range b.N {
				b.StopTimer()
				q, c := benchQueue(b)
				before := usedMemory(b, c)
				run.ID = "run" + strconv.Itoa(i)
				b.StartTimer()
				start := time.Now()
				submit(b, q, run)
				b.ReportMetric(time.Since(start).Seconds(), "s/run")
				b.ReportMetric((usedMemory(b, c)-before)/1e6, "bytes/job")
			}
		})
	}
}

func usedMemory(b *testing.B, c *goredis.Client) float64 {
	b.Helper()
	s, err := c.Info(context.Background(), "memory").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(s, "used_memory:")
	n, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return n
}

// BenchmarkSignal opens the window of 3000 hosts while another run continues: seconds, and its
// slowest turn meanwhile.
func BenchmarkSignal(b *testing.B) {
	const fleet = 3000
	q, _ := benchQueue(b)
	ctx := context.Background()
	submit(b, q, queue.Run{ID: "fleet", Targets: targets("f", fleet)})
	s, err := q.Open(ctx, "node")
	if err != nil {
		b.Fatal(err)
	}
	wakes, slowest := 0.0, time.Duration(0)
	for range b.N {
		b.StopTimer()
		for left := fleet; left > 0; {
			res, err := q.Turn(ctx, queue.Turn{Session: s, Want: min(left, queue.MaxLeasesTurn)})
			if err != nil {
				b.Fatal(err)
			}
			left -= len(res.Leases)
			var acks []queue.Ack
			for _, l := range res.Leases {
				acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckSuspend, Event: queue.EventWindow, After: 72 * time.Hour})
			}
			if _, err := q.Turn(ctx, queue.Turn{Session: s, Acks: acks}); err != nil {
				b.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		over := make(chan struct{})
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				start := time.Now()
				if _, err := q.Turn(ctx, queue.Turn{Session: s}); err != nil {
					b.Error(err)
					return
				}
				slowest = max(slowest, time.Since(start))
			}
		})
		b.StartTimer()
		start := time.Now()
		if n, err := q.Signal(ctx, "fleet", queue.EventWindow); err != nil || n != fleet {
			b.Fatal(n, err)
		}
		wakes += time.Since(start).Seconds()
		close(over)
		wg.Wait()
	}
	b.ReportMetric(wakes/float64(b.N)*1e3, "ms/wake")
	b.ReportMetric(slowest.Seconds()*1e3, "ms/slowest-turn")
}

// BenchmarkSave measures a checkpoint of the queue: one round trip.
func BenchmarkSave(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			q, _ := benchQueue(b)
			ctx := context.Background()
			submit(b, q, queue.Run{ID: "r", Targets: targets("h", 1)})
			s, err := q.Open(ctx, "node")
			if err != nil {
				b.Fatal(err)
			}
			res, err := q.Turn(ctx, queue.Turn{Session: s, Want: 1})
			if err != nil || len(res.Leases) != 1 {
				b.Fatal(res, err)
			}
			save := queue.Save{Session: s, Job: res.Leases[0].Job, Token: res.Leases[0].Token, State: make([]byte, size)}
			for b.Loop() {
				if save.Seq++; save.Seq%1000 == 0 { // a session lives for some seconds
					if _, err := q.Beat(ctx, s); err != nil {
						b.Fatal(err)
					}
				}
				if err := q.Save(ctx, save); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPoll reads 256 runs that have an outcome each since the last look, and the news of them.
func BenchmarkPoll(b *testing.B) {
	for _, hosts := range []int{1, 1000} {
		b.Run(fmt.Sprint("hosts=", hosts), func(b *testing.B) {
			q, rc := benchQueue(b)
			ctx := context.Background()
			asks := make([]queue.Ask, queue.MaxPoll)
			for i := range asks {
				asks[i].Run = "run" + strconv.Itoa(i)
				submit(b, q, queue.Run{ID: asks[i].Run, Targets: targets("h"+strconv.Itoa(i)+"-", hosts)})
			}
			drain(b, q, 1, 256, len(asks))
			before := cpu(b, rc)
			for b.Loop() {
				for _, s := range q.Poll(ctx, 1000, asks...) {
					if s.Err != nil || len(s.Records) == 0 {
						b.Fatalf("%+v", s)
					}
				}
			}
			b.ReportMetric((cpu(b, rc)-before)*1e6/float64(b.N*len(asks)), "redis-cpu-µs/run")
		})
	}
}
