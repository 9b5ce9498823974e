// The plugin chaos has job types that only have their host note that they ran.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params are the arguments of the oracle on the host.
type Params struct {
	Run     string  `json:"run" turnus:"required" jsonschema:"id of the run"`
	As      string  `json:"as" turnus:"required" jsonschema:"name of the step"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"how long the work takes"`
	Code    int     `json:"code,omitempty" jsonschema:"how it ends"`
	Park    int     `json:"park,omitempty" jsonschema:"seconds to be suspended before"`
}

// State is kept while the job is suspended.
type State struct{ Until time.Time }

func work(ctx context.Context, r *sdk.Run[Params, State]) error {
	p := r.Params
	if p.Park > 0 && r.State.Until.IsZero() {
		after := time.Duration(p.Park) * time.Second
		return sdk.Suspend(State{Until: time.Now().Add(after)}, after)
	}
	r.Changed()
	exit, err := r.Host().Exec(ctx, sdk.Command{
		Run: fmt.Sprintf("/mnt/oracle %s %s %.2f %d", p.Run, p.As, p.Seconds, p.Code), Env: r.Environment(nil), Stdout: r.Stdout(), Stderr: r.Stderr(),
	})
	if err != nil {
		return err
	}
	if exit.Code != 0 || exit.Signal != "" {
		return &sdk.ExitError{Exit: exit}
	}
	return nil
}

func main() {
	sdk.Serve(sdk.Plugin("chaos", "1.0.0"),
		sdk.Job("chaos.work", work, sdk.Idempotent(true), sdk.OnLost("retry"), sdk.Concurrency(64)),
		sdk.Job("chaos.flash", work, sdk.Idempotent(true), sdk.OnLost("retry"), sdk.Concurrency(64), sdk.Disruptive()),
	)
}
