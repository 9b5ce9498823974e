package host

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Checkpoint implements wiregrpc.JobServer: it returns once the state is durable.
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
		return &wire.CheckpointResponse{}, nil // nothing was kept to continue from
	}
	if err := l.call.Checkpoint(ctx, *state); err != nil {
		return nil, fault(l.call.Host.Name, "checkpoint", err)
	}
	l.checkpointed(*state)
	resp := &wire.CheckpointResponse{}
	if l.call.Stop != nil && !req.GetGoOn() {
		resp.Stop = l.call.Stop(ctx)
	}
	return resp, nil
}

// MayStart implements wiregrpc.JobServer.
func (s *services) MayStart(ctx context.Context, req *wire.MayStartRequest) (*wire.MayStartResponse, error) {
	l, ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if l.call.MayStart == nil || l.call.Check {
		return &wire.MayStartResponse{}, nil
	}
	wait := l.call.MayStart(ctx, millis(req.GetNeedMs()))
	if err := l.call.live(); err != nil { // the answer took its time
		return nil, errOver(err)
	}
	return &wire.MayStartResponse{Wait: wait}, nil
}

// Secret implements wiregrpc.JobServer. The value is never logged.
func (s *services) Secret(ctx context.Context, req *wire.SecretRequest) (*wire.SecretResponse, error) {
	l, _, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	value, err := l.secret(req.GetName())
	if err != nil {
		return nil, err
	}
	return &wire.SecretResponse{Value: value}, nil
}

// secret is the value of a secret that the lease names.
func (l *lease) secret(name string) ([]byte, error) {
	if value, ok := l.call.Secrets[name]; ok {
		return value, nil
	}
	return nil, status.Errorf(codes.PermissionDenied, "secret %.128q is not for step %s of job %s: the step's secrets: in the playbook lists what it may have%s",
		name, l.call.Step, l.call.Job, listed(l.call.Secrets))
}

func listed(secrets map[string][]byte) string {
	if len(secrets) == 0 {
		return ", and it lists none"
	}
	return ": " + strings.Join(slices.Sorted(maps.Keys(secrets)), ", ")
}

// maxSecretVariables of one command are more than a step has secrets.
const maxSecretVariables = 256

// environment resolves the variables of a command that are secrets.
func (l *lease) environment(start *wire.ExecStart) (map[string]string, error) {
	switch n := len(start.GetSecrets()); {
	case n == 0:
		return nil, nil
	case n > maxSecretVariables: // each has a copy of its value
		return nil, invalid("%d variables of the command are secrets: expected at most %d", n, maxSecretVariables)
	}
	env := make(map[string]string, len(start.GetSecrets()))
	for variable, name := range start.GetSecrets() {
		value, err := l.secret(name)
		if err != nil {
			return nil, err
		}
		env[variable] = string(value)
	}
	return env, nil
}
