package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// BenchmarkExport exports TURNUS_BENCH_JOBS jobs, in runs of 3000, over HTTP, and reports how much
// the heap was at most.
func BenchmarkExport(b *testing.B) {
	jobs := 30_000
	if n, err := strconv.Atoi(os.Getenv("TURNUS_BENCH_JOBS")); err == nil && n > 0 {
		jobs = n
	}
	bed := newBed(b)
	const perRun = 3000
	for r := range jobs / perRun {
		n := ledger.NewRun{ID: fmt.Sprint("run-", r), Playbook: "p", LaunchedBy: "ann", Snapshot: []byte("{}"), Queue: []byte("{}")}
		batch := ledger.Batch{Run: n.ID}
		for i := range perRun {
			n.Jobs = append(n.Jobs, ledger.JobHost{Host: fmt.Sprint("host-", i)})
			batch.Outcomes = append(batch.Outcomes, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Worker: "worker-3", Started: time.Now(), Took: time.Second})
		}
		_, _, err := bed.ledger.Accept(b.Context(), n)
		must(b, err)
		_, err = bed.ledger.Record(b.Context(), batch)
		must(b, err)
	}
	web := httptest.NewServer(bed.server)
	defer web.Close()
	secret := bed.token(everyTenant, Viewer)
	for _, format := range []string{"ndjson", "csv"} {
		b.Run(fmt.Sprintf("%s of %d jobs", format, jobs), func(b *testing.B) {
			var read int64
			peak := uint64(0)
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, web.URL+"/v1/export/jobs?format="+format, nil)
				must(b, err)
				req.Header.Set("Authorization", "Bearer "+secret)
				resp, err := http.DefaultClient.Do(req)
				must(b, err)
				buf := make([]byte, 1<<20)
				for {
					n, err := io.ReadFull(resp.Body, buf)
					read += int64(n)
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					peak = max(peak, m.HeapInuse)
					if err != nil {
						break
					}
				}
				_ = resp.Body.Close()
			}
			b.ReportMetric(float64(jobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(read)/float64(b.N)/(1<<20), "MiB")
			b.ReportMetric(float64(peak)/(1<<20), "heap-MiB")
		})
	}
}
