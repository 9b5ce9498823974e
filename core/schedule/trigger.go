package schedule

import (
	"context"
	"time"

	"github.com/turnus/turnus/core/ledger"
)

// Cause is why a trigger is launched.
type Cause string

// The causes.
const (
	ByCron     Cause = "cron"
	ByCatchUp  Cause = "catch_up"
	ByBackfill Cause = "backfill"
	ByTrigger  Cause = "trigger"
)

// Trigger is one launch of a schedule.
type Trigger struct {
	Schedule ID
	RunID    string    // of the run to launch; the same whenever and wherever the trigger is launched
	Nominal  time.Time // the fire time of the cron expression; of a person's trigger, when it was asked for
	Cause    Cause
	Payload  []byte // of the definition at the time of the launch
}

// Launcher is the part of the engine that its user provides.
type Launcher interface {
	// Prepare makes the run of a trigger, with Trigger.RunID. core.ErrInvalid and core.ErrConflict
	// refuse the trigger for good; after other errors Prepare is called again later.
	Prepare(ctx context.Context, f Trigger) (ledger.NewRun, error)
	// Accepted reports runs that are in the ledger now, and have to continue from there.
	Accepted(runs []ledger.Run)
	// Cancelled reports a run that is cancelled in the ledger now, and may be in a queue.
	Cancelled(ctx context.Context, run, reason string) error
}

// trigger is the launch of a claim.
func (p *plan) trigger(c Claim) Trigger {
	return Trigger{Schedule: p.ID, RunID: c.RunID, Nominal: c.Nominal, Cause: c.Cause, Payload: p.Payload}
}

// bare is the fire without its payload, for events.
func (p *plan) bare(c Claim) Trigger {
	f := p.trigger(c)
	f.Payload = nil
	return f
}
