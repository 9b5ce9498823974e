// Package script owns the job type script: a file of the operator, run on a
// host. It imports only the sdk.
package script

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a script.
type Params struct {
	Source  string `json:"source,omitempty" turnus:"min=1,file" jsonschema:"script file, relative to the playbook"`
	Content string `json:"content,omitempty" turnus:"min=1" jsonschema:"the script itself, instead of source"`
	sdk.Guard
	Interpreter string            `json:"interpreter,omitempty" jsonschema:"program that runs the script, with its options; by default its #! line, or /bin/sh"`
	Args        []string          `json:"args,omitempty" jsonschema:"arguments, passed as they are"`
	Chdir       string            `json:"chdir,omitempty" turnus:"pattern=^/" jsonschema:"folder to run in"`
	Env         map[string]string `json:"env,omitempty" jsonschema:"environment variables, added to those of the host"`
	Tmp         string            `json:"tmp,omitempty" turnus:"default=/tmp,pattern=^/" jsonschema:"folder of the host for the script; one that allows execution"`
	Changed     bool              `json:"changed,omitempty" turnus:"default=true" jsonschema:"whether a run counts as a change"`
	OKCodes     []int             `json:"ok_codes,omitempty" turnus:"default=[0],min=1" jsonschema:"exit codes that are no failure"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	if (p.Source == "") == (p.Content == "") {
		return errors.New("expected one of source and content")
	}
	if strings.ContainsFunc(p.Interpreter, unicode.IsControl) {
		return &sdk.ParamError{Pointer: "/interpreter", Err: errors.New("expected one line without control characters")}
	}
	return sdk.CheckEnvironment("/env", p.Env)
}

const cleanupTime = 3 * time.Second // within the grace of 5 s that a cancelled call has

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("script", run,
		sdk.Summary("Run a script file of the operator on the host"),
		sdk.Description(description),
		sdk.Idempotent(false),
		sdk.Check(),
		sdk.Outputs[sdk.CommandOutputs](),
		sdk.Example("A file beside the playbook", sdk.With{"source": "scripts/setup.sh", "args": []string{"--site", "north"}}),
		sdk.Example("Inline, by another interpreter", sdk.With{"content": "print(1 + 1)\n", "interpreter": "python3 -I"}),
	)
}

const description = `
Uploads the script to a file that only the connecting user can read (mode 0700), runs it, and
removes it after any end. The file has a random name.

Guards, environment, secrets, outputs and repetition are those of ` + "`command`" + `.
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
		r.Explain("would run the script")
		return nil
	}
	// 128 random bits: nobody can prepare a link of that name in a shared folder
	path := strings.TrimRight(p.Tmp, "/") + "/turnus-" + rand.Text()
	if err := upload(ctx, r, path); err != nil {
		return err
	}
	return execute(ctx, r, path)
}

func upload(ctx context.Context, r *sdk.Run[Params, sdk.NoState], path string) error {
	file := sdk.PutFile{Path: path, Mode: 0o700}
	var err error
	if r.Params.Source != "" {
		_, err = r.Host().PutArtifact(ctx, file, r.Params.Source)
	} else {
		_, err = r.Host().Put(ctx, file, strings.NewReader(r.Params.Content))
	}
	if err != nil {
		remove(ctx, r, path)
	}
	return err
}

func execute(ctx context.Context, r *sdk.Run[Params, sdk.NoState], path string) error {
	p := r.Params
	err := r.Stream(ctx, sdk.Command{Run: line(p, path), Env: p.Env}, p.OKCodes)
	if end, ended := errors.AsType[*sdk.ExitError](err); err != nil && (!ended || end.Signal != "") {
		remove(ctx, r, path) // the line's own rm may not have been reached
	}
	return err
}

// line runs the script and removes it in the same round trip.
func line(p Params, path string) string {
	words := strings.TrimSpace(p.Interpreter + " " + sdk.QuoteAll(slices.Concat([]string{path}, p.Args)...))
	if p.Chdir != "" {
		words = "cd " + sdk.Quote(p.Chdir) + " && " + words
	}
	return "(" + words + ")\ncode=$?\nrm -f " + sdk.Quote(path) + "\nexit $code"
}

// remove is the last resort: also when ctx has ended, while the job still has its lease.
func remove(ctx context.Context, r *sdk.Run[Params, sdk.NoState], path string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if err := r.Host().Short(ctx, sdk.Command{Run: "rm -f " + sdk.Quote(path)}).Err(); err != nil {
		r.Log().Warn("the uploaded script was not removed", "path", path, "error", err)
	}
}
