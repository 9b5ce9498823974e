// Package schedulebench measures any schedule store: filling it with schedules as people write them, and
// many fires at one instant, on servers that are processes of their own, some of which are killed then.
// Tests use it for what it counts, `turnus bench schedules` for what it measures.
//
// It must not know flags, printing, or how a store is built.
package schedulebench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core/schedule"
)

// tenants is how many there are; schedule i is of tenant i modulo it.
const tenants = 1000

// zones are those of the schedules made here: each fires at its own civil time.
func zones() []string {
	return []string{"Europe/Berlin", "Europe/London", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Tokyo", "Australia/Sydney", "UTC"}
}

// Definition is the i-th schedule: an id of 24 bytes, one of a thousand tenants, a zone, and a
// payload of 40 bytes. It is daily, and fires at the minute of at.
func Definition(i int, at time.Time) (schedule.Definition, error) {
	zone := zones()[i%len(zones())]
	where, err := time.LoadLocation(zone)
	if err != nil {
		return schedule.Definition{}, fmt.Errorf("zone of a schedule: %w", err)
	}
	local := at.In(where)
	return schedule.Definition{
		ID:       schedule.ID{Tenant: fmt.Sprintf("cust-%04d", i%tenants), Name: fmt.Sprintf("backup-%07d", i)},
		Cron:     fmt.Sprintf("%d %d * * *", local.Minute(), local.Hour()),
		Timezone: zone,
		CatchUp:  schedule.CatchUpOnce,
		Overlap:  schedule.OverlapQueue,
		Payload:  fmt.Appendf(nil, "playbook: site/backup.yaml host: %08d", i),
	}, nil
}

// Fill is what filling a store took.
type Fill struct {
	Schedules int     `json:"schedules"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"schedules_per_s"`
}

// farthest and nearest bound when the schedules of Put fire, from now: not while something is measured.
const (
	nearest  = 2 * time.Hour
	farthest = 22 * time.Hour
)

// Put creates n schedules through Control, spread over the day but not due within two hours; tell
// hears how many there are now and then.
func Put(ctx context.Context, store schedule.Store, n int, tell func(done int)) (Fill, error) {
	start := time.Now()
	read, err := store.Get(ctx, nil)
	if err != nil {
		return Fill{}, err
	}
	err = inBatches(ctx, n, tell, func(ctx context.Context, from, to int) error {
		batch := make([]schedule.Definition, 0, to-from)
		for i := from; i < to; i++ {
			minutes := int((farthest - nearest) / time.Minute)
			spread := i * 7919 % minutes // a prime: neighbours are far apart, and each minute has as many
			d, err := Definition(i, read.Now.Add(nearest+time.Duration(spread)*time.Minute))
			if err != nil {
				return err
			}
			batch = append(batch, d)
		}
		_, err := schedule.NewControl(store).Put(ctx, batch...)
		return err
	})
	took := time.Since(start).Seconds()
	return Fill{Schedules: n, Seconds: took, PerSecond: float64(n) / took}, err
}

// Age gives the schedules of the first tenth of the tenants what they have after months: five
// results, the counts, one run that is not complete. n is the number of those of Put; it returns
// how many it aged.
func Age(ctx context.Context, store schedule.Store, n int) (aged int, err error) {
	aged = n / tenants * (tenants / 10)
	return aged, inBatches(ctx, aged, nil, func(ctx context.Context, from, to int) error {
		ids := make([]schedule.ID, 0, to-from)
		for i := from; i < to; i++ {
			d, err := Definition(i/(tenants/10)*tenants+i%(tenants/10), time.Time{})
			if err != nil {
				return err
			}
			ids = append(ids, d.ID)
		}
		read, err := store.Get(ctx, ids)
		if err != nil {
			return err
		}
		var changes []schedule.Change
		for _, r := range read.Records {
			d, s, err := schedule.Decode(r.ID, r.Data)
			if err != nil {
				return err
			}
			s.Fired = 180
			for day := schedule.MaxLast; day > 0; day-- {
				at := r.Due.AddDate(0, 0, -day)
				s.Last = append(s.Last, schedule.Result{RunID: schedule.RunID(r.ID, at), Nominal: at, Count: 1, Cause: schedule.ByCron, Fired: true, At: at.Add(137 * time.Millisecond)})
			}
			newest := s.Last[len(s.Last)-1]
			s.Active = []schedule.Run{{ID: newest.RunID, Cause: newest.Cause, At: newest.At}}
			changes = append(changes, schedule.Change{ID: r.ID, Version: r.Version, Due: r.Due, Data: schedule.Encode(d, s)})
		}
		_, err = store.Write(ctx, changes)
		return err
	})
}

// inBatches calls f for parts of n, two at once.
func inBatches(ctx context.Context, n int, tell func(int), f func(ctx context.Context, from, to int) error) error {
	const putters = 2
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	parts := make(chan int)
	for range putters {
		wg.Go(func() {
			for from := range parts {
				if err := f(ctx, from, min(from+schedule.MaxBatch, n)); err != nil {
					cancel(err)
				}
			}
		})
	}
	for from := 0; from < n && ctx.Err() == nil; from += schedule.MaxBatch {
		if every := 400 * schedule.MaxBatch; tell != nil && from > 0 && from%every == 0 {
			tell(from)
		}
		parts <- from
	}
	close(parts)
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
