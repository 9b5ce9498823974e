package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// lease is one call's right to use the host services, on its job's host only, and it dies
// with the call.
type lease struct {
	token string
	call  *Call
	over  context.Context //nolint:containedctx // the lease's life, which its operations share
	cut   context.CancelFunc
	owner *services

	first sync.Mutex // held while the call's first operation waits to begin
	begun bool       // it did
	held  string     // why it may not

	mu    sync.Mutex
	ended bool
	stale bool          // a host saw a newer lease of the queue
	wrong string        // see Outcome.Barred
	ops   int           // operations that run
	runs  int           // commands that may change the host and whose end it did not confirm
	try   try           // what was asked for so far
	off   chan struct{} // closed: ended, and none runs
}

// maxOps bounds what one call can make the worker do at the same time, silent streams included.
const maxOps = 256

// grant makes a lease for a call.
func (s *services) grant(c *Call) *lease {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	l := &lease{token: hex.EncodeToString(id[:]), call: c, owner: s, off: make(chan struct{})}
	l.over, l.cut = context.WithCancel(context.Background())
	s.mu.Lock()
	s.leases[l.token] = l
	s.mu.Unlock()
	return l
}

// end takes the right away: later calls are refused, and what runs is cut. It waits
// up to grace for the operations to be off the hosts.
func (l *lease) end(grace time.Duration) {
	l.owner.mu.Lock()
	delete(l.owner.leases, l.token)
	l.owner.mu.Unlock()
	l.mu.Lock()
	l.ended = true
	if l.ops == 0 {
		close(l.off)
	}
	l.mu.Unlock()
	l.cut()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-l.off:
	case <-t.C:
	}
}

// checkpointed notes a durable state. Operations that run beside the checkpoint may not be in it.
func (l *lease) checkpointed(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.try.saved = &s
	if l.ops == 1 {
		l.try.unsaved = false
	}
}

// tried returns what the call has tried so far.
func (l *lease) tried() try { return core.Locked(&l.mu, &l.try) }

// leave is the end of one operation.
func (l *lease) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops--
	if l.ended && l.ops == 0 {
		close(l.off)
	}
}

// enter authenticates a host service call. The context ends with the call, or with the lease; leave
// must be called when the operation has ended.
func (s *services) enter(ctx context.Context) (*lease, context.Context, func(), error) {
	md, _ := metadata.FromIncomingContext(ctx)
	var l *lease
	if tokens := md.Get(wire.LeaseKey); len(tokens) == 1 {
		s.mu.Lock()
		l = s.leases[tokens[0]]
		s.mu.Unlock()
	}
	if l == nil {
		return nil, nil, nil, errNoLease
	}
	if err := l.call.live(); err != nil {
		return nil, nil, nil, errOver(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, nil, nil, errNoLease
	}
	if l.ops >= maxOps {
		return nil, nil, nil, status.Errorf(codes.ResourceExhausted, "%d operations of this call are in progress: that is the limit", l.ops)
	}
	l.ops++
	if l.call.span != nil {
		ctx = trace.ContextWithSpan(ctx, l.call.span)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.over, cancel)
	return l, ctx, func() { stop(); cancel(); l.leave() }, nil
}

var errNoLease = status.Error(codes.PermissionDenied, "no such lease: host services work while their job runs, with its lease in the metadata "+wire.LeaseKey)

func (c *Call) live() error {
	if c.Live == nil {
		return nil
	}
	return c.Live()
}

func errOver(why error) error {
	return status.Errorf(codes.PermissionDenied, "the lease of this job has ended: %s", why)
}

// last is the last question before host h is reached: a stream's first message may have come late,
// and what the call was allowed to begin may have had to wait for the connection.
func (l *lease) last(ctx context.Context, h core.Host) error {
	if err := l.begin(ctx, h); err != nil {
		return err
	}
	if err := l.call.live(); err != nil {
		return errOver(err)
	}
	return nil
}

// elevated is last before something that runs as the call's Become.
func (l *lease) elevated(ctx context.Context, h core.Host) error {
	if err := l.last(ctx, h); err != nil {
		return err
	}
	if why := l.barred(); why != "" {
		return status.Error(codes.PermissionDenied, why)
	}
	return nil
}

// barred is why the call may not become another user. One refused password is enough: the account
// could be locked.
func (l *lease) barred() string {
	if l.call.Become.User == "" {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.wrong, l.call.Barred)
}

// begin lets the first operation wait for the connection, and then asks whether the call may begin.
// A refusal is final.
func (l *lease) begin(ctx context.Context, h core.Host) error {
	if l.call.MayBegin == nil {
		return nil
	}
	l.first.Lock()
	defer l.first.Unlock()
	if !l.begun && l.held == "" {
		if err := l.owner.reach.Ready(ctx, h); err != nil {
			return fault(h.Name, "connect", err)
		}
		l.held = l.call.MayBegin(ctx)
		l.begun = l.held == ""
	}
	if l.held != "" {
		return status.Error(codes.FailedPrecondition, "the step may not begin now: "+l.held)
	}
	return nil
}

// refused is the outcome of a call that begin let do nothing, or out: a job type that hides the
// refusal has done nothing either.
func (l *lease) refused(out Outcome) Outcome {
	l.first.Lock()
	defer l.first.Unlock()
	if l.held == "" || out.Cancelled || out.Suspended {
		return out
	}
	return unready(l.call, l.held)
}

// host is the job's own host, by its name or by none. A lease is good for no other.
func (l *lease) host(name string) (core.Host, error) {
	if name == "" || name == l.call.Host.Name {
		return l.call.Host, nil
	}
	return core.Host{}, status.Errorf(codes.PermissionDenied, "host %q is not that of the lease of job %s, which is %q", name, l.call.Job, l.call.Host.Name)
}

func (l *lease) fence() transport.Fence {
	return transport.Fence{Queue: l.call.Queue, Count: l.call.Fence}
}

// heed notes what a host refused, whatever the plugin makes of it: the call's fence, since the job
// is not this worker's, or a password.
func (l *lease) heed(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, transport.ErrStaleFence):
		l.stale = true
	case errors.Is(err, transport.ErrWrongPassword):
		l.wrong = err.Error()
	}
	return err
}

// run runs a command, which counts until the host confirms its end.
func (l *lease) run(ctx context.Context, h core.Host, e transport.Exec, readOnly bool) (transport.Exit, error) {
	count := func(n int) {
		if !readOnly {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.runs += n
		}
	}
	e.Fence, e.Become = l.fence(), l.call.Become
	count(1)
	exit, err := l.owner.reach.Run(ctx, h, e)
	if !errors.Is(err, transport.ErrMayRun) {
		count(-1)
	}
	return exit, l.heed(err)
}

// mayRun makes a call that ended in the middle of a command lost, unless the host confirmed the end
// of the command: the next attempt would run beside it. A cancelled call that may be repeated stays
// as it is: the fence of its next lease ends the command.
func (l *lease) mayRun(out Outcome, repeatable bool) Outcome {
	if core.Locked(&l.mu, &l.runs) == 0 || !out.Failed && (!out.Cancelled || repeatable) {
		return out
	}
	out.Failed, out.Cancelled, out.Lost, out.Effects = true, false, true, EffectsUnknown
	out.Reason = strings.TrimPrefix(out.Reason+"; ", "; ") + "its command may still run: the host did not confirm that it ended"
	return out
}

// lost is an error when a host refused the call's fence.
func (l *lease) lost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stale {
		return nil
	}
	return fmt.Errorf("%w: host %s: %w", core.ErrSessionGone, l.call.Host.Name, transport.ErrStaleFence)
}

// change stands before whatever could change the host: an error in check mode, else the error of
// the call's BeforeChange.
func (l *lease) change(ctx context.Context, what string) error {
	if !l.call.Check {
		if l.call.BeforeChange != nil {
			if err := l.call.BeforeChange(ctx); err != nil {
				return fault(l.call.Host.Name, "before "+what, err)
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.try.touched, l.try.unsaved = true, true
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "check mode: %s is refused, because it could change the host; mark what only reads as read-only", what)
}

// stream serves a streaming call under its lease; ctx is the stream's, op's also ends with the
// lease.
func (s *services) stream(ctx context.Context, op func(context.Context, *lease) error) error {
	l, ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	return l.cutOff(ctx, leave, func() error { return op(ctx, l) })
}

// cutOff runs a streaming operation so that the end of the lease ends the handler even while the
// operation is stuck in a read or write of the stream: only a handler's return frees those.
func (l *lease) cutOff(ctx context.Context, leave func(), op func() error) error {
	done := make(chan error, 1)
	go func() {
		defer leave()
		done <- op()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done(): // the plugin's stream, the lease, or leave
	}
	select {
	case err := <-done: // leave comes after the result
		return err
	default:
	}
	if l.over.Err() != nil {
		return status.Error(codes.PermissionDenied, "the job of this lease has ended")
	}
	return status.FromContextError(ctx.Err()).Err()
}
