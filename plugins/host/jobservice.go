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
		return &wire.CheckpointResponse{}, nil // nothing was kept to go on from
	}
	if err := l.call.Checkpoint(ctx, *state); err != nil {
		return nil, fault(l.call.Host.Name, "checkpoint", err)
	}
	resp := &wire.CheckpointResponse{}
	if l.call.Stop != nil && !req.GetGoOn() {
		resp.Stop = l.call.Stop(ctx)
	}
	return resp, nil
}

// MayStart implements wire.JobServer.
func (s *services) MayStart(ctx context.Context, req *wire.MayStartRequest) (*wire.MayStartResponse, error) {
	l, ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if l.call.MayStart == nil || l.call.Check {
		return &wire.MayStartResponse{}, nil
	}
	return &wire.MayStartResponse{Wait: l.call.MayStart(ctx, millis(req.GetNeedMs()))}, nil
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
