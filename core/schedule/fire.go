package schedule

import (
	"context"
	"time"
)

// Cause is why a fire is launched.
type Cause string

// The causes.
const (
	ByCron     Cause = "cron"
	ByCatchUp  Cause = "catch_up"
	ByBackfill Cause = "backfill"
	ByTrigger  Cause = "trigger"
)

// Fire is one launch of a schedule.
type Fire struct {
	Schedule ID
	RunID    string    // of the run to launch; the same whenever and wherever the fire is launched
	Nominal  time.Time // what the cron expression said; when it was asked for, of a trigger
	Cause    Cause
	Payload  []byte // of the definition at the time of the launch
}

// Launcher is what the engine's user provides; it must be safe for concurrent use.
type Launcher interface {
	// Launch starts the run of a fire. It is idempotent by Fire.RunID, for as long as a run is
	// remembered: a repeated call changes nothing and is no error. An error means: try again later.
	Launch(ctx context.Context, f Fire) error
	// Running returns those of the runs, up to MaxBatch, that exist and are not complete, in any order.
	Running(ctx context.Context, runs []string) ([]string, error)
	// Cancel ends a run. One that is complete, cancelled or unknown is no error.
	Cancel(ctx context.Context, run, reason string) error
}

// fire is the launch of a claim.
func (p *plan) fire(c Claim) Fire {
	return Fire{Schedule: p.ID, RunID: c.RunID, Nominal: c.Nominal, Cause: c.Cause, Payload: p.Payload}
}

// bare is the fire without its payload, for events.
func (p *plan) bare(c Claim) Fire {
	f := p.fire(c)
	f.Payload = nil
	return f
}
