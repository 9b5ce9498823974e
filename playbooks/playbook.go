// Package playbooks owns the playbook file: reading, positions, validation,
// expressions, and the JSON Schema for editors. Everything it returns is compiled
// and type-checked; a playbook that loads can be run.
//
// It must not know inventories, queues, plugins or hosts' connections: job
// types reach it as a function from name to schema.
package playbooks

import (
	"encoding/json"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

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
	MaxHandlers   = 100
)

// Type is the description of a job type for validation.
type Type struct {
	Name       string
	Doc        string          // a sentence, shown by editors
	Params     json.RawMessage // JSON Schema of with:
	Outputs    json.RawMessage // JSON Schema of outputs; nil: unknown
	Check      bool
	Idempotent bool
	Disruptive bool
	OnLost     string
	Plugin     string // name and version of the plugin that declares it; "" is not known

	Reverts       bool     // undoes its own failure
	RevertsUnless []string // names of params; with a true one it does not
}

// Options guide Load and Parse.
type Options struct {
	// Types finds a job type; nil means that uses: and with: are not checked.
	Types func(name string) (Type, bool)
	// TypeNames lists all, for suggestions.
	TypeNames []string
	// Ask asks a job type about params, as a JSON object. Its error is a problem of the step, and its
	// warnings are in Playbook.Warnings. Nil asks nothing.
	Ask func(uses string, params []byte) ([]ParamProblem, error)
	// Vars are the values given by -e: they win over vars:, and expressions may
	// use their names though vars: does not declare them.
	Vars map[string]any
	// Steps reads a file that a playbook includes, by its path below the playbook's folder: of the
	// same revision, and nothing outside of that folder. Load reads the disk. Nil refuses includes.
	Steps func(path string) ([]byte, error)

	onDisk bool // the files that steps send are in the playbook's folder
}

// Playbook is one valid file. It is not changed after it was loaded, and safe
// for concurrent use.
type Playbook struct {
	Name        string
	Description string
	File        string        // as given to Load
	Source      []byte        // the bytes read: the snapshot of a run
	Warnings    Diagnostics   // of job types about params
	Targets     Expr          // over host and vars
	FactsAge    time.Duration // how old facts on record may be; 0: targets and hosts() read none
	FactsLimit  time.Duration // how old facts may be that a step reads: max_age as written; 0: any
	Window      string        // "" means not given
	Pool        string
	Tenant      string
	Weight      int  // 1 to 1000; 0 means not given
	Priority    int  // -10 to 10
	Criticality int  // 0 to 1000: the highest come back first after a queue was lost
	FourEyes    bool // a run starts when another person has approved it
	Strategy    rollout.Strategy
	Become      *core.BecomeRule  // nil: that of the command line or the inventory
	Params      []Param           // in the order of the file, with Options.Vars as their values
	Vars        map[string]any    // with Options.Vars over them; JSON values only
	Schedule    *Schedule         // nil: launched by hand only
	Notify      []policy.Route    // who is notified of its runs, in addition to the routes of the definitions
	Steps       []Step            // those of included files stand where the include does
	Blocks      []Block           // includes and groups, the outer before the inner
	Included    map[string]string // texts of the files that it includes, by their paths below its folder
	Handlers    []Step            // that steps notify, in the order in which they run

	known map[string]bool      // vars that it declares or reads
	lists map[string]*HostList // that expressions read with hosts('…'), by its argument
}

// Calls returns the steps and after them the handlers. Where calls have an index, it is the one in
// this list.
func (p *Playbook) Calls() []Step {
	return slices.Concat(p.Steps, p.Handlers)
}

// Handler returns the index of the handler with a name; -1 if the playbook has none.
func (p *Playbook) Handler(name string) int {
	return slices.IndexFunc(p.Handlers, func(h Step) bool { return h.Name == name })
}

// Notifiable returns the names of the handlers that a step notifies, in their order.
func (p *Playbook) Notifiable() []string {
	var names []string
	for _, h := range p.Handlers {
		if slices.ContainsFunc(p.Calls(), func(s Step) bool { return slices.Contains(s.Notify, h.Name) }) {
			names = append(names, h.Name)
		}
	}
	return names
}

// Schedule is when a playbook is launched automatically.
type Schedule struct {
	Cron        string // 5 fields; day of week 7 is Sunday, as 0
	Timezone    string // IANA name, UTC when none is given
	CatchUp     string // skip, once or all; skip when not given
	Overlap     string // skip, queue or cancel_running; skip when not given
	Jitter      time.Duration
	StartWithin time.Duration // 0: no limit

	// How it is launched then, as with turnus submit.
	Limit          []string
	Vars           map[string]any
	Tags, SkipTags []string
}

// Step is one call of a job type.
type Step struct {
	Name          string // unique in its playbook: that of a step in an included file is INCLUDE/NAME
	Uses          string
	With          Params
	When          Expr             // zero: always; with foreach, asked for each item
	Foreach       Expr             // zero: once
	Window        string           // "none" lets it run outside the window
	Needs         time.Duration    // time that must fit, rollback included
	Disruptive    *bool            // whether the host may be out of service meanwhile; nil: not given, see Disrupts
	Timeout       time.Duration    // of one attempt
	Become        *core.BecomeRule // nil: that of the playbook
	Retry         Retry
	After         string // AfterAll or AfterRemaining: no host begins it before every host of the run is there
	Tags          []string
	Secrets       map[string]string // names of secrets that the job type may have, by the names that it knows them by
	On            Expr              // zero: on the run's host, see Delegate
	Redo          bool              // a run that continues at a later step calls it again
	Once          bool              // one host of the run calls it, and all have its result
	IgnoreFailure bool              // continue_on_failure: the next step runs, the job's outcome is not failed
	Notify        []string          // names of handlers that must run after the step has changed its host
	Flush         bool              // pending handlers run before the step
	OnFailure     bool              // of a handler: it runs although a step failed
	Facts         bool              // an expression of it reads host.facts
	Line          int               // the line of the step in its file, from 1
	Within        []int             // indexes of the Blocks around it, the outermost first

	src  *source
	node *yaml.Node
}

// Disruptive returns which job types are disruptive. One that types does not know is, and with nil
// types all are.
func Disruptive(types func(name string) (Type, bool)) func(uses string) bool {
	return func(uses string) bool {
		if types == nil {
			return true
		}
		t, known := types(uses)
		return !known || t.Disruptive
	}
}

// Disrupts reports whether the step may take its host out of service. The step's own setting
// counts, else a step with a window of its own does, else its job type decides.
func (s Step) Disrupts(jobType func(uses string) bool) bool {
	switch {
	case s.Disruptive != nil:
		return *s.Disruptive
	case s.Window != "" && s.Window != NoWindow:
		return true
	}
	return jobType(s.Uses)
}

// Reverts reports whether the job type undoes a failure of the step, as far as the playbook shows.
// Of a step with foreach, the items before the failed one stay as they are.
func (s Step) Reverts(types func(name string) (Type, bool)) bool {
	t, known := types(s.Uses)
	return known && t.Reverts && s.Foreach.Absent() && !slices.ContainsFunc(t.RevertsUnless, s.With.mayBeTrue)
}

// NoWindow is the window of a step that may run at any time.
const NoWindow = "none"

// The values of a step's after:.
const (
	AfterAll       = "all_hosts"       // every host has done the steps before it, and ended in none of them
	AfterRemaining = "remaining_hosts" // those that ended otherwise are left out of it
)

// Retry is a step's retry policy. Attempts is 1 when none is given.
type Retry struct {
	Attempts int
	core.Backoff
}

// Env is the names and values that expressions may read. Evaluation never changes it, so one Env
// may be shared by goroutines; values are JSON values.
type Env struct {
	Host   core.Host
	Vars   map[string]any            // playbook vars; a host's own vars are host.vars
	Params map[string]any            // values of the playbook's params, see Playbook.Values
	Steps  map[string]map[string]any // NAME -> {outcome, changed, outputs, stdout, exit_code}
	Item   any                       // of foreach
	Hosts  map[string][]any          // what hosts('…') gives, by its argument
	// Secrets are the values of the step's secrets, by the names of Step.Secrets. Only Params.JSON
	// reads them.
	Secrets map[string]string
	Run     map[string]any // id, playbook, check, attempt
	Error   map[string]any // in rescue of a group: step, reason
	// Included are the params of the includes, by Block.Name: see Block.Given.
	Included map[string]map[string]any
}
