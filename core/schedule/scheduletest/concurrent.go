package scheduletest

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core/schedule"
)

const servers, rounds = 4, 25

var concurrentTests = []test{
	{"NoUpdateIsLost", func(f *fixture) {
		if got, want := f.increments(true), uint64(servers*rounds); got != want {
			f.Fatalf("counted %d of %d", got, want)
		}
	}},
	{"NegativeControlUpdatesAreLostWithoutTheVersion", func(f *fixture) {
		// The same servers, each told that its version is always right: the test above would notice.
		if got, want := f.increments(false), uint64(servers*rounds); got >= want {
			f.Fatalf("counted %d of %d without compare-and-set: this test cannot fail", got, want)
		}
	}},
	{"TakersShareNothing", func(f *fixture) {
		const n = 400
		now := f.now()
		for i := 0; i < n; i += 100 {
			var all []schedule.Change
			for k := i; k < i+100; k++ {
				all = append(all, schedule.Change{ID: id(k), Due: now.Add(-time.Duration(k+1) * time.Second)})
			}
			f.write(all...)
		}
		var mu sync.Mutex
		times := map[schedule.ID]int{}
		var wg sync.WaitGroup
		for range servers {
			wg.Go(func() {
				for {
					got, err := f.Take(f.Context(), 7, time.Hour)
					if err != nil {
						f.Error(err)
						return
					}
					if len(got.Records) == 0 {
						return
					}
					mu.Lock()
					for _, r := range got.Records {
						times[r.ID]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(times) != n {
			f.Errorf("%d of %d were taken", len(times), n)
		}
		for id, n := range times {
			if n != 1 {
				f.Fatalf("%s was taken %d times", id, n)
			}
		}
	}},
}

// increments counts in one record from several servers at once, and returns the count.
func (f *fixture) increments(compare bool) uint64 {
	f.create(id(1), time.Time{}, string(make([]byte, 8)))
	var wg, read sync.WaitGroup
	read.Add(servers)
	for range servers {
		wg.Go(func() {
			for round := range rounds {
				for {
					got, err := f.Get(f.Context(), []schedule.ID{id(1)})
					if err != nil || len(got.Records) != 1 {
						f.Errorf("read %+v: %v", got, err)
						return
					}
					r := got.Records[0]
					if round == 0 { // all have read before anyone writes, so that somebody must lose
						read.Done()
						read.Wait()
						round = -1
					}
					done, err := f.increment(r, compare)
					if err != nil {
						f.Error(err)
						return
					}
					if done {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	r, _ := f.read(id(1))
	return binary.BigEndian.Uint64(r.Data)
}

func (f *fixture) increment(r schedule.Record, compare bool) (done bool, err error) {
	data := binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(r.Data)+1)
	for {
		versions, err := f.Write(f.Context(), []schedule.Change{{ID: r.ID, Version: r.Version, Data: data}})
		if err != nil || versions[0] != 0 || compare {
			return err == nil && versions[0] != 0, err
		}
		now, err := f.Get(f.Context(), []schedule.ID{r.ID})
		if err != nil || len(now.Records) != 1 {
			return false, fmt.Errorf("read %+v: %w", now, err)
		}
		r.Version = now.Records[0].Version // writes over whatever is there
	}
}

// Server is an engine under test, on a store that dies with it.
type Server struct {
	*Mortal
	done chan struct{}
}

// Serve runs an engine until its context ends or it is killed.
func Serve(ctx context.Context, store schedule.Store, l schedule.Launcher, o schedule.Options, prepare ...func(*Mortal)) *Server {
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{Mortal: NewMortal(store, l, cancel), done: make(chan struct{})}
	for _, p := range prepare {
		p(s.Mortal)
	}
	go func() {
		defer close(s.done)
		defer cancel()
		schedule.NewEngine(s.Store(), s.Launcher(), o).Run(ctx)
	}()
	return s
}

// Wait blocks until the engine has ended.
func (s *Server) Wait() { <-s.done }
