package host

import (
	"testing"
)

// BenchmarkHop is one call with one host service call in it, one and many at the same time.
func BenchmarkHop(b *testing.B) {
	for _, job := range []string{"echo", "cmd"} {
		b.Run(job+"/unconfined", func(b *testing.B) { // the sandbox must cost a call nothing
			s := open(b, &fleet{}, bare())
			c := call(job, labParams{})
			s.must(b, c)
			b.ResetTimer()
			for range b.N {
				s.must(b, c)
			}
		})
		b.Run(job+"/alone", func(b *testing.B) {
			s := open(b, &fleet{})
			c := call(job, labParams{})
			s.must(b, c)
			b.ResetTimer()
			for range b.N {
				s.must(b, c)
			}
		})
		b.Run(job+"/many", func(b *testing.B) {
			s := open(b, &fleet{})
			c := call(job, labParams{})
			s.must(b, c)
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					s.must(b, c)
				}
			})
		})
	}
}
