// Package reboot owns the job type reboot: a host restarts, proven by its boot
// id. It imports only the sdk.
package reboot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a reboot.
type Params struct {
	Timeout     sdk.Duration `json:"timeout,omitempty" turnus:"default=10m" jsonschema:"until the host is back and its test passes"`
	Delay       sdk.Duration `json:"delay,omitempty" turnus:"default=0s" jsonschema:"wait before the reboot"`
	Message     string       `json:"message,omitempty" turnus:"default=Reboot by Turnus,max=200" jsonschema:"message to logged-in users"`
	Command     string       `json:"command,omitempty" jsonschema:"what reboots the host, if not shutdown or reboot; it must return immediately"`
	TestCommand string       `json:"test_command,omitempty" jsonschema:"must exit with 0 before the host counts as back"`
	Interval    sdk.Duration `json:"interval,omitempty" turnus:"default=2s" jsonschema:"between the first attempts to connect; it grows to eight times as much"`
}

// State is the state that must survive a crash of the worker.
type State struct {
	BootID string `json:"boot_id"` // before the reboot
}

// Outputs of a reboot.
type Outputs struct {
	BootID  string  `json:"boot_id" jsonschema:"of the new boot"`
	Seconds float64 `json:"seconds" jsonschema:"from the request to the host's return"`
}

const (
	// bootID is the kernel's id of this boot; elsewhere, when it booted.
	bootID       = "cat /proc/sys/kernel/random/boot_id 2>/dev/null || sysctl -n kern.boottime"
	probeTimeout = 20 * time.Second
)

type runOf = sdk.Run[Params, State]

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("reboot", run,
		sdk.Summary("Reboot the host and wait until it is back"),
		sdk.Description(description),
		sdk.Idempotent(true), // by the saved boot id a second call sees that the reboot has happened
		sdk.OnLost("retry"),
		sdk.Check(),
		sdk.Disruptive(),
		sdk.StateVersion(1, nil),
		sdk.Outputs[Outputs](),
		sdk.Example("As it stands", sdk.With{}),
		sdk.Example("A slow device with a test", sdk.With{"timeout": "20m", "test_command": "systemctl is-system-running --wait"}),
	)
}

const description = `
Reboots the host and waits for it. The host is back when a new, authenticated connection finds
another boot id (/proc/sys/kernel/random/boot_id), and ` + "`test_command`" + ` exits with 0. An answer alone
is no proof, because the host may not have gone down yet. Every attempt is a whole connection, with
growing pauses, because servers ban sources that connect without authenticating.

If the worker dies meanwhile, the next one finds the old boot id in the saved state and continues
to poll. It never reboots a host that has already rebooted: the request itself compares the boot id
on the host. Immediately before the reboot it checks
again that the host's maintenance window is open. The window must be long enough for ` + "`timeout`" + `, or
for the remaining part of the step's ` + "`needs`" + ` if that is less. Otherwise the job waits for the next
window. A host that does not come back fails the step and counts in the run's failure threshold.
`

func run(ctx context.Context, r *runOf) error {
	p := r.Params
	old := r.State.BootID
	if old == "" {
		first := r.Host().Query(ctx, bootID)
		if err := first.Err(); err != nil {
			return fmt.Errorf("reading the boot id: %w", err)
		}
		if old = strings.TrimSpace(first.Stdout); old == "" {
			return sdk.Refuse("the host has no boot id (tried /proc/sys/kernel/random/boot_id and sysctl kern.boottime)")
		}
	}
	if r.Check {
		r.Changed()
		r.Explain("would reboot")
		return nil
	}
	begin := time.Now()
	rebooted, err := alreadyDone(ctx, r, old)
	if err != nil {
		return err
	}
	if !rebooted {
		if err := sdk.Sleep(ctx, time.Duration(p.Delay)); err != nil {
			return err
		}
		if err := r.Checkpoint(ctx, "reboot", State{BootID: old}); err != nil {
			return fmt.Errorf("nothing was rebooted: %w", err)
		}
		if err := r.MayStart(ctx, time.Duration(p.Timeout)); err != nil {
			return err
		}
		if err := request(ctx, r, old); err != nil {
			return err
		}
	}
	r.Changed()
	return comeBack(ctx, r, old, begin)
}

// alreadyDone reports, after a crash, whether the reboot has happened; a host that cannot be
// reached then is on its way.
func alreadyDone(ctx context.Context, r *runOf, old string) (bool, error) {
	if !r.Resumed || r.State.BootID == "" {
		return false, nil
	}
	now, err := inspect(ctx, r, probeTimeout)
	switch {
	case err == nil:
		return now != old, nil
	case transient(ctx, err):
		return true, nil
	}
	return false, err
}

// request asks for the reboot, if the host is still in its old boot: a worker that died may have
// asked before, and the host has rebooted since. The connection may break before
// it answers, and after such a worker the host may be down already.
func request(ctx context.Context, r *runOf, old string) error {
	inner := "sleep 1; shutdown -r now " + sdk.Quote(r.Params.Message) + " || reboot || /sbin/reboot"
	line := cmp.Or(r.Params.Command, "nohup sh -c "+sdk.Quote(inner)+" >/dev/null 2>&1 </dev/null &")
	r.Progress(0.1, "reboot")
	line = `[ "$(` + bootID + `)" = ` + sdk.Quote(old) + " ] || exit 0\n" + line
	result := r.Host().Short(ctx, sdk.Command{Run: line, Timeout: probeTimeout})
	err := result.Err()
	var fault *sdk.HostError
	var exit *sdk.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && (exit.Signal != "" || exit.Code == 255): // the reboot ended the command
		return nil
	case errors.As(err, &fault) && (!fault.Before || r.Resumed) && transient(ctx, err):
		return nil
	}
	return fmt.Errorf("asking for the reboot: %w", err)
}

// inspect reads the boot id over a fresh connection.
func inspect(ctx context.Context, r *runOf, limit time.Duration) (string, error) {
	result := r.Host().Short(ctx, sdk.Command{Run: bootID, ReadOnly: true, Fresh: true, Timeout: limit})
	return strings.TrimSpace(result.Stdout), result.Err()
}

// transient reports whether an error is what a host shows on its way down or up.
func transient(ctx context.Context, err error) bool {
	var exit *sdk.ExitError
	return ctx.Err() == nil &&
		(errors.Is(err, sdk.ErrUnreachable) || errors.Is(err, sdk.ErrTimeout) || errors.As(err, &exit))
}

func comeBack(ctx context.Context, r *runOf, old string, begin time.Time) error {
	p := r.Params
	waiting, cancel := context.WithTimeout(ctx, time.Duration(p.Timeout))
	defer cancel()
	interval := time.Duration(p.Interval)
	last, current := errors.New("no answer yet"), ""
	r.Progress(0.3, "waiting for the host")
	err := sdk.Poll(waiting, interval, 8*interval, func(waiting context.Context) (bool, error) {
		now, err := inspect(waiting, r, probeTimeout)
		switch {
		case err != nil && (waiting.Err() != nil || !transient(ctx, err)):
			return false, err
		case err != nil:
			last = err
		case now == "" || now == old:
			last = errors.New("it answers, and is still in its old boot")
		default:
			current = now
		}
		return current != "", nil
	})
	if err == nil {
		r.Progress(0.8, "testing")
		r.Output("boot_id", current)
		r.Output("seconds", time.Since(begin).Round(time.Millisecond).Seconds())
		last, err = test(waiting, r)
	}
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		// not as unreachable: a host that a reboot took away must spend the run's threshold
		return sdk.Fail(fmt.Sprintf("the host was not back within %s of its reboot: %v", p.Timeout, last)).Effects(sdk.EffectsPartial)
	}
	return err
}

// test runs test_command until it passes. last is why it has not.
func test(ctx context.Context, r *runOf) (last, err error) {
	if r.Params.TestCommand == "" {
		return nil, nil
	}
	interval := time.Duration(r.Params.Interval)
	err = sdk.Poll(ctx, interval, 8*interval, func(ctx context.Context) (bool, error) {
		result := r.Host().Short(ctx, sdk.Command{Run: r.Params.TestCommand, ReadOnly: true})
		err := result.Err()
		if err == nil {
			return true, nil
		}
		if ctx.Err() == nil || last == nil { // an attempt that the timeout ended shows nothing
			last = fmt.Errorf("test_command: %w", err)
		}
		if !transient(ctx, err) {
			return false, err
		}
		return false, nil
	})
	return last, err
}
