package firmware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// askAgain is how long a device that was sent back, and still runs the new slot, is given before it
// is asked once more.
const askAgain = 20 * time.Second

// rollback brings the device into its old slot and proves that, also outside the window. A device
// that cannot be reached is waited for: its boot loader counts.
func (u *upgrade) rollback(ctx context.Context) error {
	if u.s.Cause == "" {
		return nil
	}
	u.r.GoOn()
	if u.s.Target == "" || u.s.Old == "" {
		return u.noWayBack(ctx)
	}
	var sentIn string // the boot in which the device last got the command to go back
	var sentAt time.Time
	left := max(time.Until(u.s.BackBy), 3*u.limit)
	f, err := u.patiently(ctx, left, true, func(f facts) (bool, error) {
		u.saw(f)
		if f.Primary != u.s.Old {
			if err := u.reportSlot(ctx, activate, u.s.Old); err != nil {
				return false, err
			}
			if f.Slot == u.s.Old {
				return false, unclear("the new slot would boot next")
			}
		}
		switch {
		case f.Slot != u.s.Old:
			if sentIn != f.Boot || time.Since(sentAt) > askAgain {
				sentIn, sentAt = f.Boot, time.Now()
				if err := u.askReboot(ctx); err != nil {
					return false, err
				}
			}
			return false, unclear("it still runs slot %s", f.Slot)
		case u.s.OldVersion != "" && f.Version != u.s.OldVersion:
			return false, fmt.Errorf("slot %s holds version %s, not the old %s", f.Slot, f.Version, u.s.OldVersion)
		case !f.Good: // it may have used up its tries
			return false, errors.Join(unclear("its old slot is not kept"), u.reportSlot(ctx, commit, f.Slot))
		}
		return true, nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return sdk.Failf("%s; and it is not proven that the device went back to %s: %w", u.s.Cause, u.s.OldVersion, err).Lost()
	}
	return sdk.Failf("%s; the device runs its old version %s again", u.s.Cause, f.Version).RolledBack()
}

// noWayBack reports what has become of a device without a second slot.
func (u *upgrade) noWayBack(ctx context.Context) error {
	f, err := u.patiently(ctx, max(time.Until(u.s.BackBy), 3*u.limit), true, func(facts) (bool, error) { return true, nil })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return sdk.Failf("%s; it has no second slot, and does not answer %w", u.s.Cause, err).Lost()
	}
	u.saw(f)
	return sdk.Failf("%s; it has no second slot, and runs version %s", u.s.Cause, f.Version).Effects(sdk.EffectsPartial)
}
