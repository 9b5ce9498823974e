package ledger_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
)

// benchJobs is how many outcomes are recorded before reads are measured; TURNUS_BENCH_JOBS=1000000
// for the real thing.
func benchJobs() int {
	if n, err := strconv.Atoi(os.Getenv("TURNUS_BENCH_JOBS")); err == nil && n > 0 {
		return n
	}
	return 30_000
}

func BenchmarkSQLite(b *testing.B) { benchmarks(b, onSQLite()) }

func BenchmarkSQLiteEncrypted(b *testing.B) {
	encrypted := onSQLite()
	encrypted.ring, _ = newRing(b, keyring.Options{})
	benchmarks(b, encrypted)
}

func BenchmarkPostgres(b *testing.B) { benchmarks(b, onPostgres(b)) }

const benchRun = 3000 // jobs of one run

// detail is a worker's report of a job with one step.
var detail = []byte(`{"job":{"run":"20260102-030405-ab12cd","index":17},"host":"host-17","customer":"a","outcome":"changed","attempt":1,"worker":"worker-3",
"started":"2026-01-02T03:04:05.678901Z","took_ns":1234567890,"steps":[{"name":"upgrade","uses":"command","outcome":"changed","attempts":1,"exit_code":0,
"stdout":"Reading package lists...\nBuilding dependency tree...\n0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n","took_ns":1234000000}]}`)

func outcomesOf(from, to int) (all []ledger.Outcome) {
	for i := from; i < to; i++ {
		all = append(all, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Worker: "worker-3", Started: time.Now(), Took: time.Second, Detail: detail})
	}
	return all
}

// fill records so many outcomes, in runs of benchRun jobs.
func fill(b *testing.B, l *ledger.Ledger, total int) {
	b.Helper()
	for r := 0; r*benchRun < total; r++ {
		id := "run-" + strconv.Itoa(r)
		accept(b, l, newRun(id, "a", benchRun))
		for from := 0; from < benchRun; from += 500 {
			record(b, l, id, outcomesOf(from, from+500)...)
		}
	}
}

func benchmarks(b *testing.B, be *backend) {
	l := be.open(b)
	ctx := context.Background()
	total := benchJobs()
	var took time.Duration
	b.Run(fmt.Sprintf("record %d in batches of 500", total), func(b *testing.B) {
		if took == 0 { // whatever b.N is: what follows reads it
			start := time.Now()
			fill(b, l, total)
			took = time.Since(start)
		}
		b.ReportMetric(float64(total)/took.Seconds(), "outcomes/s")
	})
	runs := total / benchRun

	var fresh atomic.Int64
	b.Run("accept 3000 jobs", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			accept(b, l, newRun(fmt.Sprint("accept-", fresh.Add(1)), "a", benchRun))
		}
	})
	b.Run("accept 4 jobs, 8 at once", func(b *testing.B) {
		b.SetParallelism(4)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				accept(b, l, newRun(fmt.Sprint("small-", fresh.Add(1)), "a", 4))
			}
		})
	})
	b.Run("accept 4 jobs beside a recorder of batches of 1000", func(b *testing.B) {
		const size = 1000
		ctx, end := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for id, next := "", benchRun; ctx.Err() == nil; next += size {
				if next+size > benchRun {
					id, next = fmt.Sprint("beside-", fresh.Add(1)), 0
					accept(b, l, newRun(id, "a", benchRun))
				}
				record(b, l, id, outcomesOf(next, next+size)...)
			}
		})
		var all []time.Duration
		for b.Loop() {
			begin := time.Now()
			accept(b, l, newRun(fmt.Sprint("between-", fresh.Add(1)), "a", 4))
			all = append(all, time.Since(begin))
			<-time.After(time.Millisecond)
		}
		end()
		wg.Wait()
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	})
	for _, size := range []int{1, 50, 500} {
		b.Run(fmt.Sprintf("record batches of %d", size), func(b *testing.B) {
			id, next := "", benchRun
			for b.Loop() {
				if next+size > benchRun {
					b.StopTimer()
					id, next = fmt.Sprint("record-", fresh.Add(1)), 0
					accept(b, l, newRun(id, "a", benchRun))
					b.StartTimer()
				}
				record(b, l, id, outcomesOf(next, next+size)...)
				next += size
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "outcomes/s")
		})
	}
	all := ledger.Tenants("a")
	reads := []struct {
		name string
		read func(i int) error
	}{
		{"read run", func(i int) error { _, err := l.Run(ctx, all, "run-"+strconv.Itoa(i%runs)); return err }},
		{"read job", func(i int) error {
			_, err := l.Job(ctx, all, core.JobID{Run: "run-" + strconv.Itoa(i%runs), Index: i % benchRun})
			return err
		}},
		{"read detail", func(i int) error {
			_, err := l.Detail(ctx, all, core.JobID{Run: "run-" + strconv.Itoa(i%runs), Index: i % benchRun})
			return err
		}},
		{"list 50 runs", func(int) error { _, _, err := l.Runs(ctx, all, ledger.RunFilter{}, ledger.Page{Limit: 50}); return err }},
		{"list 50 jobs", func(i int) error {
			_, _, err := l.Jobs(ctx, all, "run-"+strconv.Itoa(i%runs), ledger.JobFilter{}, ledger.Page{Limit: 50})
			return err
		}},
		{"list 50 failed jobs of none", func(i int) error {
			_, _, err := l.Jobs(ctx, all, "run-"+strconv.Itoa(i%runs), ledger.JobFilter{Outcome: core.Failed}, ledger.Page{Limit: 50})
			return err
		}},
		{"host history, 20", func(i int) error {
			_, _, err := l.HostHistory(ctx, ledger.AllTenants(), "host-"+strconv.Itoa(i%benchRun), ledger.Page{Limit: 20})
			return err
		}},
		{"worker time of a day", func(int) error {
			_, _, err := l.WorkerTimes(ctx, time.Now().Add(-23*time.Hour), time.Hour, 24, 2_000_000)
			return err
		}},
	}
	for _, r := range reads {
		b.Run(r.name, func(b *testing.B) {
			b.SetParallelism(4)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := r.read(int(fresh.Add(1)) * 7919); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
		})
	}
}
