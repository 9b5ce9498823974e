package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// Errors of host services. Each arrives wrapped in a [HostError].
var (
	ErrUnreachable = errors.New("host unreachable")
	ErrCheckMode   = errors.New("refused in check mode") // a call that is not marked read-only
	ErrDenied      = errors.New("denied")                // the lease does not name the host, or has ended
	ErrTimeout     = errors.New("timed out")             // the call's own limit, not the job's deadline
	ErrTooLarge    = errors.New("larger than allowed")
	ErrRefused     = errors.New("connection refused") // the host was reached, the address dialled from it was not
	ErrNotFound    = fs.ErrNotExist
)

// clockSlack is how much earlier than here a deadline may pass at the worker.
const clockSlack = 100 * time.Millisecond

// HostError is a host service call that did not work.
type HostError struct {
	Host   string
	Op     string // exec, put, get, dial, probe, or what failed on the way there
	Before bool   // nothing had been sent to the host: the call cannot have had effects
	Hint   string // what to do next; may be empty
	Err    error  // one of the errors above where it fits
	text   string
}

func (e *HostError) Error() string { return e.text }

func (e *HostError) Unwrap() error { return e.Err }

// hostError translates a status of the worker. A call that ended because ctx did
// answers the reason of ctx.
func hostError(ctx context.Context, host, op string, err error) error {
	if err == nil {
		return nil
	}
	code := wirerpc.CodeOf(err)
	if at, ok := ctx.Deadline(); ok && (code == wirerpc.CodeDeadlineExceeded || code == wirerpc.CodeCanceled) && time.Until(at) < clockSlack {
		<-ctx.Done() // the worker's timer was the faster of two for the same deadline; its end may also arrive as a stream that it reset
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	e := &HostError{Host: host, Op: op, Err: err, text: err.Error()}
	status, isStatus := errors.AsType[*wirerpc.Error](err)
	if isStatus {
		e.text = status.Message
	}
	switch code {
	case wirerpc.CodeUnavailable:
		e.Err = ErrUnreachable
		if isStatus && status.Fault != nil {
			fault := status.Fault
			e.Host, e.Op, e.Before, e.Hint = fault.GetHost(), fault.GetOp(), fault.GetBefore(), fault.GetHint()
		}
	case wirerpc.CodeFailedPrecondition:
		e.Err, e.Before = ErrCheckMode, true
	case wirerpc.CodePermissionDenied, wirerpc.CodeUnauthenticated:
		e.Err, e.Before = ErrDenied, true
	case wirerpc.CodeNotFound:
		e.Err = ErrNotFound
	case wirerpc.CodeOutOfRange:
		e.Err = ErrTooLarge
	case wirerpc.CodeDeadlineExceeded:
		e.Err = ErrTimeout
	case wirerpc.CodeAborted:
		e.Err = ErrRefused
	case wirerpc.CodeCanceled:
		e.Err = context.Canceled
	}
	if e.text == "" {
		e.text = fmt.Sprintf("%s: %v", op, e.Err)
	}
	return e
}

// Effects classifies what a failed step did to its host.
type Effects int

// The effects of a failure.
const (
	EffectsUnknown Effects = iota
	EffectsNone            // nothing was changed
	EffectsPartial         // some of it was done
)

// Failure is an error with details of how a step failed.
type Failure struct {
	reason                      string
	err                         error
	effects                     Effects
	retryable, rolledBack, lost bool
}

// Fail is an error with a reason that a person understands: what failed, where,
// what was expected. As it stands, effects are unknown and trying again is no help.
func Fail(reason string) *Failure { return &Failure{reason: reason} }

// Failf is Fail with a format; %w keeps the cause.
func Failf(format string, args ...any) *Failure {
	err := fmt.Errorf(format, args...)
	return &Failure{reason: err.Error(), err: err}
}

// Refuse is Failf, with its format, for a step that did nothing to the host.
func Refuse(format string, args ...any) *Failure { return Failf(format, args...).Effects(EffectsNone) }

// Retryable declares that trying again may help.
func (f *Failure) Retryable() *Failure { f.retryable = true; return f }

// Effects declares what was done to the host.
func (f *Failure) Effects(e Effects) *Failure { f.effects = e; return f }

// RolledBack declares that the host is as it was before, and proven so.
func (f *Failure) RolledBack() *Failure {
	f.rolledBack, f.effects = true, EffectsNone
	return f
}

// Lost declares that nobody knows what the host saw; it stops the whole run.
func (f *Failure) Lost() *Failure { f.lost, f.effects = true, EffectsUnknown; return f }

func (f *Failure) Error() string { return f.reason }

func (f *Failure) Unwrap() error { return errors.Unwrap(f.err) }

// suspension is the error value of Suspend.
type suspension struct {
	state     json.RawMessage
	err       error
	after     time.Duration
	signal    string
	reason    string
	keepLocks bool
	held      bool // for the host's maintenance window: the worker decides when the job continues
}

func (s *suspension) Error() string { return "suspended: " + s.reason }

// SuspendOption sets a detail of a suspension.
type SuspendOption func(*suspension)

// Suspend suspends the job when it is returned: it takes up no concurrency, and continues after the
// time or event with [Run].State set to state. It costs no attempt.
func Suspend[S any](state S, after time.Duration, opts ...SuspendOption) error {
	s := &suspension{after: after}
	s.state, s.err = encodeState(state)
	for _, o := range opts {
		o(s)
	}
	return s
}

// ErrWindowClosed is the error of [Run.Checkpoint] and [Run.MayStart] when the host's
// window does not allow to continue. The function returns it: the job is suspended, holding
// nothing, until the window is open again and fits, and continues with the state that was saved
// last.
var ErrWindowClosed = errors.New("waits for the maintenance window")

func (s *suspension) Is(target error) bool { return target == ErrWindowClosed && s.held }

// UntilSignal continues the job early when the event of that name is signalled. The next call
// cannot know whether the event, the time, or the next start of a killed turnus up caused it. A
// name has at most 128 bytes, and "window" is the worker's own: a step that gives another name
// fails. [ErrWindowClosed] waits for the maintenance window.
func UntilSignal(event string) SuspendOption { return func(s *suspension) { s.signal = event } }

// KeepLocks keeps the locks of host and HA group meanwhile.
func KeepLocks() SuspendOption { return func(s *suspension) { s.keepLocks = true } }

// Because gives the reason that operators see while the job is suspended.
func Because(reason string) SuspendOption { return func(s *suspension) { s.reason = reason } }

func encodeState(state any) (json.RawMessage, error) {
	raw, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("the state cannot be saved: %w", words.Plain(err))
	}
	if len(raw) > wire.MaxState {
		return nil, fmt.Errorf("state of %d bytes: at most %d are kept; save a reference instead", len(raw), wire.MaxState)
	}
	return raw, nil
}
