package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// ParamProblem is a problem that a job type finds in params.
type ParamProblem struct {
	Pointer string // JSON pointer; "" is the params as a whole
	Message string
	Hint    string
	Warning bool
}

// Validate asks a job type about params before a run, in a process that its calls then use. An
// error names the plugin that gave no answer. Safe for concurrent use.
func (s *Supervisor) Validate(ctx context.Context, jobType string, params json.RawMessage) ([]ParamProblem, error) {
	t, err := s.use(ctx, jobType)
	if err != nil {
		return nil, err
	}
	defer s.leave(t.pool)
	p, err := t.pool.acquire(ctx, &Call{Type: jobType})
	if err != nil {
		return nil, err
	}
	defer t.pool.release(p)
	call, cancel := context.WithTimeout(ctx, t.pool.timing.start)
	defer cancel()
	resp, err := p.rpc.Validate(call, &wire.ValidateRequest{Type: jobType, Params: params})
	if err == nil {
		return paramProblems(resp.GetDiagnostics()), nil
	}
	if status.Code(err) == codes.Unimplemented { // the schema is all that it has
		return nil, nil
	}
	why := unanswered(call, p, t.pool.timing.start, err)
	if call.Err() != nil && ctx.Err() == nil {
		t.pool.condemn(p, "Validate "+why.Error())
	}
	return nil, fmt.Errorf("plugin %s %s, job type %s: Validate %w", t.plugin.Name, t.plugin.Version, jobType, why)
}

// unanswered returns how a question ended that has no answer.
func unanswered(ctx context.Context, p *process, within time.Duration, err error) error {
	code := status.Code(err)
	late := code == codes.DeadlineExceeded && ctx.Err() == nil // the plugin may see the deadline first
	if late || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("did not answer within %v", within)
	}
	if code != codes.Unavailable && code != codes.Canceled { // those of a connection that is lost, and of one that we closed then
		return fmt.Errorf("failed: %s", status.Convert(err).Message())
	}
	t := time.NewTimer(describeGrace)
	defer t.Stop()
	select {
	case <-p.child.exited:
		return fmt.Errorf("ended its process: %s", p.child.how)
	case <-t.C:
		return fmt.Errorf("failed: %w", err)
	}
}

func paramProblems(diags []*wire.Diagnostic) []ParamProblem {
	var out []ParamProblem
	for _, d := range diags {
		out = append(out, ParamProblem{
			Pointer: d.GetPointer(), Message: d.GetSummary(), Hint: d.GetDetail(), Warning: d.GetSeverity() == wire.Diagnostic_WARNING,
		})
	}
	return out
}
