package firmware

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// errOldBoot is a device that answers, and has not rebooted.
var errOldBoot = unclear("it answers, and is still in its old boot")

// reboot decides, persists what is decided, and asks for the reboot. Called again, it checks
// whether that was seen.
func (u *upgrade) reboot(ctx context.Context) error {
	f, err := u.inspect(ctx, true)
	decided := u.s.BootID != ""
	switch {
	case err != nil && decided && transient(ctx, err):
		u.r.GoOn()
		return nil // on its way
	case err != nil:
		return err
	case decided && f.Boot != u.s.BootID:
		u.r.GoOn()
		return nil // it has happened
	}
	if err := u.mayReboot(ctx, f); err != nil {
		return err
	}
	u.s.BootID, u.s.Asked = f.Boot, time.Now()
	u.s.Deadline = u.s.Asked.Add(time.Duration(u.p.CommitDeadline))
	if err := u.r.Save(ctx, "reboot", *u.s); err != nil {
		return err
	}
	u.r.GoOn()
	u.r.Changed()
	if u.alone() {
		d := u.p.detached(u.host, u.s.Install)
		if err := d.launch(ctx, u.driver.install(u.p.file(), "")); err != nil && ctx.Err() == nil && !transient(ctx, err) {
			return u.rollBack("starting the installation: %w", err)
		}
		return nil
	}
	if u.s.Target != "" {
		if err := u.reportSlot(ctx, activate, u.s.Target); err != nil {
			return u.rollBack("activating slot %s: %w", u.s.Target, err)
		}
	}
	if err := u.askReboot(ctx); err != nil {
		return u.rollBack("asking for the reboot: %w", err)
	}
	return nil
}

// mayReboot asks the peer and the window. If one of them refuses, it activates the old slot again
// if an earlier call had activated the new one: a power cut would boot that.
func (u *upgrade) mayReboot(ctx context.Context, f facts) error {
	err := u.r.MayStart(ctx, u.rest())
	if err == nil {
		var failedOver bool
		if failedOver, err = u.standby(ctx); failedOver && err == nil {
			err = u.r.MayStart(ctx, u.rest()) // it took its time
		}
	}
	if err != nil && u.s.Old != "" && f.Primary != u.s.Old {
		if undo := u.reportSlot(ctx, activate, u.s.Old); undo != nil {
			return errors.Join(err, undo)
		}
	}
	return err
}

// standby makes the member of a pair the standby, and proves it.
func (u *upgrade) standby(ctx context.Context) (failedOver bool, err error) {
	ha := u.p.HA
	if ha == nil {
		return false, nil
	}
	if err := u.peer(ctx); err != nil {
		return false, err
	}
	role := func() (string, error) {
		result := u.host.Short(ctx, sdk.Command{Run: ha.Role, ReadOnly: true, Timeout: u.limit})
		word := strings.TrimSpace(result.Stdout)
		if err := result.Err(); err != nil || word == "active" || word == "standby" {
			return word, err
		}
		return "", unclear("role printed %q, expected active or standby", word)
	}
	now, err := role()
	if err != nil || now == "standby" {
		return false, err
	}
	u.r.Progress(0.2, "failing over")
	if err := u.host.Short(ctx, sdk.Command{Run: ha.Failover, Timeout: time.Duration(ha.Timeout)}).Err(); err != nil {
		return true, sdk.Failf("failing over to the peer: %w", err).Effects(sdk.EffectsPartial)
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(ha.Timeout))
	defer cancel()
	err = sdk.Poll(waiting, 100*time.Millisecond, 2*time.Second, func(context.Context) (bool, error) {
		now, err := role()
		if err != nil && !transient(ctx, err) {
			return false, err
		}
		return err == nil && now == "standby", nil
	})
	if err != nil && ctx.Err() == nil {
		return true, sdk.Failf("it is still active %s after the failover: nothing was rebooted", ha.Timeout).Effects(sdk.EffectsPartial)
	}
	return true, errors.Join(err, u.peer(ctx))
}

// askReboot asks for a reboot, detached: the connection may break before the answer.
func (u *upgrade) askReboot(ctx context.Context) error {
	inner := sdk.Quote("sleep 0.2 2>/dev/null || sleep 1\n" + u.p.Reboot)
	line := "if command -v setsid >/dev/null 2>&1; then env -i PATH=\"$PATH\" setsid /bin/sh -c " + inner + " >/dev/null 2>&1 </dev/null &\n" +
		"else env -i PATH=\"$PATH\" nohup /bin/sh -c " + inner + " >/dev/null 2>&1 </dev/null & fi"
	err := u.host.Short(ctx, sdk.Command{Run: line, Timeout: u.limit}).Err()
	var fault *sdk.HostError
	var exit *sdk.ExitError
	switch {
	case errors.As(err, &exit) && (exit.Signal != "" || exit.Code == 255):
		return nil // cut down by the reboot itself
	case errors.As(err, &fault) && !fault.Before && transient(ctx, err):
		return nil
	}
	return err
}

// back waits for the device. It is back with another boot id, the expected slot, and the version.
func (u *upgrade) back(ctx context.Context) error {
	left := time.Until(u.s.Asked.Add(time.Duration(u.p.RebootTimeout)))
	if u.alone() {
		left += time.Duration(u.p.InstallTimeout)
	}
	f, err := u.patiently(ctx, max(left, u.limit), true, func(f facts) (bool, error) {
		if f.Boot != u.s.BootID {
			return true, nil
		}
		if u.alone() {
			now, err := u.p.detached(u.host, u.s.Install).status(ctx)
			if err == nil && now.state == "ended" && now.code != 0 {
				return false, fmt.Errorf("since the installation ended with exit status %d: %s", now.code, now.log)
			}
		}
		return false, errOldBoot
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return u.rollBack("the device was not back %w", err)
	}
	u.saw(f)
	u.r.Output("down_seconds", time.Since(u.s.Asked).Round(time.Millisecond).Seconds())
	u.s.NewBoot = f.Boot
	u.r.GoOn()
	switch want := u.p.Artifact.Version; {
	case f.Slot != u.s.Target:
		return u.rollBack("the device came back in slot %s with version %s, expected slot %s with %s", f.Slot, f.Version, u.s.Target, want)
	case f.Version != want:
		return u.rollBack("the device came back with version %s, expected %s", f.Version, want)
	}
	return nil
}

// longSoak is suspended rather than waited for.
const longSoak = 30 * time.Second

// health asks until all is well, and again after the soak, in one boot.
func (u *upgrade) health(ctx context.Context) error {
	u.r.GoOn()
	if u.s.SoakUntil.IsZero() {
		if err := u.healthy(ctx); err != nil || u.s.Cause != "" {
			return err
		}
		u.s.SoakUntil = time.Now().Add(time.Duration(u.p.Soak))
	}
	if left := time.Until(u.s.SoakUntil); left > longSoak {
		return u.r.Wait(left, sdk.KeepLocks(), sdk.Because("the new version soaks"))
	} else if left > 0 {
		if err := u.r.Save(ctx, "health", *u.s); err != nil {
			return err
		}
		if err := sdk.Sleep(ctx, left); err != nil {
			return err
		}
	}
	if u.p.Soak == 0 {
		return nil
	}
	return u.healthy(ctx)
}

// healthy asks for health until health_timeout, and that the device is still in the boot that is
// judged.
func (u *upgrade) healthy(ctx context.Context) error {
	limit := min(time.Duration(u.p.HealthTimeout), time.Until(u.s.Deadline))
	_, err := u.patiently(ctx, max(limit, time.Second), true, func(f facts) (bool, error) {
		if f.Boot != u.s.NewBoot || f.Slot != u.s.Target {
			return false, fmt.Errorf("the device rebooted unasked, and runs %s", f.Version)
		}
		for _, command := range u.p.Health {
			if err := u.host.Short(ctx, sdk.Command{Run: command, ReadOnly: true, Timeout: time.Duration(u.p.HealthTimeout)}).Err(); err != nil {
				return false, fmt.Errorf("%s: %w", command, err)
			}
		}
		return true, nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return u.rollBack("the new version is not healthy %w", err)
	}
	return nil
}

// commit keeps the slot, and reads that back: the command's own word is not believed (rauc#1140).
func (u *upgrade) commit(ctx context.Context) error {
	u.r.GoOn()
	if time.Now().After(u.s.Deadline) {
		return u.rollBack("commit_deadline (%s) has passed", u.p.CommitDeadline)
	}
	f, err := u.patiently(ctx, time.Duration(u.p.HealthTimeout), true, func(f facts) (bool, error) {
		switch {
		case f.Boot != u.s.NewBoot || f.Slot != u.s.Target:
			return false, errors.New("the device rebooted unasked")
		case u.s.Target == "":
			return true, nil
		case f.Primary != f.Slot:
			return false, errors.Join(unclear("slot %s boots next", f.Primary), u.reportSlot(ctx, activate, f.Slot))
		case f.Good && u.s.Kept: // reads as kept, after it was asked for
			return true, nil
		}
		u.s.Kept = true
		if err := u.reportSlot(ctx, commit, f.Slot); err != nil {
			return false, err
		}
		return false, unclear("slot %s is not kept, though the device reported that it is", f.Slot)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return u.rollBack("keeping the new version: %w", err)
	}
	u.saw(f)
	return nil
}
