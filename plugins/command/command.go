// Package command owns the job type command: one command line on a host. It
// imports only the sdk.
package command

import (
	"context"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a command.
type Params struct {
	Run string `json:"run" turnus:"required,min=1" jsonschema:"command line, given to /bin/sh"`
	sdk.Guard
	Chdir   string            `json:"chdir,omitempty" turnus:"pattern=^/" jsonschema:"folder to run in"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"environment variables, added to those of the host"`
	Stdin   string            `json:"stdin,omitempty" turnus:"secret" jsonschema:"standard input; empty by default"`
	Changed bool              `json:"changed,omitempty" turnus:"default=true" jsonschema:"whether a run counts as a change; false for a command that only looks"`
	OKCodes []int             `json:"ok_codes,omitempty" turnus:"default=[0],min=1" jsonschema:"exit codes that are no failure"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	return sdk.CheckEnvironment("/env", p.Env)
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("command", run,
		sdk.Summary("Run a command line on the host"),
		sdk.Description(description),
		sdk.Idempotent(false),
		sdk.Check(),
		sdk.Outputs[sdk.CommandOutputs](),
		sdk.Example("Read something", sdk.With{"run": "uptime", "changed": false}),
		sdk.Example("Once per host", sdk.With{"run": "/opt/app/setup --yes", "creates": "/opt/app/.done"}),
		sdk.Example("In a folder, with environment and input", sdk.With{
			"run": "./import", "chdir": "/srv/app", "env": sdk.With{"LEVEL": "2"}, "stdin": "a\nb\n",
		}),
		sdk.SecretExample("With a secret of the step, as an environment variable", sdk.With{"run": `printf '%s' "$API_TOKEN" | app login --stdin`}, "API_TOKEN"),
	)
}

const description = `
Runs ` + "`run`" + ` with ` + "`/bin/sh`" + ` on the host. The output streams to the operator. The first 15 KiB of each
stream are the outputs ` + "`stdout`" + ` and ` + "`stderr`" + `, beside ` + "`exit_code`" + `.

A command is not repeated after its worker died, because its progress is unknown. It does run again
if the queue lost its end: after Redis lost data, or after ` + "`turnus runs resume`" + ` of a run that was
in progress when ` + "`turnus up`" + ` was killed. A command that must not happen twice can detect a
repetition: ` + "`TURNUS_IDEMPOTENCY_KEY`" + ` in its environment is the same for all attempts of the step on
this host. ` + "`TURNUS_FENCE`" + ` grows with each lease of the queue, also after Redis lost data or
` + "`turnus up`" + ` was started again. It falls only if the clock was set back.

Each secret that the step lists is an environment variable of the command. It reaches the host
through the command's standard input, so no list of processes shows it. Do not put it into
arguments of other programs yourself.

` + "`creates`" + ` and ` + "`removes`" + ` skip the command when its work is already done. Check mode reads them and
does not run the command.
`

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	reason, err := p.Satisfied(ctx, r.Host())
	if err != nil {
		return err
	}
	if reason != "" {
		return r.Skip(reason)
	}
	if p.Changed {
		defer r.Changed()
	}
	if r.Check {
		r.Explain("would run: " + p.Run)
		return nil
	}
	c := sdk.Command{Run: line(p), Env: p.Env}
	if p.Stdin != "" {
		c.Stdin = strings.NewReader(p.Stdin)
	}
	return r.Stream(ctx, c, p.OKCodes)
}

func line(p Params) string {
	if p.Chdir == "" {
		return p.Run
	}
	return "cd " + sdk.Quote(p.Chdir) + " || exit 1\n" + p.Run
}
