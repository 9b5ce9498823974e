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
	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/core/rollout"
)

// Bounds of what is read. A file over one of them is refused with its place.
const (
	MaxFileSize   = 1 << 20 // bytes of one file
	MaxFiles      = 10_000  // files of one Load
	MaxDepth      = 64      // nesting of mappings and lists
	MaxValues     = 100_000 // values of one file, each use of an alias counted again
	MaxText       = 4 << 20 // bytes of all scalars, each use of an alias counted again
	MaxProblems   = 50      // reported per file
	MaxExpression = 8 << 10 // bytes of one expression
	MaxSteps      = 1000
)

// Type is what validation needs to know of a job type.
type Type struct {
	Name       string
	Doc        string          // a sentence, shown by editors
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
	// Vars are the values given by -e: they win over vars:, and expressions may
	// use their names though vars: does not declare them.
	Vars map[string]any
}

// Playbook is one valid file. It is not changed after it was loaded, and safe
// for concurrent use.
type Playbook struct {
	Name        string
	Description string
	File        string // as given to Load
	Source      []byte // the bytes read: the snapshot of a run
	Targets     Expr   // over host and vars
	Window      string // "" means not given
	Pool        string
	Tenant      string
	Weight      int // 1 to 1000; 0 means not given
	Priority    int // -10 to 10
	Criticality int // 0 to 1000: the highest come back first after a queue was lost
	Strategy    rollout.Strategy
	Vars        map[string]any // with Options.Vars over them; JSON values only
	Schedule    *Schedule      // nil: launched by hand only
	Notify      []policy.Route // who is told of its runs, besides what the definitions say
	Steps       []Step
}

// Schedule is when a playbook launches by itself.
type Schedule struct {
	Cron        string // 5 fields; day of week 7 is Sunday, as 0
	Timezone    string // IANA name, UTC when none is given
	CatchUp     string // skip, once or all; skip when not given
	Overlap     string // skip, queue or cancel_running; skip when not given
	Jitter      time.Duration
	StartWithin time.Duration // 0: no limit
}

// Step is one call of a job type.
type Step struct {
	Name          string // unique in its playbook
	Uses          string
	With          Params
	When          Expr          // zero: always; with foreach, asked for each item
	Foreach       Expr          // zero: once
	Window        string        // "none" lets it run outside the window
	Needs         time.Duration // time that must fit, rollback included
	Timeout       time.Duration // of one attempt
	Retry         Retry
	After         string // AfterAll or AfterRemaining: no host begins it before every host of the run is there
	Tags          []string
	Secrets       map[string]string // names of secrets that the job type may have, by the names that it knows them by
	IgnoreFailure bool              // continue_on_failure: the next step runs, the job's outcome is not failed
	Line          int               // where the step stands in its file, from 1
}

// What after: of a step says.
const (
	AfterAll       = "all_hosts"       // every host has done the steps before it, and ended in none of them
	AfterRemaining = "remaining_hosts" // those that ended otherwise are left out of it
)

// Retry is a step's retry policy. Attempts is 1 when none is given.
type Retry struct {
	Attempts int
	core.Backoff
}

// Env is what expressions may read. Evaluation never changes it, so one Env may
// be shared by goroutines; values are JSON values.
type Env struct {
	Host  core.Host
	Vars  map[string]any            // playbook vars; a host's own vars are host.vars
	Steps map[string]map[string]any // NAME -> {outcome, changed, outputs, stdout, exit_code}
	Item  any                       // of foreach
	// Secrets are the values of the step's secrets, by the names of Step.Secrets. Only Params.JSON reads them.
	Secrets map[string]string
	Run     map[string]any // id, playbook, check, attempt
}
