package host

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/plugins/internal/wire"
)

// Checkpoint implements wire.JobServer: it returns once the state is durable.
func (s *services) Checkpoint(ctx context.Context, req *wire.CheckpointRequest) (*wire.CheckpointResponse, error) {
	l, ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	state, err := stateFromWire(req.GetState())
	if err != nil {
		return nil, invalid("checkpoint: %s", err)
	}
	if l.call.Checkpoint == nil || state == nil {
		return &wire.CheckpointResponse{}, nil
	}
	if err := l.call.Checkpoint(ctx, *state); err != nil {
		return nil, fault(l.call.Host.Name, "checkpoint", err)
	}
	return &wire.CheckpointResponse{}, nil
}

// Secret implements wire.JobServer. The value is never logged.
func (s *services) Secret(ctx context.Context, req *wire.SecretRequest) (*wire.SecretResponse, error) {
	l, ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if l.call.Secret == nil {
		return nil, status.Errorf(codes.PermissionDenied, "secret %q: this job may read no secrets", req.GetName())
	}
	value, err := l.call.Secret(ctx, req.GetName())
	if err != nil {
		return nil, fault(l.call.Host.Name, "secret", err)
	}
	return &wire.SecretResponse{Value: value}, nil
}
