package configs_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/testparts"
)

// BenchmarkFleet is a night of 3000 hosts, 256 at the same time: each reads what was kept, and
// keeps a configuration of 20 KB when it differs.
func BenchmarkFleet(b *testing.B) {
	testparts.Need(b, "git", "git")
	for _, differ := range []int{3000, 30, 0} {
		b.Run(fmt.Sprintf("%d changed", differ), func(b *testing.B) {
			r, err := configs.New(filepath.Join(b.TempDir(), "configs"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			night(b, r, 3000, 0)
			b.ResetTimer()
			for i := range b.N {
				night(b, r, differ, i+1)
			}
		})
	}
}

func night(b *testing.B, r *configs.Repo, differ, number int) {
	b.Helper()
	concurrency := make(chan struct{}, 256)
	var wg sync.WaitGroup
	for i := range 3000 {
		concurrency <- struct{}{}
		wg.Go(func() {
			defer func() { <-concurrency }()
			host := fmt.Sprintf("host-%04d", i)
			if _, _, err := r.File(b.Context(), host, "running.conf"); err != nil {
				b.Error(err)
			}
			if i >= differ {
				return
			}
			text := fmt.Sprintf("hostname %s\nnight %d\n", host, number) + strings.Repeat("interface eth0 mtu 1500 address 192.0.2.1\n", 480)
			if _, err := r.Keep(b.Context(), change(host, "running.conf", text)); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}
