package catalog

import (
	"context"
	"errors"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// alignState is how far the ledger's schedules are those of the definitions. It is under
// Catalog.mu.
type alignState struct {
	version int64 // of the definitions
	failed  string
}

// definedSchedules are those of the playbooks.
func (c *Current) definedSchedules() (all []schedule.Definition) {
	for _, s := range c.Set.Schedules {
		if playbook, ok := c.Set.Playbook(s.Playbook); ok {
			all = append(all, schedule.Definition{
				ID: schedule.ID{Tenant: playbook.Tenant, Name: s.Playbook}, Cron: s.Cron, Timezone: s.Timezone, CatchUp: schedule.CatchUp(s.CatchUp),
				Overlap: schedule.Overlap(s.Overlap), StartWithin: s.StartWithin, Jitter: s.Jitter, Payload: payload{Request: Request{Playbook: s.Playbook, Limit: s.Limit, Vars: s.Vars, Tags: s.Tags, SkipTags: s.SkipTags}, All: true}.encode(),
			})
		}
	}
	return all
}

// align makes the ledger's schedules those of the definitions that this server runs by. Only the
// server whose definitions are the ledger's newest changes anything.
func (c *Catalog) align(ctx context.Context) error {
	c.aligning.Lock()
	defer c.aligning.Unlock()
	now := c.Current()
	if now.Set == nil || now.Version == c.alignedTo() {
		return nil
	}
	made, err := c.upgrade(ctx)
	if err != nil {
		return err
	}
	n, err := c.control.Align(ctx, now.definedSchedules(), ledger.Basis{Kind: kindDefinitions, Name: nameCurrent, Version: now.Version}, made)
	if err == nil && made != nil {
		err = c.upgraded(ctx)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.aligned.version = now.Version
	c.mu.Unlock()
	if err := c.sweepPins(ctx); err != nil {
		return err
	}
	if n > 0 {
		c.engine.Check()
		c.report(Event{Kind: SchedulesChanged, Count: n})
	}
	return nil
}

func (c *Catalog) alignedTo() int64 { return core.Locked(&c.mu, &c.aligned.version) }

// keepAligned is align as the watch calls it again and again: what fails is reported once.
func (c *Catalog) keepAligned(ctx context.Context) {
	err := c.align(ctx)
	if ctx.Err() != nil || errors.Is(err, core.ErrConflict) { // somebody changes the same: the next look sees what came of it
		return
	}
	c.mu.Lock()
	was := c.aligned.failed
	c.aligned.failed = ""
	if err != nil {
		c.aligned.failed = err.Error()
	}
	c.mu.Unlock()
	if was == "" {
		c.trouble(ctx, "bringing schedules in line with the project failed, retrying every second", err)
	}
}

// Ended reports that a run is complete: for controller.Config.Events. A schedule that waits for it
// continues immediately. It does not block.
func (c *Catalog) Ended(run string) {
	select {
	case c.ended <- run:
	default: // the schedule looks within half a minute anyway
	}
}

// wakeWaiting makes the schedules of ended runs due until ctx ends.
func (c *Catalog) wakeWaiting(ctx context.Context) {
	const most = 256
	for {
		var ids []schedule.ID
		select {
		case <-ctx.Done():
			return
		case run := <-c.ended:
			ids = withSchedule(ids, run)
		}
		for more := true; more && len(ids) < most; {
			select {
			case run := <-c.ended:
				ids = withSchedule(ids, run)
			default:
				more = false
			}
		}
		if len(ids) == 0 {
			continue
		}
		due, err := c.control.MakeDue(ctx, ids...)
		c.trouble(ctx, "cannot record for a schedule that its run has ended", err)
		if due {
			c.engine.Check()
		}
	}
}

// withSchedule adds the schedule that launched a run, if one did.
func withSchedule(ids []schedule.ID, run string) []schedule.ID {
	if id, ok := schedule.IDOf(run); ok && id.Validate() == nil && !slices.Contains(ids, id) {
		return append(ids, id)
	}
	return ids
}
