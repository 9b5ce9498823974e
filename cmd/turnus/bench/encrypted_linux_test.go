package bench

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/bench/queuebench"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/memory"
)

// cpu returns the time that this process has used so far; on a busy machine it shows more than the
// time that passed.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEncryptedCycle is the whole cycle of jobs with 500 bytes of data and 500 of result, on
// the queue in memory: the difference is what encrypting costs.
func BenchmarkEncryptedCycle(b *testing.B) {
	path := b.TempDir() + "/ring.json"
	if _, err := keyring.New(path); err != nil {
		b.Fatal(err)
	}
	ring, err := keyring.Open(path, keyring.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, r := range map[string]*keyring.Ring{"plain": nil, "encrypted": ring} {
		b.Run(name, func(b *testing.B) {
			const jobs = 50_000
			before := cpu(b)
			for range b.N {
				m := memory.New(memory.Options{})
				var q encrypted.Backend = encrypted.New(m, r, nil)
				if _, err := queuebench.Throughput(context.WithoutCancel(b.Context()), q, queuebench.Params{Jobs: jobs, Batch: 256, Nodes: 2, Bytes: 500}); err != nil {
					b.Fatal(err)
				}
				m.Shutdown()
			}
			b.ReportMetric(float64((cpu(b)-before).Nanoseconds())/float64(b.N)/jobs, "cpu-ns/job")
		})
	}
}
