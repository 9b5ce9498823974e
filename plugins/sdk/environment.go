package sdk

import (
	"context"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// Environment is own and what lets a command of the host recognise its own
// repetition: TURNUS_IDEMPOTENCY_KEY and TURNUS_FENCE (see [Run].Key and Fence).
func (r *Run[P, S]) Environment(own map[string]string) map[string]string {
	env := make(map[string]string, len(own)+2)
	maps.Copy(env, own)
	env["TURNUS_IDEMPOTENCY_KEY"] = r.Key
	env["TURNUS_FENCE"] = strconv.FormatUint(r.Fence, 10)
	return env
}

// SecretEnvironment makes an environment variable of each of the step's secrets, for
// [Command].Secrets. One that is in own too is an error.
func (r *Run[P, S]) SecretEnvironment(own map[string]string) (map[string]string, error) {
	if len(r.Secrets) == 0 {
		return nil, nil
	}
	env := make(map[string]string, len(r.Secrets))
	for _, name := range r.Secrets {
		if _, twice := own[name]; twice {
			return nil, Refuse("%s is in env and among the step's secrets: take it out of one", name)
		}
		env[name] = name
	}
	return env, nil
}

// CommandOutputs are the outputs that [Run.Stream] sets.
type CommandOutputs struct {
	Stdout   string `json:"stdout" jsonschema:"the first 15 KiB, cut at white space, without newlines at the end"`
	Stderr   string `json:"stderr" jsonschema:"the first 15 KiB, cut at white space, without newlines at the end"`
	ExitCode int    `json:"exit_code" jsonschema:"of the command"`
}

// maxStream is of each stream, so that both fit the outputs of a step.
const maxStream = 15 << 10

// Stream runs a command of the operator on the host: its output streams to the operator and becomes
// the [CommandOutputs] of the step. The environment is the command's own, [Run.Environment] and
// [Run.SecretEnvironment]. An exit code that is not among ok is an [ExitError].
func (r *Run[P, S]) Stream(ctx context.Context, c Command, ok []int) error {
	var err error
	if c.Secrets, err = r.SecretEnvironment(c.Env); err != nil {
		return err
	}
	stdout, stderr := Head{Limit: maxStream}, Head{Limit: maxStream}
	c.Env, c.Stdout, c.Stderr = r.Environment(c.Env), io.MultiWriter(&stdout, r.Stdout()), io.MultiWriter(&stderr, r.Stderr())
	exit, err := r.Host().Exec(ctx, c)
	r.Output("stdout", OutputText(stdout.Text(), maxStream))
	r.Output("stderr", OutputText(stderr.Text(), maxStream))
	if err != nil {
		return err
	}
	r.Output("exit_code", exit.Code)
	if exit.Signal == "" && slices.Contains(ok, exit.Code) {
		return nil
	}
	return &ExitError{Exit: exit}
}

var variableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// CheckEnvironment refuses names that a shell cannot export; at is the JSON pointer of env.
func CheckEnvironment(at string, env map[string]string) error {
	var bad Problems
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !variableName().MatchString(name) {
			bad.Add(at+"/"+escapePointer(name), "%q is no name of an environment variable: expected letters, digits and _", name)
		}
	}
	return bad.Err()
}
