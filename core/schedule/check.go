package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// checkSlack is how late a row may be due for what waits: longer than any wait of the engine.
const checkSlack = 2 * time.Minute

// Check returns schedules that cannot be read, and those that no engine would read in time, because
// the time at which they are due is missing or behind their fire time. With repair it makes the
// latter due now: what was missed follows their catch_up.
func (c *Control) Check(ctx context.Context, repair bool) (all []ledger.Finding, err error) {
	now, err := c.now(ctx)
	if err != nil {
		return nil, err
	}
	for row, err := range c.each(ctx) {
		if err != nil {
			return nil, err
		}
		what, err := c.overdue(row, now)
		if err != nil {
			all = append(all, ledger.Finding{What: core.ErrorText(err)})
			continue
		}
		if what == "" {
			continue
		}
		if repair {
			if err := c.ledger.PostponeSchedule(ctx, row, now); err != nil {
				return nil, err
			}
		}
		all = append(all, ledger.Finding{What: what, Repaired: repair})
	}
	return all, nil
}

// overdue returns what is wrong with the time at which a row is due; "" if nothing is.
func (c *Control) overdue(row ledger.Schedule, now time.Time) (string, error) {
	p, s, err := c.planner.read(row)
	if err != nil || s.Paused {
		return "", err
	}
	nominal, ok := p.next(s.Since)
	if !ok {
		return "", nil
	}
	fire := p.start(nominal)
	switch {
	case row.Due.IsZero():
		return fmt.Sprintf("schedule %s triggers at %s, and is never due: no server launches it", p.ID, fire.UTC().Format(time.RFC3339)), nil
	case row.Due.After(latest(fire, now.Add(checkSlack))):
		return fmt.Sprintf("schedule %s triggers at %s, and is due at %s only: no server launches it in time", p.ID, fire.UTC().Format(time.RFC3339), row.Due.UTC().Format(time.RFC3339)), nil
	}
	return "", nil
}
