// Package assert owns the job type assert: conditions that must hold before a job continues. It
// imports only the sdk.
package assert

import (
	"context"
	"fmt"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of an assertion.
type Params struct {
	That    []any  `json:"that" turnus:"required,min=1,condition" jsonschema:"conditions: true or false, as expressions give them; or texts, of which an empty one and \"false\" do not hold"`
	Message string `json:"message,omitempty" jsonschema:"text of the failure when one does not hold: what was expected, and what to do"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	for i, condition := range p.That {
		switch condition.(type) {
		case string, bool:
		default:
			bad.Add(fmt.Sprintf("/that/%d", i), "expected true, false or text; found %v: compare it, as in ${{ x > 0 }}", condition)
		}
	}
	return bad.Err()
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("assert", run,
		sdk.Summary("Conditions that must hold before the job continues"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Example("A condition with a message", sdk.With{"that": []any{`${{ host.labels.env == "test" }}`}, "message": "this playbook is for test hosts: run it with --limit test"}),
		sdk.Example("A value that is there", sdk.With{"that": []any{"${{ vars.version }}", `${{ vars.version != "latest" }}`}, "message": "give a version: -e version=1.4"}),
	)
}

const description = `
Fails the step when one of its conditions does not hold, and changes nothing. It asks nothing of the
host: the conditions are expressions over what the playbook knows, such as vars, labels, and outputs
of earlier steps. Check mode does the same.

A condition is true or false. A text holds unless it is empty or ` + "`false`" + `, so that a value that must
be given is also a condition.
`

func run(_ context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	failed := broken(r.Params.That)
	if len(failed) == 0 {
		return nil
	}
	reason := fmt.Sprintf("%d of %d conditions do not hold: that[%s]", len(failed), len(r.Params.That), strings.Join(failed, "], that["))
	if r.Params.Message != "" {
		reason = r.Params.Message + " (" + reason + ")"
	}
	return sdk.Refuse("%s", reason)
}

// broken are the indexes of the conditions that do not hold.
func broken(that []any) []string {
	var failed []string
	for i, condition := range that {
		if text, ok := condition.(string); ok {
			condition = strings.TrimSpace(text) != "" && strings.TrimSpace(text) != "false"
		}
		if condition != true {
			failed = append(failed, fmt.Sprint(i))
		}
	}
	return failed
}
