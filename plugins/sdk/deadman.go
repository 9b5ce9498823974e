package sdk

import (
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"
)

// DeadMan is a device's own way back: armed before a change that may cut the device off, and
// disarmed by [DeadMan.Confirm] when the change is proven over a fresh connection. Without that the
// device reverts automatically, with nobody's help: not the connection's, not the worker's, not the
// plugin's.
//
//	dead := sdk.DeadMan{Folder: "/var/lib/turnus/uplink", ID: "change-" + r.Key[:12], Key: r.Key, Job: r.Job,
//		Name: "uplink", Within: time.Minute, Revert: "uplink-tool load old.conf"}
//	dead.Arm(ctx, r.Host(), "uplink-tool save old.conf")   // stage → arm
//	r.Save(ctx, "armed", state)                            // a next attempt finds it: see Look
//	dead.Apply(ctx, r.Host(), "uplink-tool load new.conf") // apply
//	r.Host().Probe(ctx, 10*time.Second)                    // prove over a fresh connection
//	dead.Confirm(ctx, r.Host())                            // commit; else it reverts
//
// It needs a POSIX shell with /proc, sleep, mv, ln and readlink, as busybox has them. One rename on
// the device decides, of the file armed: to confirmed, by Confirm, or to reverting, by the timer.
// One of them wins, and the other detects that it has not. The timer uses the clock of
// /proc/uptime, which cannot be set. It runs under systemd if the device has that, and otherwise
// detached, in a session and an environment of its own.
//
// A reboot ends the timer. A change that outlives a reboot needs its own way back for that: make it
// permanent only after Confirm.
type DeadMan struct {
	Folder string        // absolute, of the device: what the armings of one kind keep. One is under way in it at a time
	ID     string        // of this arming, its folder there: a letter, then letters, digits, dashes
	Key    string        // by which a later attempt knows it as its own, such as Run.Key
	Job    string        // printed to other jobs that find it in their way
	Name   string        // the systemd unit is turnus-NAME-ID
	Within time.Duration // after which the device reverts; whole seconds, rounded up
	// Revert brings the device back, as lines of sh that run in Folder/ID. They are repeated each
	// second while they fail, up to ten minutes.
	Revert string
}

// The states of a [DeadMan].
const (
	StateArmed     = "armed"     // the timer runs
	StateConfirmed = "confirmed" // the change stays
	StateReverting = "reverting" // the timer, or Rollback, has begun to revert
	StateReverted  = "reverted"  // it is done
)

// DeadManState is how a device's dead man's switch stands.
type DeadManState struct {
	State    string // "" where none is known
	ID       string
	Key, Job string
	Left     time.Duration // until the device reverts; negative when that should have happened
	Rebooted bool          // the device was booted since: its timer is gone, and what it would have done is not
}

var (
	deadManID   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,99}$`) })
	deadManName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9-]{0,40}$`) })
)

const guardEnd = "TURNUS_GUARD_END"

// Validate reports what is wrong with the declaration.
func (d DeadMan) Validate() error {
	switch {
	case !path.IsAbs(d.Folder) || path.Clean(d.Folder) != d.Folder || d.Folder == "/" || strings.ContainsAny(d.Folder, "\n\x00"):
		return fmt.Errorf("dead man's switch: folder %q: expected a clean absolute path", d.Folder)
	case !deadManID().MatchString(d.ID), d.ID == "lock":
		return fmt.Errorf("dead man's switch: id %q: expected a letter, then letters, digits and dashes, at most 100; not lock", d.ID)
	case !deadManName().MatchString(d.Name):
		return fmt.Errorf("dead man's switch: name %q: expected a small letter, then small letters, digits and dashes", d.Name)
	case d.Within < time.Second || d.Within > 24*time.Hour:
		return fmt.Errorf("dead man's switch: within %v: expected 1s to 24h", d.Within)
	case strings.TrimSpace(d.Revert) == "" || strings.Contains(d.Revert, guardEnd):
		return fmt.Errorf("dead man's switch: nothing to revert with")
	}
	return nil
}

// Arm stages and arms in one round trip: the lines of stage run in Folder/ID, and may write there
// what Revert needs; then the timer starts. Where they fail, or another arming is under way in
// Folder, nothing is left armed and the error is a [Failure] without effects. stdin, if not nil, is
// what stage reads.
func (d DeadMan) Arm(ctx context.Context, h *Host, stage string, stdin io.Reader) error {
	script := d.Take() + "e=$( (cd \"$ID\" && {\n" + stage + "\n}) 2>&1 ) || giveup \"staging: $(echo \"$e\" | tail -n 3 | tr '\\n' ' ')\"\n" + d.Start()
	a, err := d.ask(ctx, h, Command{Run: script, Stdin: stdin})
	switch {
	case err != nil:
		return fmt.Errorf("arming the dead man's switch: %w", err)
	case a.Has("busy"):
		return Refuse("another job, %s, has armed this device's way back (%s/%s), for at most %d s more",
			a.Value("job"), d.Folder, a.Value("busy"), max(a.Number("deadline")-a.Number("uptime"), 0)).Retryable()
	case a.Has("refused"):
		return Refuse("arming the dead man's switch: %s", clean(a.Value("refused"), maxReason)).Retryable()
	case !a.Has("armed"):
		return Refuse("arming the dead man's switch: the device did not report that its timer runs").Retryable()
	}
	return nil
}

// Apply runs lines in Folder/ID, if the timer surely runs and has more than half of its time left;
// otherwise the error is a [Failure] without effects. Lines that cut the connection return an error
// that proves nothing: check the device over a fresh connection.
func (d DeadMan) Apply(ctx context.Context, h *Host, lines string) error {
	a, err := d.ask(ctx, h, Command{Run: d.Held() + lines + "\n"})
	if a.Has("refused") {
		return Refuse("not applied: %s", clean(a.Value("refused"), maxReason)).Retryable()
	}
	return err
}

// Confirm disarms, over a new connection, and returns the state then: StateConfirmed, unless the
// timer was first. Asking twice is the same as once.
func (d DeadMan) Confirm(ctx context.Context, h *Host) (DeadManState, error) {
	a, err := d.ask(ctx, h, Command{Run: d.Disarm() + d.Release() + d.State(), Fresh: true})
	return deadManState(a, d.ID), err
}

// Rollback asks the timer's own program to revert now, and returns the state then: StateReverted,
// unless it was confirmed before.
func (d DeadMan) Rollback(ctx context.Context, h *Host) (DeadManState, error) {
	a, err := d.ask(ctx, h, Command{Run: d.Back() + d.State()})
	return deadManState(a, d.ID), err
}

// Look returns the arming that is under way in Folder, also of another job, or how this arming
// ended. It changes nothing.
func (d DeadMan) Look(ctx context.Context, h *Host) (DeadManState, error) {
	a, err := d.ask(ctx, h, Command{Run: d.Other() + "[ -L \"$D/lock\" ] || {\n" + d.State() + "}\n", ReadOnly: true})
	id := d.ID
	if a.Has("lock") {
		id = a.Value("lock")
	}
	return deadManState(a, id), err
}

func (d DeadMan) ask(ctx context.Context, h *Host, c Command) (Answer, error) {
	if err := d.Validate(); err != nil {
		return Answer{}, err
	}
	c.Run = d.Prelude() + c.Run
	result := h.Short(ctx, c)
	return ReadAnswer(result.Stdout), result.Err()
}

// deadManState returns the state of the arming with the id, by the answer.
func deadManState(a Answer, id string) DeadManState {
	s := DeadManState{State: a.Value("state"), Key: a.Value("key"), Job: a.Value("job"), Rebooted: a.Has("stale")}
	if s.State != "" {
		s.ID = id
	}
	if a.Has("deadline") {
		s.Left = time.Duration(a.Number("deadline")-a.Number("uptime")) * time.Second
	}
	return s
}
