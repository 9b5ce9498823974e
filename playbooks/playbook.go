// Package playbooks owns the playbook file: reading, positions, validation,
// expressions, and the JSON Schema for editors. Everything it returns is compiled
// and type-checked; a playbook that loads can be run.
//
// It must not know inventories, queues, plugins or hosts' connections: job
// types reach it as a function from name to schema.
package playbooks

import (
	"encoding/json"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/rollout"
)

// Type is what validation needs to know of a job type.
type Type struct {
	Name       string
	Params     json.RawMessage // JSON Schema of with:
	Outputs    json.RawMessage // JSON Schema of outputs; nil: unknown
	Check      bool
	Idempotent bool
	Disruptive bool
	OnLost     string
}

// Options guide Load and Parse.
type Options struct {
	// Types finds a job type; nil means that uses: and with: are not checked.
	Types func(name string) (Type, bool)
	// TypeNames lists all, for suggestions.
	TypeNames []string
	// Vars are the names given by -e, which expressions may use beside vars:.
	Vars map[string]any
}

// Playbook is one valid file.
type Playbook struct {
	Name        string
	Description string
	File        string // as given to Load
	Source      []byte // the bytes read: the snapshot of a run
	Targets     Expr
	Window      string // "" means not given
	Pool        string
	Tenant      string
	Weight      int
	Priority    int
	Strategy    rollout.Strategy
	Vars        map[string]any // with Options.Vars over them
	Schedule    *Schedule
	Steps       []Step
}

// Schedule is when a playbook launches by itself.
type Schedule struct {
	Cron        string
	Timezone    string
	CatchUp     string
	Overlap     string
	Jitter      time.Duration
	StartWithin time.Duration
}

// Step is one call of a job type.
type Step struct {
	Name          string
	Uses          string
	With          Params
	When          Expr          // zero: always
	Foreach       Expr          // zero: once
	Window        string        // "none" lets it run outside the window
	Needs         time.Duration // time that must fit, rollback included
	Timeout       time.Duration // of one attempt
	Retry         Retry
	Tags          []string
	Register      bool
	IgnoreFailure bool // continue_on_failure: the next step runs, the job's outcome is not failed
}

// Retry is a step's retry policy. Attempts is 1 when none is given.
type Retry struct {
	Attempts int
	core.Backoff
}

// Expr is a compiled expression with its place in the file. The zero Expr is absent.
type Expr struct{ Text string }

// Params is a compiled with: block: YAML whose strings may hold ${{ }}.
type Params struct{}

// Env is what expressions may read.
type Env struct {
	Host  core.Host
	Vars  map[string]any            // playbook vars; a host's own vars are host.vars
	Steps map[string]map[string]any // NAME -> {outcome, changed, outputs, stdout, exit_code}
	Item  any                       // of foreach
	Run   map[string]any            // id, playbook, check, attempt
}

// Absent tells whether the playbook gave no such expression.
func (e Expr) Absent() bool { return e.Text == "" }

// Bool evaluates a condition. Errors carry file:line:col.
func (e Expr) Bool(env Env) (bool, error) { return true, nil }

// List evaluates a foreach.
func (e Expr) List(env Env) ([]any, error) { return nil, nil }

// JSON evaluates every ${{ }} and returns the params as JSON. A string that is one
// ${{ }} as a whole keeps the type of its value.
func (p Params) JSON(env Env) (json.RawMessage, error) { return nil, nil }

// Load reads files and folders (their *.yaml and *.yml, recursively), all of
// them, and returns every playbook, or a Diagnostics error with everything found.
func Load(paths []string, o Options) ([]*Playbook, error) { return nil, nil }

// Parse reads one file's bytes.
func Parse(file string, src []byte, o Options) (*Playbook, error) { return nil, nil }

// CompileSelector compiles an expression over host, as targets: and --select have it.
func CompileSelector(text string) (Expr, error) { return Expr{}, nil }

// Schema is the JSON Schema of a playbook file, with the params of all types given.
func Schema(types []Type) ([]byte, error) { return nil, nil }

// Diagnostics is everything that is wrong in all files, sorted by place. Its Error is one
// paragraph per problem: file:line:col, message, snippet with a caret, expected, hint.
type Diagnostics []Diagnostic

// Diagnostic is one problem.
type Diagnostic struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Col      int    `json:"col"`
	Message  string `json:"message"`
	Snippet  string `json:"snippet,omitempty"`
	Expected string `json:"expected,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

func (d Diagnostics) Error() string { return "" }
