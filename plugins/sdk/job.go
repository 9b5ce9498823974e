package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"sync"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Def is one definition given to [Serve]: a job type, or the plugin's identity.
type Def struct {
	job     *jobType
	plugin  *identity
	network bool
}

type identity struct{ name, version string }

// Plugin names the plugin. Without it the name is the noun of the first job type
// and the version that of the main module.
func Plugin(name, version string) Def {
	if !typeName().MatchString(name) || version == "" {
		panic(fmt.Sprintf("sdk.Plugin(%q, %q): expected a name of a-z, 0-9, _ and a version", name, version))
	}
	return Def{plugin: &identity{name: name, version: version}}
}

// Network declares that the plugin's own process opens connections, instead of a host's. Workers
// confine plugins: one that asks for the network is loaded where the operator allows it, and
// refused elsewhere.
func Network() Def { return Def{network: true} }

// NoState is the state of a job type that keeps none.
type NoState struct{}

// jobType is a Def without its type parameters.
type jobType struct {
	Type
	concurrency int
	run         func(ctx context.Context, s *session) error
	validate    func(params []byte) []*wire.Diagnostic
	migrate     Migrate
}

// Migrate turns the JSON of a state of an older version into that of the present one.
type Migrate func(from int, state json.RawMessage) (json.RawMessage, error)

var typeName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?$`) })

// defaultConcurrency suits a type that mostly waits for its host.
const defaultConcurrency = 256

// Job declares a job type. P is a struct whose fields are the step's with: (for their tags see the
// package's doc); S is what [Run.Checkpoint] and [Suspend] save. The function may be called many
// times at the same time and must return soon after ctx ends. Job panics when the declaration
// itself is wrong, as regexp.MustCompile does.
func Job[P, S any](name string, fn func(context.Context, *Run[P, S]) error, opts ...Option) Def {
	if !typeName().MatchString(name) {
		panic(fmt.Sprintf("sdk.Job(%q): expected noun.verb or one word, of a-z, 0-9 and _", name))
	}
	params := mustParams[P](name)
	t := &jobType{concurrency: defaultConcurrency}
	t.Name, t.Params, t.OnLost = name, params.schema.encoded, ""
	for _, o := range opts {
		o(t)
	}
	if t.OnLost == "" {
		t.OnLost = "hold"
		if t.Idempotent {
			t.OnLost = "retry"
		}
	}
	if t.StateVersion == 0 && reflect.TypeFor[S]() != reflect.TypeFor[NoState]() {
		t.StateVersion = 1
	}
	for _, e := range t.Examples {
		if _, diags := params.decode(e.Params); len(diags) > 0 {
			panic(fmt.Sprintf("sdk.Job(%q): example %q: %s", name, e.Title, diagnosticsText(diags)))
		}
	}
	t.validate = func(raw []byte) []*wire.Diagnostic {
		_, diags := params.decode(raw)
		return diags
	}
	t.run = func(ctx context.Context, s *session) error {
		r, err := newRun[P, S](s, t, params)
		if err != nil {
			return err
		}
		return fn(ctx, r)
	}
	return Def{job: t}
}

// Option declares something about a job type.
type Option func(*jobType)

// Idempotent reports whether running the type twice does the same as once. Unless [OnLost] declares
// otherwise, a job of an idempotent type is retried after a crash and another waits for a person.
func Idempotent(yes bool) Option { return func(t *jobType) { t.Idempotent = yes } }

// Check declares that the type supports check mode: with [Run].Check set it changes
// nothing, and reports what it would change. Host calls that are not marked
// read-only are then refused.
func Check() Option { return func(t *jobType) { t.Check = true } }

// Disruptive declares that a host may be out of service while the type runs: windows and HA
// groups limit when it may run.
func Disruptive() Option { return func(t *jobType) { t.Disruptive = true } }

// Reverts declares that the type undoes its own failure: unless its change is proven good, it
// leaves the host as it was, or ends the step as lost. It needs no rescue for that, and the time is
// within the step's needs. With a param of unless that is true, the type does not.
func Reverts(unless ...string) Option {
	return func(t *jobType) { t.Reverts, t.RevertsUnless = true, unless }
}

// OnLost declares what happens to a job whose worker died within this type: "retry" or "hold".
func OnLost(what string) Option {
	if what != "retry" && what != "hold" {
		panic(fmt.Sprintf("sdk.OnLost(%q): expected retry or hold", what))
	}
	return func(t *jobType) { t.OnLost = what }
}

// Summary is one line on what the type does.
func Summary(line string) Option { return func(t *jobType) { t.Summary = line } }

// Description is the type's manual, in markdown.
func Description(markdown string) Option { return func(t *jobType) { t.Description = markdown } }

// With is the with: of an example.
type With map[string]any

// Example adds a valid with:, checked when the type is declared.
func Example(title string, with With) Option {
	raw, err := json.Marshal(with)
	if err != nil {
		panic(fmt.Sprintf("sdk.Example(%q): %v", title, err))
	}
	return func(t *jobType) {
		t.Examples = append(t.Examples, DescribedExample{Title: title, Params: raw})
	}
}

// SecretExample is [Example] of a step that lists secrets under these names.
func SecretExample(title string, with With, secrets ...string) Option {
	example := Example(title, with)
	return func(t *jobType) {
		example(t)
		t.Examples[len(t.Examples)-1].Secrets = secrets
	}
}

// Concurrency bounds how many jobs share one process; 256 by default.
func Concurrency(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("sdk.Concurrency(%d): expected at least 1", n))
	}
	return func(t *jobType) { t.concurrency = n }
}

// StateVersion declares the version of S and how older ones become it. Version 1
// needs no migrate.
func StateVersion(n int, migrate Migrate) Option {
	if n < 1 || (n > 1 && migrate == nil) {
		panic(fmt.Sprintf("sdk.StateVersion(%d): expected a version from 1, with a migrate function above 1", n))
	}
	return func(t *jobType) { t.StateVersion, t.migrate = n, migrate }
}

// Outputs declares the outputs by a struct, for documentation and for the check of
// expressions that read them.
func Outputs[T any]() Option {
	s := mustSchema[T]("Outputs")
	return func(t *jobType) { t.Outputs = s.encoded }
}
