package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/internal/wire"
)

// lease is one call's right to use the host services, on its job's host only, and it dies
// with the call.
type lease struct {
	token string
	call  *Call
	over  context.Context //nolint:containedctx // the lease's life, which its operations share
	cut   context.CancelFunc
	owner *services

	mu    sync.Mutex
	ended bool
	ops   int           // operations that run
	off   chan struct{} // closed: ended, and none runs
}

// maxOps bounds what one call can make the worker do at once, streams that say nothing included.
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

// leave is the end of one operation.
func (l *lease) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops--
	if l.ended && l.ops == 0 {
		close(l.off)
	}
}

// enter authenticates a host service call. The context ends with the call, or with
// the lease; leave must be called when the operation is over.
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, nil, nil, errNoLease
	}
	if l.ops >= maxOps {
		return nil, nil, nil, status.Errorf(codes.ResourceExhausted, "%d operations of this call are under way; no more at once are possible", l.ops)
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

// host is the job's own host, by its name or by none. A lease is good for no other.
func (l *lease) host(name string) (core.Host, error) {
	if name == "" || name == l.call.Host.Name {
		return l.call.Host, nil
	}
	return core.Host{}, status.Errorf(codes.PermissionDenied, "host %q is not that of the lease of job %s, which is %q", name, l.call.Job, l.call.Host.Name)
}

// change is an error in check mode.
func (l *lease) change(what string) error {
	if !l.call.Check {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "check mode: %s is refused, because it could change the host; mark what only reads as read-only", what)
}

// stream serves a streaming call under its lease; ctx is the stream's, op's ends with the lease too.
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
