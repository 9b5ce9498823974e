package firmware

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// State is the state that must survive a crash of the worker. The truth is on the device; State
// has what to check there.
type State struct {
	Phase      string    `json:"phase"`
	Install    string    `json:"install,omitempty"` // folder of the detached installation
	OldVersion string    `json:"old_version"`
	Old        string    `json:"old,omitempty"`      // slot that ran before; "" without slots
	Target     string    `json:"target,omitempty"`   // slot that is installed
	Began      time.Time `json:"began,omitzero"`     // the installation
	BootID     string    `json:"boot_id,omitempty"`  // of the boot before; from here on the reboot is decided
	Asked      time.Time `json:"asked,omitzero"`     // for the reboot
	Deadline   time.Time `json:"deadline,omitzero"`  // of the commit
	NewBoot    string    `json:"new_boot,omitempty"` // the boot that is judged
	SoakUntil  time.Time `json:"soak_until,omitzero"`
	Cause      string    `json:"cause,omitempty"`   // why it is rolled back
	BackBy     time.Time `json:"back_by,omitzero"`  // then it is lost
	Kept       bool      `json:"kept,omitempty"`    // the device was asked to keep the new slot
	Adopted    bool      `json:"resumed,omitempty"` // the version ran already, and was not kept: somebody else began this
}

type runOf = sdk.Run[Params, State]

// upgrade is one call of the job type.
type upgrade struct {
	r      *runOf
	p      *Params
	s      *State
	host   *sdk.Host
	driver driver
	web    *http.Client
	limit  time.Duration // of one look
}

func runUpgrade(ctx context.Context, r *runOf, web *http.Client) error {
	u := &upgrade{r: r, p: &r.Params, s: &r.State, host: r.Host(), driver: r.Params.of(), web: web, limit: time.Duration(r.Params.ConnectTimeout)}
	if u.s.Began.IsZero() { // nothing was begun: a job that waited for its window looks again
		done, err := u.precheck(ctx)
		if done || err != nil {
			return err
		}
		if u.s.Adopted {
			u.s.Phase = "health"
		}
	}
	defer u.report()
	phase := func(name string, run func(context.Context) error) sdk.Phase[Params, State] {
		return sdk.Phase[Params, State]{Name: name, Run: func(ctx context.Context, r *runOf) error {
			u.s = &r.State
			if u.s.Cause != "" && name != "rollback" {
				r.GoOn()
				return nil
			}
			return run(ctx)
		}}
	}
	err := r.Phases(ctx, &r.State.Phase,
		phase("stage", u.stage), phase("install", u.install), phase("reboot", u.reboot), phase("back", u.back),
		phase("health", u.health), phase("commit", u.commit), phase("rollback", u.rollback))
	if err == nil { // an earlier call may have done it all
		r.Changed()
		r.Explain(fmt.Sprintf("upgraded from %s to %s", u.s.OldVersion, u.p.Artifact.Version))
		if u.s.Adopted {
			r.Explain(fmt.Sprintf("it ran %s already; now it is kept", u.p.Artifact.Version))
		}
	}
	var end *sdk.Failure
	if u.s.Cause != "" && errors.As(err, &end) {
		return end // it has itself what happened where
	}
	return err
}

// report reports what is known at the end of a call.
func (u *upgrade) report() {
	u.r.Output("old_version", u.s.OldVersion)
	u.r.Output("old_slot", u.s.Old)
	if !u.s.Began.IsZero() {
		u.r.Output("seconds", time.Since(u.s.Began).Round(time.Millisecond).Seconds())
	}
	if u.s.BootID != "" {
		u.r.Output("old_boot_id", u.s.BootID)
	}
}

// saw reports the last state of the device.
func (u *upgrade) saw(f facts) {
	u.r.Output("version", f.Version)
	u.r.Output("slot", f.Slot)
	u.r.Output("boot_id", f.Boot)
}

func (u *upgrade) inspect(ctx context.Context, fresh bool) (facts, error) {
	f, _, err := inspect(ctx, u.host, u.driver, fresh, u.limit)
	return f, err
}

// rollBack ends the way forward: the phases that follow do nothing, and rollback goes the way back,
// also outside the window.
func (u *upgrade) rollBack(format string, args ...any) error {
	u.s.Cause = fmt.Errorf(format, args...).Error()
	u.s.BackBy = time.Now().Add(2 * time.Duration(u.p.RebootTimeout))
	u.r.Log().Warn("the upgrade is rolled back", "cause", u.s.Cause)
	u.r.GoOn()
	return nil
}

// precheck is one round trip, and changes nothing.
func (u *upgrade) precheck(ctx context.Context) (done bool, err error) {
	u.r.Progress(0, "precheck")
	f, err := u.inspect(ctx, false)
	if err != nil {
		return false, fmt.Errorf("inspect the device: %w", err)
	}
	u.saw(f)
	*u.s = State{OldVersion: f.Version, Old: f.Slot, Target: f.Other, Install: strings.ToLower(rand.Text())}
	want := u.p.Artifact.Version
	refuse := func(format string, args ...any) (bool, error) {
		return false, sdk.Refuse(format, args...)
	}
	if err := u.p.fits(f); err != nil {
		return false, err
	}
	switch {
	case f.Version == want && f.Good:
		u.report()
		if f.Primary != "" && f.Primary != f.Slot { // somebody activated the other slot
			u.r.Changed()
			u.r.Explain(fmt.Sprintf("it runs %s, but slot %s boots next: slot %s does again", want, f.Primary, f.Slot))
			if u.r.Check {
				return true, nil
			}
			return true, u.reportSlot(ctx, activate, f.Slot)
		}
		u.r.Explain("it runs " + want)
		return true, nil
	case f.Version == want: // somebody's upgrade was not finished: it is judged, and kept or rolled back
		u.s.Adopted, u.s.Old, u.s.Target, u.s.Began, u.s.NewBoot = true, f.Other, f.Slot, time.Now(), f.Boot
		u.s.OldVersion = f.Installed
		u.s.Deadline = time.Now().Add(time.Duration(u.p.CommitDeadline))
	case older(want, f.Version) && !u.p.AllowDowngrade:
		return refuse("it runs %s, which is newer than %s: write allow_downgrade: true if that is meant", f.Version, want)
	case f.Other == "" && f.Slot != "":
		return refuse("it has no second slot that could be installed, only %s", f.Slot)
	case f.Other == "" && !u.p.Irreversible:
		return refuse("it has no second slot, so no way back: write irreversible: true if that is accepted")
	}
	if u.r.Check {
		u.r.Changed()
		u.r.ShowDiff("firmware", []byte(f.Version+"\n"), []byte(want+"\n"))
		u.r.Explain(fmt.Sprintf("would upgrade it from %s to %s", f.Version, want))
		return true, u.peer(ctx)
	}
	return false, nil
}

// peer makes sure that the other member of the pair can carry the traffic.
func (u *upgrade) peer(ctx context.Context) error {
	if u.p.HA == nil {
		return nil
	}
	err := u.host.Short(ctx, sdk.Command{Run: u.p.HA.Ready, ReadOnly: true, Timeout: u.limit}).Err()
	if _, ok := errors.AsType[*sdk.ExitError](err); ok {
		return sdk.Refuse("its peer is not ready to carry the traffic: %w", err)
	}
	return err
}

func (u *upgrade) stage(ctx context.Context) error {
	s := &stager{host: u.host, Device: &u.p.Device, driver: u.driver, web: u.web, artifact: u.r.Artifact, progress: u.r.Progress}
	f, a, err := inspect(ctx, s.host, s.driver, false, u.limit, s.questions()...)
	if err != nil {
		return err
	}
	if !s.there(a) {
		if _, err := s.bring(ctx, a); err != nil {
			return err
		}
	}
	return s.verify(ctx, f)
}

// rest is the worst case from the request to reboot on, the way back included.
func (u *upgrade) rest() time.Duration {
	return 3*time.Duration(u.p.RebootTimeout) + 2*time.Duration(u.p.HealthTimeout) + time.Duration(u.p.Soak)
}

// alone reports that the installation reboots the device itself: it is the reboot phase that starts
// it.
func (u *upgrade) alone() bool { return u.p.Script != nil && u.p.Script.InstallReboots }

// install writes the other slot. The running slot is not touched.
func (u *upgrade) install(ctx context.Context) error {
	if err := u.peer(ctx); err != nil {
		return err
	}
	d := u.p.detached(u.host, u.s.Install)
	var now progress
	var err error
	if !u.alone() {
		if now, err = d.status(ctx); err != nil {
			return fmt.Errorf("asking for the installation: %w", err)
		}
	}
	if now.state == "absent" || u.alone() {
		if err := u.r.MayStart(ctx, time.Duration(u.p.InstallTimeout)+u.rest()); err != nil {
			return err
		}
		u.s.Began = time.Now()
		if err := u.r.Save(ctx, "install", *u.s); err != nil {
			return err
		}
		if u.alone() {
			return nil
		}
		u.r.Changed()
		if err := d.launch(ctx, u.driver.install(u.p.file(), u.s.Target)); err != nil {
			return fmt.Errorf("starting the installation: %w", err)
		}
	}
	if now.state == "absent" || now.state == "running" {
		if now, err = d.wait(ctx, time.Duration(u.p.InstallTimeout), func(line string) { u.r.Progress(0.5, line) }); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return u.rollBack("the installation: %w", err)
		}
	}
	u.r.Changed()
	switch {
	case now.state != "ended":
		return u.rollBack("the installation was cut off on the device; it printed: %s", now.log)
	case now.code != 0:
		return u.rollBack("the installation ended with exit status %d: %s", now.code, now.log)
	}
	return u.installed(ctx)
}

// installed reads back what the installation did: its exit code is not believed. An installer that
// activates what it has written, as RAUC does unless set otherwise, is overruled: until the reboot
// is decided, a power cut must not boot the new version.
func (u *upgrade) installed(ctx context.Context) error {
	f, err := u.patiently(ctx, time.Duration(u.p.RebootTimeout), false, func(f facts) (bool, error) {
		switch {
		case f.Primary != u.s.Old:
			return false, u.reportSlot(ctx, activate, u.s.Old)
		case !f.Good && f.Slot == u.s.Old: // as where activating leaves a slot one try only
			return false, u.reportSlot(ctx, commit, f.Slot)
		}
		return true, nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return u.rollBack("after the installation: %w", err)
	case f.Slot != u.s.Old:
		return u.rollBack("the device rebooted during the installation")
	case f.Installed != "" && f.Installed != u.p.Artifact.Version:
		return u.rollBack("the installation reported success, and slot %s holds version %s", u.s.Target, f.Installed)
	}
	return nil
}

// reportSlot activates or commits a slot.
func (u *upgrade) reportSlot(ctx context.Context, what slotAction, slot string) error {
	return u.host.Short(ctx, sdk.Command{Run: u.driver.slot(what, slot), Timeout: u.limit}).Err()
}

// patiently looks until judge is content, over new connections if fresh. A device that does not
// answer, or not clearly, is asked again; so it is when judge returns false with an error of that
// kind. The error reports what was seen last.
func (u *upgrade) patiently(ctx context.Context, limit time.Duration, fresh bool, judge func(facts) (bool, error)) (facts, error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var f facts
	last := errors.New("no answer yet")
	most := min(max(limit/50, 200*time.Millisecond), 5*time.Second)
	err := sdk.Poll(waiting, min(100*time.Millisecond, most), most, func(waiting context.Context) (bool, error) {
		now, err := u.inspect(waiting, fresh)
		done := false
		if err == nil {
			f = now
			done, err = judge(f)
		}
		if err != nil && waiting.Err() == nil {
			last = err
			if !transient(ctx, err) {
				return false, err
			}
		}
		return done && err == nil, nil
	})
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		err = fmt.Errorf("within %s: %w", limit.Round(time.Millisecond), last)
	}
	return f, err
}

// older compares versions as people number them: runs of digits by value, the rest as text.
// Versions that differ in kind are not older.
func older(a, b string) bool {
	for a != "" && b != "" {
		x, y := run(a), run(b)
		a, b = a[len(x):], b[len(y):]
		if digit(x[0]) && digit(y[0]) {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if len(x) != len(y) {
				return len(x) < len(y)
			}
		}
		if x != y {
			return x < y
		}
	}
	return a == "" && b != "" && (digit(b[0]) || b[0] == '.') || b == "" && a != "" && a[0] == '-' // 1.2-rc1 comes before 1.2
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// run is the first run of digits, or of anything else.
func run(s string) string {
	for i := range len(s) {
		if digit(s[i]) != digit(s[0]) {
			return s[:i]
		}
	}
	return s
}
