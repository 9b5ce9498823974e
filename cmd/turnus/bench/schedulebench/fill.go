// Package schedulebench measures schedules on any ledger: filling it with schedules as people write
// them, and many fire times at one instant, on servers that are processes of their own, some of
// which are killed then.
//
// It must not know flags or printing.
package schedulebench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// tenants is how many there are; schedule i is of tenant i modulo it.
const tenants = 1000

// zones are those of the schedules made here: each triggers at its own civil time.
func zones() []string {
	return []string{"Europe/Berlin", "Europe/London", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Tokyo", "Australia/Sydney", "UTC"}
}

// Definition is the i-th schedule: an id of 24 bytes, one of a thousand tenants, a zone, and a
// payload of 40 bytes. It is daily, and triggers at the minute of at.
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

// Fill is the time and cost of filling a ledger.
type Fill struct {
	Schedules int     `json:"schedules"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"schedules_per_s"`
}

// farthest and nearest bound when the schedules of Put fire, from now: not while something is
// measured.
const (
	nearest  = 2 * time.Hour
	farthest = 22 * time.Hour
)

// Put makes n schedules with a history, spread over the day but not due within two hours.
func Put(ctx context.Context, l *ledger.Ledger, n int) (Fill, error) {
	start := time.Now()
	now, err := l.Now(ctx)
	if err != nil {
		return Fill{}, err
	}
	all := make([]schedule.Imported, n)
	for i := range all {
		minutes := int((farthest - nearest) / time.Minute)
		spread := i * 7919 % minutes // a prime: neighbours are far apart, and each minute has as many
		due := now.Add(nearest + time.Duration(spread)*time.Minute)
		d, err := Definition(i, due)
		if err != nil {
			return Fill{}, err
		}
		all[i] = schedule.Imported{Definition: d, By: "bench", State: history(d.ID, now, due)}
	}
	for part := range slices.Chunk(all, ledger.MaxPage) {
		if err := schedule.NewControl(l).Import(ctx, part...); err != nil {
			return Fill{}, err
		}
	}
	took := time.Since(start).Seconds()
	return Fill{Schedules: n, Seconds: took, PerSecond: float64(n) / took}, nil
}

// history returns the state of a schedule after months: five results, and the counts.
func history(id schedule.ID, now, due time.Time) schedule.State {
	s := schedule.State{Since: now, Triggered: 180}
	for day := schedule.MaxLast; day > 0; day-- {
		at := due.AddDate(0, 0, -day)
		s.Last = append(s.Last, schedule.Result{RunID: schedule.RunID(id, at), Nominal: at, Count: 1, Cause: schedule.ByCron, Triggered: true, At: at.Add(137 * time.Millisecond)})
	}
	return s
}
