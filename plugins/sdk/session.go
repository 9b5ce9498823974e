package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// maxOutputs bounds the outputs and evidence of one call, in bytes of JSON. A worker keeps less of
// them.
const maxOutputs = 1 << 20

// session is one call of Run on the wire, without the author's types.
type session struct {
	req    *wire.RunRequest
	events *events
	hosts  wirerpc.Hosts
	jobs   wirerpc.Job

	touched atomic.Bool // a call that may change a host was sent

	mu   sync.Mutex
	done done
}

// done is the content of a successful outcome.
type done struct {
	changed, skipped bool
	unchecked        bool // by Lacks
	reason           string
	outputs          map[string]json.RawMessage
	evidence         map[string]json.RawMessage
	size             int
	err              error           // of an output; fails the step
	saved            json.RawMessage // the state that the next call finds
	phase            phaseAt
}

func (s *session) update(change func(*done)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.done)
}

func (s *session) withLease(ctx context.Context) context.Context {
	return wirerpc.WithLease(ctx, s.req.GetLease())
}

// release ends a stream whatever is left of it, so that the connection gets back what it holds for
// it.
func release(cancel context.CancelFunc, end func() error) {
	cancel() // else end waits for an answer
	_ = end()
}

var errCancelled = errors.New("cancelled")

// paramsError is a with: that does not fit; it reaches the worker as diagnostics.
type paramsError struct{ diags []*wire.Diagnostic }

func (e *paramsError) Error() string { return "invalid parameters: " + diagnosticsText(e.diags) }

// outcome is how the call ended, from what the author's function returned.
func (s *session) outcome(ctx context.Context, err error) *wire.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.done.err != nil {
		err = s.done.err
	}
	if err == nil {
		return &wire.Outcome{Outcome: &wire.Outcome_Done{Done: &wire.Done{
			Changed: s.done.changed, Skipped: s.done.skipped, Unchecked: s.done.unchecked,
			Reason: clean(s.done.reason, maxReason), Outputs: s.outputs(),
		}}}
	}
	var suspended *suspension
	if errors.As(err, &suspended) && suspended.err == nil {
		return s.suspended(suspended)
	}
	if suspended != nil {
		err = suspended.err
	}
	failed := s.failed(err)
	if ctx.Err() != nil && isContextError(err) && !failed.RolledBack && !failed.Lost {
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return &wire.Outcome{Outcome: &wire.Outcome_Cancelled{Cancelled: &wire.Cancelled{Reason: clean(err.Error(), maxReason)}}}
		}
		failed.TimedOut, failed.Retryable = true, true
	}
	return &wire.Outcome{Outcome: &wire.Outcome_Failed{Failed: failed}}
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errCancelled)
}

func (s *session) suspended(p *suspension) *wire.Outcome {
	return &wire.Outcome{Outcome: &wire.Outcome_Suspended{Suspended: &wire.Suspended{
		State:         &wire.State{Json: p.state},
		ResumeAfterMs: max(p.after, 0).Milliseconds(),
		UntilSignal:   clean(p.signal, maxTitle), KeepLocks: p.keepLocks, Reason: clean(p.reason, maxReason),
		WindowClosed: p.held,
	}}}
}

// failed returns the failure of the host that an error describes. Errors of the sdk carry it; of
// any other, effects are unknown.
func (s *session) failed(err error) *wire.Failed {
	out := &wire.Failed{Reason: clean(words.Plain(err).Error(), maxReason), Outputs: s.outputs()}
	var (
		host    *HostError
		failure *Failure
		exit    *ExitError
		bad     *paramsError
	)
	if errors.As(err, &host) {
		s.blame(out, host)
	}
	if errors.As(err, &exit) {
		out.Retryable = true // the playbook's retry decides; a command that fails may succeed later
	}
	if errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		out.TimedOut, out.Retryable = true, true
	}
	if errors.As(err, &failure) {
		out.Retryable = out.Retryable || failure.retryable
		out.RolledBack, out.Lost = failure.rolledBack, failure.lost
		if failure.effects != EffectsUnknown || failure.lost {
			out.Effects = failure.effects.wire()
		}
	}
	if errors.As(err, &bad) {
		out.Effects = wire.Failed_NONE
	}
	return out
}

func (s *session) blame(out *wire.Failed, host *HostError) {
	if host.Hint != "" {
		out.Reason = clean(out.Reason+"\nhint: "+host.Hint, maxReason)
	}
	if errors.Is(host, ErrUnreachable) {
		out.Unreachable, out.Retryable = true, true
	}
	if host.Before && !s.touched.Load() {
		out.Effects = wire.Failed_NONE
	}
}

func (e Effects) wire() wire.Failed_Effects {
	switch e {
	case EffectsNone:
		return wire.Failed_NONE
	case EffectsPartial:
		return wire.Failed_PARTIAL
	}
	return wire.Failed_UNKNOWN
}

// outputs needs s.mu.
func (s *session) outputs() []byte {
	all := maps.Clone(s.done.outputs)
	if len(s.done.evidence) > 0 {
		raw, err := json.Marshal(s.done.evidence)
		if err != nil {
			return nil // each value was marshalled before
		}
		all["evidence"] = raw
	}
	if len(all) == 0 {
		return nil
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil // each value was marshalled before
	}
	return raw
}

func (s *session) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if ms := s.req.GetDeadlineUnixMs(); ms > 0 {
		return context.WithDeadline(ctx, time.UnixMilli(ms))
	}
	return context.WithCancel(ctx)
}

// sendChunks copies data in pieces that fit the wire.
func sendChunks(data io.Reader, send func([]byte) error) error {
	buf := make([]byte, wire.ChunkSize)
	for {
		n, err := data.Read(buf)
		if n > 0 {
			if sendErr := send(buf[:n]); sendErr != nil {
				return sendErr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
