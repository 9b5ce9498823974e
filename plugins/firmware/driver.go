package firmware

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// driver has the commands and queries of one kind of device. It makes shell commands, and reads
// their output.
type driver interface {
	// questions are commands that change nothing, whose answers facts reads.
	questions() []question
	facts(a answers) (facts, error)
	// verify is a command that changes nothing and succeeds for a genuine artifact that fits the
	// device; verified reads what it printed.
	verify(file string) string
	verified(stdout string, f facts) error
	// install writes the artifact to the slot that does not run; it is run detached.
	install(file, slot string) string
	// slot is a command: activate makes the slot the one that boots next, commit keeps the one that
	// runs.
	slot(what slotAction, slot string) string
}

type slotAction int

const (
	activate slotAction = iota
	commit
)

// facts are the report of a device about itself.
type facts struct {
	Boot       string // id of this boot
	Version    string // that runs
	Compatible string // "" when it does not know
	Slot       string // that runs; "" without slots
	Other      string // the one that can be installed; "" without
	Primary    string // that boots next
	Good       bool   // the running slot is kept over boots
	Installed  string // version in the other slot, as the installer recorded it; "" when it does not know
}

// of picks the driver.
func (d *Device) of() driver {
	if d.Driver == "script" {
		return &scripted{Script: d.Script, artifact: d.Artifact, sig: d.sigFile()}
	}
	return &rauc{artifact: d.Artifact, version: d.VersionCommand}
}

// question is a command whose output is wanted.
type question struct{ name, command string }

// said is the output of a command, and its exit code.
type said struct {
	text string
	code int
}

type answers map[string]said

// text is the answer, or the error that the question failed.
func (a answers) text(name string) (string, error) {
	s, ok := a[name]
	switch {
	case !ok:
		return "", unclear("no answer to %s", name)
	case s.code != 0:
		return "", unclear("asking for its %s: exit status %d", name, s.code)
	}
	return s.text, nil
}

// unclearError is of a device that answers, but is not yet what it should be, or cannot report what
// it runs: it may not have booted yet.
type unclearError struct{ error }

func unclear(format string, args ...any) error { return &unclearError{fmt.Errorf(format, args...)} }

func (e *unclearError) Unwrap() error { return e.error }

// bootID is the kernel's id of this boot; elsewhere, when it booted.
const bootID = "cat /proc/sys/kernel/random/boot_id 2>/dev/null || sysctl -n kern.boottime"

// ask puts all questions in one round trip.
func ask(ctx context.Context, h *sdk.Host, fresh bool, limit time.Duration, list []question) (answers, error) {
	mark := "turnus-" + rand.Text()
	var b strings.Builder
	for _, q := range list {
		// In a shell of its own, so that neither its exit nor its unbalanced quotes end the others.
		fmt.Fprintf(&b, "a=$(/bin/sh -c %s </dev/null); printf '%%s\\n%s %s %%d\\n' \"$a\" $?\n", sdk.Quote(q.command), mark, q.name)
	}
	result := h.Short(ctx, sdk.Command{Run: b.String(), ReadOnly: true, Fresh: fresh, Timeout: limit})
	if err := result.Err(); err != nil {
		return nil, err
	}
	if result.Truncated {
		return nil, fmt.Errorf("the device's answer: %w", sdk.ErrTooLarge)
	}
	a, text := answers{}, ""
	for line := range strings.Lines(result.Stdout) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), mark+" ")
		if !ok {
			text += line
			continue
		}
		name, code, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(code)
		if err != nil {
			return nil, unclear("exit code %q of %s", code, name)
		}
		a[name], text = said{text: strings.TrimSpace(text), code: n}, ""
	}
	return a, nil
}

// inspect reads the device's facts.
func inspect(ctx context.Context, h *sdk.Host, d driver, fresh bool, limit time.Duration, more ...question) (facts, answers, error) {
	list := append([]question{{"boot", bootID}}, d.questions()...)
	a, err := ask(ctx, h, fresh, limit, append(list, more...))
	if err != nil {
		return facts{}, nil, err
	}
	f, err := d.facts(a)
	if err != nil {
		return facts{}, nil, err
	}
	if f.Boot, err = a.text("boot"); err == nil && f.Boot == "" {
		err = unclear("it has no boot id (tried /proc/sys/kernel/random/boot_id and sysctl kern.boottime)")
	}
	return f, a, err
}

// transient reports whether an error is what a device shows on its way down or up.
func transient(ctx context.Context, err error) bool {
	var exit *sdk.ExitError
	var unclear *unclearError
	return ctx.Err() == nil &&
		(errors.Is(err, sdk.ErrUnreachable) || errors.Is(err, sdk.ErrTimeout) || errors.As(err, &unclear) || errors.As(err, &exit))
}
