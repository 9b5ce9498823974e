package backup_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/backup"
	"github.com/turnus/turnus/core/ledger"
)

// BenchmarkBackup copies and restores TURNUS_BENCH_JOBS jobs with details, in runs of 3000, once
// each.
func BenchmarkBackup(b *testing.B) {
	jobs := 30_000
	if n, err := strconv.Atoi(os.Getenv("TURNUS_BENCH_JOBS")); err == nil && n > 0 {
		jobs = n
	}
	s := newSite(b, sqliteURL(b))
	detail := `{"id":"%x","host":"host-17","outcome":"changed","attempt":1,"worker":"worker-3","steps":[{"name":"upgrade","uses":"command","outcome":"changed","attempts":1,"exit_code":0,
"stdout":"Reading package lists...\nBuilding dependency tree...\n0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n","took_ns":1234000000}]}`
	const perRun = 3000
	for r := range jobs / perRun {
		n := ledger.NewRun{ID: fmt.Sprint("run-", r), Playbook: "p", LaunchedBy: "ann", Snapshot: []byte("{}"), Queue: []byte("{}")}
		batch := ledger.Batch{Run: n.ID}
		for i := range perRun {
			n.Jobs = append(n.Jobs, ledger.JobHost{Host: fmt.Sprint("host-", i)})
			batch.Outcomes = append(batch.Outcomes, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Worker: "worker-3", Started: time.Now(), Took: time.Second, Detail: fmt.Appendf(nil, detail, sha256.Sum256([]byte(fmt.Sprint(r, i))))})
		}
		if _, _, err := s.ledger.Accept(b.Context(), n); err != nil {
			b.Fatal(err)
		}
		if _, err := s.ledger.Record(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	where := filepath.Join(b.TempDir(), "backups")
	var m *backup.Manifest
	once := func(name string, do func() error) {
		b.Run(fmt.Sprintf("%s %d jobs", name, jobs), func(b *testing.B) {
			began := time.Now()
			for range b.N {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(jobs*b.N)/time.Since(began).Seconds(), "jobs/s")
			b.ReportMetric(float64(m.Size())/(1<<20), "MiB")
		})
	}
	once("back up", func() (err error) {
		m, err = backup.Create(b.Context(), backup.Options{Ledger: s.url, Where: where, Program: "bench"})
		return err
	})
	once("restore", func() error {
		_, err := backup.Restore(b.Context(), backup.Restoring{Where: where, Ledger: sqliteURL(b)})
		return err
	})
	once("verify", func() error {
		_, err := backup.Verify(b.Context(), where, "", nil)
		return err
	})
}
