package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Run calls the job type and returns its one outcome. When ctx ends, it asks the job to end, and
// after Grace it condemns the job's process. It returns within 2·Grace in any case.
//
// If a process dies under several calls, the guilty call is not known. A call that can be repeated
// is then called again alone, and returns as if nothing had happened. A call can be repeated if its
// type can, or if it has asked for nothing that may change its host since its last checkpoint.
//
// An outcome comes with every error, so Effects is always set:
//
//   - core.ErrPluginFailed: the process died under the call, broke the protocol, or is killed
//     because the call did not end when it was asked to. Effects unknown.
//   - core.ErrUnavailable: the call never began, because the plugin does not start, is paused after
//     repeated deaths, or the supervisor stops. Effects none.
//   - core.ErrSessionGone: the host refused the call's fence, because it saw a newer lease: the job
//     is another worker's.
//   - core.ErrInvalid: an unknown type, or a call that it does not support. Effects none.
func (s *Supervisor) Run(ctx context.Context, c Call) (Outcome, error) {
	if c.Type == KeysType {
		return s.scanKeys(ctx, &c), nil
	}
	t, err := s.use(ctx, c.Type)
	if ctxErr := ctx.Err(); err != nil && ctxErr != nil {
		return ended(ctxErr, " before it began", EffectsNone), nil
	}
	if err != nil {
		return unbegun(err), err
	}
	defer s.leave(t.pool)
	if err := t.check(&c); err != nil {
		return unbegun(err), err
	}
	ctx, c.span = telemetry.StartSpan(ctx, telemetry.SpanCall, telemetry.AttributeJob.String(c.Job.String()), telemetry.AttributeHost.String(c.Host.Name), telemetry.AttributeJobType.String(c.Type))
	out, err := s.attempts(ctx, t, &c)
	out.Reason = brief(out.Reason)
	if hint := becomeHint(&c, out, s.login); hint != "" { // in place of one that does not know the login
		out.Reason, _, _ = strings.Cut(out.Reason, "\nhint: ")
		out.Reason += hint
	}
	telemetry.EndSpan(c.span, err)
	return out, err
}

// unready is the outcome of a call that may not begin now.
func unready(c *Call, why string) Outcome {
	return Outcome{Suspended: true, Held: true, Reason: why, State: c.State, Effects: EffectsNone}
}

func unbegun(err error) Outcome {
	return Outcome{Failed: true, Reason: err.Error(), Effects: EffectsNone, Retryable: errors.Is(err, core.ErrUnavailable)}
}

// crashed is the outcome of a call that has none of its own.
func crashed(err error) (Outcome, error) {
	return Outcome{Failed: true, Reason: err.Error(), Effects: EffectsUnknown}, err
}

// ended is the outcome of a call whose ctx ended.
func ended(err error, how, effects string) Outcome {
	if errors.Is(err, context.DeadlineExceeded) {
		return Outcome{Failed: true, TimedOut: true, How: how, Reason: "timed out" + how, Effects: effects}
	}
	return Outcome{Cancelled: true, Reason: "cancelled" + how, Effects: effects}
}

func (t jobType) check(c *Call) error {
	switch {
	case c.Check && !t.Check:
		return fmt.Errorf("%w: job type %s does not support check mode", core.ErrInvalid, c.Type)
	case c.Host.Name == "":
		return fmt.Errorf("%w: call of %s names no host", core.ErrInvalid, c.Type)
	case len(c.Params) > wire.MaxMessage/2:
		return fmt.Errorf("%w: the parameters of %s have %d bytes; at most %d can be sent", core.ErrInvalid, c.Type, len(c.Params), wire.MaxMessage/2)
	case c.State != nil && len(c.State.JSON) > wire.MaxState:
		return fmt.Errorf("%w: the state of %s has %d bytes; at most %d can be sent", core.ErrInvalid, c.Type, len(c.State.JSON), wire.MaxState)
	}
	return nil
}

// call drives one call to its outcome.
func (p *pool) call(ctx context.Context, q *process, l *lease) (Outcome, error) {
	streamCtx, cut := context.WithCancel(context.WithoutCancel(ctx)) // so that cancelling is a request first
	defer cut()
	e := &ending{pool: p, process: q, lease: l, cut: cut, over: make(chan struct{})}
	defer e.join()
	defer context.AfterFunc(ctx, e.ask)()
	stream, err := q.rpc.Run(streamCtx, request(ctx, l))
	if err != nil && !e.late() { // the request did not get out
		if !q.dead() {
			p.condemn(q, "it takes no calls")
		}
		err = fmt.Errorf("%w: plugin %s %s takes no calls: %w", core.ErrUnavailable, p.plugin.Name, p.plugin.Version, err)
		return unbegun(err), err
	}
	var out Outcome
	if err == nil {
		out, err = receive(stream, l.call.Sink, e.afterOutcome)
	}
	switch {
	case err == nil && out.Cancelled && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ended(ctx.Err(), ": "+out.Reason, EffectsUnknown), nil
	case err == nil:
		return out, nil
	case e.late():
		how := fmt.Sprintf(", and did not end within %s; its process is killed", p.timing.grace)
		return ended(ctx.Err(), how, EffectsUnknown), fmt.Errorf("%w: %s %s: the call was asked to end%s", core.ErrPluginFailed, p.plugin.Name, p.plugin.Version, how)
	}
	return crashed(p.broken(q, l.call, err))
}

// errProtocol marks what a well-made plugin never does.
var errProtocol = errors.New("plugin broke the protocol")

// receive passes on the events and returns the one outcome, which must be the last event.
func receive(stream grpc.ServerStreamingClient[wire.RunEvent], sink func(Event), haveOutcome func()) (Outcome, error) {
	var out *Outcome
	refused := false // the params
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && out == nil:
			return Outcome{}, fmt.Errorf("%w: the call ended without an outcome", errProtocol)
		case err != nil && out != nil:
			return *out, nil // what happens after the outcome changes it no more
		case err != nil:
			return Outcome{}, err
		case out != nil:
			return Outcome{}, fmt.Errorf("%w: it sent %s after the outcome", errProtocol, eventName(m))
		}
		if w := m.GetOutcome(); w != nil {
			o, err := outcomeFromWire(w)
			if err != nil {
				return Outcome{}, fmt.Errorf("%w: %w", errProtocol, err)
			}
			o.Misfit = o.Failed && refused
			out = &o
			haveOutcome()
			continue
		}
		if d := m.GetDiagnostic(); d != nil && d.GetSeverity() == wire.Diagnostic_ERROR {
			refused = true
		}
		if e, ok := eventFromWire(m); ok && sink != nil {
			sink(e)
		}
	}
}

// broken explains a call that has no outcome.
func (p *pool) broken(q *process, c *Call, err error) error {
	if status.Code(err) == codes.Unavailable || q.dead() {
		died := q.died(p.timing.grace)
		if !q.dead() {
			p.condemn(q, "its connection broke")
		}
		return &deathError{died}
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok && !errors.Is(err, errProtocol) {
		text = s.Message()
	}
	p.log.Error("plugin call without a valid outcome", "plugin", p.plugin.Name, "err", brief(c.Hidden.String(err.Error())))
	return fmt.Errorf("%w: %s %s: %s; what it did on the host is unknown", core.ErrPluginFailed, p.plugin.Name, p.plugin.Version, brief(text))
}

// ending bounds the end of a call: after ctx ends, and after the outcome came.
type ending struct {
	pool    *pool
	process *process
	lease   *lease
	cut     context.CancelFunc // of the call's stream
	over    chan struct{}      // closed when the call has returned
	wg      sync.WaitGroup

	mu     sync.Mutex
	closed bool
	timer  *time.Timer
	missed bool // the call did not end within grace
}

// askAgain is how long a call has to end before it is asked again.
const askAgain = 200 * time.Millisecond

// ask runs when ctx ends: it asks the call to end, and cuts it off when it does not. It repeats
// this, because a request that reaches the process before the call has no effect.
func (e *ending) ask() {
	if !e.arm() {
		return
	}
	defer e.wg.Done()
	ctx, cancel := context.WithTimeout(context.Background(), e.pool.timing.grace)
	defer cancel()
	e.wg.Go(func() {
		select {
		case <-e.over:
			cancel()
		case <-ctx.Done():
		}
	})
	end, _ := ctx.Deadline()
	for again := true; again; again = core.Sleep(ctx, askAgain) == nil {
		e.process.cancel(ctx, e.lease.token, time.Until(end))
	}
}

// afterOutcome runs when the outcome came: the stream must end now.
func (e *ending) afterOutcome() {
	if e.arm() {
		e.wg.Done()
	}
}

// arm starts the clock, unless the call has ended. The caller owes a Done for true.
func (e *ending) arm() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.wg.Add(1)
	if e.timer == nil {
		e.wg.Add(1)
		e.timer = time.AfterFunc(e.pool.timing.grace, e.expire)
	}
	return true
}

func (e *ending) expire() {
	defer e.wg.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.missed = true
	e.pool.condemn(e.process, "call "+e.lease.call.Job.String()+" of "+e.lease.call.Type+" does not end")
	e.cut()
}

func (e *ending) late() bool { return core.Locked(&e.mu, &e.missed) }

// join ends the watching.
func (e *ending) join() {
	e.mu.Lock()
	e.closed = true
	close(e.over)
	if e.timer != nil && e.timer.Stop() {
		e.wg.Done()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

func request(ctx context.Context, l *lease) *wire.RunRequest {
	c := l.call
	r := &wire.RunRequest{
		Job: c.Job.String(), Step: c.Step, Attempt: uint32(max(c.Attempt, 1)), Lease: l.token,
		Type: c.Type, Params: c.Params, Host: c.Host.Name, Check: c.Check, Diff: c.Diff,
		Untouched: c.Untouched, IdempotencyKey: c.Key, Traceparent: telemetry.Traceparent(ctx), Fence: c.Fence, HostLabels: c.Host.Labels, Secrets: slices.Sorted(maps.Keys(c.Secrets)),
	}
	if c.State != nil {
		r.State = &wire.State{Version: uint32(c.State.Version), Json: c.State.JSON}
	}
	if d, ok := ctx.Deadline(); ok {
		r.DeadlineUnixMs = d.UnixMilli()
	}
	return r
}
