package schedule

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// CheckRecurrence refuses a definition whose shortest recurrence, clock changes of the next ten
// years included, is shorter than the worst case of what it launches: the sum over all retries of
// interval·2^k + jitter, see core.Backoff.Worst. The message names both, and where it comes so
// soon; errors wrap core.ErrInvalid.
func (d *Definition) CheckRecurrence(retries time.Duration, now time.Time) error {
	c, err := d.compile()
	if err != nil {
		return err
	}
	if c.cron == nil {
		return nil
	}
	gap, at := c.cron.ShortestGap(c.zone, now, now.AddDate(10, 0, 0))
	if gap == 0 || gap >= retries {
		return nil
	}
	return fmt.Errorf("schedule %s: cron %q comes again after %v (on %s), but its retries may take %v; launch less often, or retry less: %w",
		d.ID, d.Cron, gap, at.In(c.zone).Format("2006-01-02 15:04"), retries, core.ErrInvalid)
}
