// Package wait owns the job type wait: something on a host comes true. It imports
// only the sdk.
package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a wait.
type Params struct {
	Address  string       `json:"address,omitempty" turnus:"min=1" jsonschema:"host:port that accepts connections, as the host sees it"`
	Port     int          `json:"port,omitempty" turnus:"min=1,max=65535" jsonschema:"instead of address: a port of the host's loopback address"`
	Command  string       `json:"command,omitempty" turnus:"min=1" jsonschema:"command line that exits with 0; it should change nothing"`
	File     string       `json:"file,omitempty" turnus:"pattern=^/" jsonschema:"path that exists"`
	State    string       `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"absent: wait until nothing listens, the command fails, the path is gone"`
	Timeout  sdk.Duration `json:"timeout,omitempty" turnus:"default=5m" jsonschema:"the step fails after it"`
	Interval sdk.Duration `json:"interval,omitempty" turnus:"default=1s" jsonschema:"between the first attempts; it grows to ten times as much"`
	Delay    sdk.Duration `json:"delay,omitempty" turnus:"default=0s" jsonschema:"before the first attempt"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	given := 0
	for _, is := range []bool{p.Address != "", p.Port != 0, p.Command != "", p.File != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("expected one of address, port, command and file; found %d", given)
	}
	if p.Address != "" {
		if _, _, err := net.SplitHostPort(p.Address); err != nil {
			return &sdk.ParamError{Pointer: "/address", Err: fmt.Errorf("expected host:port: %w", err)}
		}
	}
	return nil
}

// Outputs of a wait.
type Outputs struct {
	Attempts int     `json:"attempts" jsonschema:"number of attempts"`
	Seconds  float64 `json:"seconds" jsonschema:"duration of the wait"`
}

const attemptTimeout = 30 * time.Second

type runOf = sdk.Run[Params, sdk.NoState]

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("wait", run,
		sdk.Summary("Wait until a port, a command or a file is as expected"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("A service listens", sdk.With{"port": 8080}),
		sdk.Example("A command passes", sdk.With{"command": "fwctl health", "timeout": "2m", "interval": "5s"}),
		sdk.Example("A lock is gone", sdk.With{"file": "/run/update.lock", "state": "absent"}),
	)
}

const description = `
Polls until the condition holds or ` + "`timeout`" + ` has passed, with pauses that grow from ` + "`interval`" + ` to
ten times as much. Connections to ports come from the host, so its firewall and its loopback
address count. An unreachable host is also polled. Check mode does not wait.
`

func run(ctx context.Context, r *runOf) error {
	p := r.Params
	if r.Check {
		r.Explain("would wait for " + p.what())
		return nil
	}
	if err := sdk.Sleep(ctx, time.Duration(p.Delay)); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(p.Timeout))
	defer cancel()
	begin, attempts := time.Now(), 0
	var last error
	interval := time.Duration(p.Interval)
	err := sdk.Poll(waiting, interval, 10*interval, func(waiting context.Context) (bool, error) {
		attempts++
		why, err := try(waiting, r)
		if err != nil {
			return false, err
		}
		if waiting.Err() == nil || attempts == 1 { // an attempt that the timeout ended shows nothing
			last = why
		}
		if p.State == "present" {
			return why == nil, nil
		}
		return isAbsent(why), nil
	})
	r.Output("attempts", attempts)
	r.Output("seconds", time.Since(begin).Round(time.Millisecond).Seconds())
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return timedOut(p, last)
	}
	return err
}

func timedOut(p Params, last error) error {
	last = cmp.Or(last, errors.New("it is still there"))
	return sdk.Refuse("waited %s for %s to be %s: %w", p.Timeout, p.what(), p.State, last).Retryable()
}

func (p *Params) what() string {
	switch {
	case p.Command != "":
		return "command " + p.Command
	case p.File != "":
		return "file " + p.File
	}
	return "port " + p.address()
}

func (p *Params) address() string {
	return cmp.Or(p.Address, net.JoinHostPort("127.0.0.1", fmt.Sprint(p.Port)))
}

// isAbsent distinguishes an attempt that found nothing from one without a result, as if the host
// could not be reached or time ran out.
func isAbsent(why error) bool {
	var exit *sdk.ExitError
	return errors.As(why, &exit) || errors.Is(why, sdk.ErrRefused) || errors.Is(why, errMissing)
}

var errMissing = errors.New("it does not exist")

// try makes one attempt. why is nil if it is there; err ends the step.
func try(ctx context.Context, r *runOf) (why, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	p := r.Params
	switch {
	case p.File != "":
		there, err := r.Host().Exists(ctx, p.File)
		if err == nil && !there[0] {
			return errMissing, nil
		}
		return err, fatal(ctx, err)
	case p.Command != "":
		err := r.Host().Short(ctx, sdk.Command{Run: p.Command}).Err()
		return err, fatal(ctx, err)
	}
	conn, err := r.Host().Dial(ctx, p.address())
	if err != nil {
		return err, fatal(ctx, err)
	}
	return nil, conn.Close()
}

// fatal keeps the errors that waiting cannot mend.
func fatal(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, sdk.ErrDenied) || errors.Is(err, sdk.ErrCheckMode)) {
		return err
	}
	return nil
}
