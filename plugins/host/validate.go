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

// Validator asks job types about params before a run. It starts one process of each plugin at the
// first question to it. After a plugin has failed once it asks that plugin nothing more. Not for
// concurrent use.
type Validator struct {
	s      *Supervisor
	root   *folder
	within time.Duration // for one answer
	asked  map[string]*process
	used   []*pool // whose files must stay
}

// Validator returns one that the caller must close.
func (s *Supervisor) Validator() *Validator {
	return &Validator{s: s, root: &folder{parent: s.root.parent}, within: startTimeout, asked: map[string]*process{}}
}

// Validate returns the problems of params. The error names the plugin that gave no answer; it comes
// once per plugin.
func (v *Validator) Validate(ctx context.Context, jobType string, params json.RawMessage) ([]ParamProblem, error) {
	t, err := v.s.use(ctx, jobType)
	if err != nil {
		return nil, err
	}
	v.used = append(v.used, t.pool)
	owner := t.pool
	p, started := v.asked[owner.plugin.Name]
	if !started {
		var err error
		if p, err = v.start(ctx, owner); err != nil {
			v.asked[owner.plugin.Name] = nil
			return nil, err
		}
		v.asked[owner.plugin.Name] = p
	}
	if p == nil {
		return nil, nil
	}
	call, cancel := context.WithTimeout(ctx, v.within)
	defer cancel()
	resp, err := p.rpc.Validate(call, &wire.ValidateRequest{Type: jobType, Params: params})
	if err == nil {
		return paramProblems(resp.GetDiagnostics()), nil
	}
	if status.Code(err) == codes.Unimplemented { // the schema is all that it has
		return nil, nil
	}
	v.asked[owner.plugin.Name] = nil
	defer p.close()
	defer p.child.terminate(describeGrace)
	return nil, fmt.Errorf("plugin %s %s, job type %s: Validate %w", p.plugin.Name, p.plugin.Version, jobType, v.why(call, p, err))
}

func (v *Validator) start(ctx context.Context, owner *pool) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	l := owner.launch
	l.root = v.root
	return l.start(ctx, owner.plugin)
}

// why returns how a question ended that has no answer.
func (v *Validator) why(ctx context.Context, p *process, err error) error {
	code := status.Code(err)
	ended := code == codes.Canceled || code == codes.DeadlineExceeded // the plugin may see the deadline first
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || ended && ctx.Err() == nil {
		return fmt.Errorf("did not answer within %v", v.within)
	}
	if code != codes.Unavailable {
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

// Close ends the processes.
func (v *Validator) Close() error {
	for _, p := range v.asked {
		if p != nil {
			p.child.terminate(describeGrace)
			p.close()
		}
	}
	clear(v.asked)
	for _, p := range v.used {
		v.s.leave(p)
	}
	v.used = nil
	return v.root.remove()
}
