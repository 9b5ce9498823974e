package host

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/turnus/turnus/plugins/host/wiregrpc"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Reach is how host services get to hosts; *transport.Pool is one, the simulated hosts of the
// conformance suite are another.
type Reach = reach

// Services are the host services for a process that its caller started and watches, as the
// conformance suite does. They are those of a worker, except the check of the peer process.
type Services struct{ s *services }

// NewServices makes host services over a reach.
func NewServices(r Reach, log *slog.Logger) *Services {
	return &Services{&services{reach: r, log: log, leases: map[string]*lease{}, served: make(chan struct{})}}
}

// Register adds them to a gRPC server.
func (s *Services) Register(to grpc.ServiceRegistrar) {
	wiregrpc.RegisterHostsServer(to, s.s)
	wiregrpc.RegisterJobServer(to, s.s)
}

// Grant makes a lease for a call, and the request that carries it; the deadline is that of ctx. end
// takes the lease away, and must be called.
func (s *Services) Grant(ctx context.Context, c *Call) (req *wire.RunRequest, end func()) {
	l := s.s.grant(c)
	return request(ctx, l), func() { l.end(0) }
}

// ReadOutcome reads an outcome as a worker does; an error is how it breaks the protocol.
func ReadOutcome(w *wire.Outcome) (Outcome, error) { return outcomeFromWire(w) }

// ReadManifest reads a manifest as a worker does, and checks it.
func ReadManifest(w *wire.Manifest) (Manifest, error) {
	m := manifestFromWire(w)
	return m, m.Validate()
}
