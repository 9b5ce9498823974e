package host

import (
	"context"
	"runtime"
	"slices"
)

// Warm starts a process for each of the job types that has none, in the background and in that
// order, at most as many at the same time as there are CPUs. It returns immediately. A start that
// fails is left to the call that needs the process: that call tries again, and returns the error.
func (s *Supervisor) Warm(types []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	types = slices.Clone(types)
	s.wg.Go(func() { s.warm(types) })
}

func (s *Supervisor) warm(types []string) {
	ctx, cancel := s.untilStop(context.Background())
	defer cancel()
	next := make(chan string)
	for range min(len(types), runtime.GOMAXPROCS(0)) {
		s.wg.Go(func() {
			for name := range next {
				s.warmOne(ctx, name)
			}
		})
	}
	for _, name := range types {
		next <- name
	}
	close(next)
}

// warmOne starts a process for the job type; a type that no plugin has is the matter of its call.
func (s *Supervisor) warmOne(ctx context.Context, name string) {
	t, err := s.use(ctx, name)
	if err != nil {
		return
	}
	defer s.leave(t.pool)
	t.pool.warm()
}
