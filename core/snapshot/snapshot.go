// Package snapshot owns what a worker needs of a launch, as bytes that workers of other versions
// read: the snapshot of a run, its windows and barriers, the data of each job, and documents about
// steps with once.
//
// It must not know how hosts are selected, how plugins run, or what becomes of a run.
package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/secrets"
)

// Version is the newest version that Encode writes; it writes the oldest that can hold the
// content. Decode reads all up to it. A worker that knows no windows refuses a run of version 2,
// instead of running it outside of them, one that knows no turns a run of version 3, and one
// that knows no secrets a run of version 4.
// Version 6 has included files, version 7 jobs that continue at a later step, version 8 steps with
// once, version 9 lists of hosts, version 10 steps that are called on other hosts.
const Version = 10

// Snapshot is everything of a run but its hosts: what a worker reads before the
// run's first job. It is fixed at launch; later edits of the playbook do not reach it.
type Snapshot struct {
	Version  int    `json:"version"`
	Run      string `json:"run"`
	Playbook string `json:"playbook"`
	File     string `json:"file"`
	Source   string `json:"source"`
	// Included are the files that the playbook includes, by their paths below its folder.
	Included   map[string]string `json:"included,omitempty"`
	Vars       map[string]any    `json:"vars,omitempty"` // of -e: they go over the playbook's
	Tags       []string          `json:"tags,omitempty"`
	SkipTags   []string          `json:"skip_tags,omitempty"`
	Check      bool              `json:"check,omitempty"`
	Diff       bool              `json:"diff,omitempty"`
	Become     *core.BecomeRule  `json:"become,omitempty"` // of the command line; that of the playbook goes before
	Reason     string            `json:"reason,omitempty"` // why it was launched; workers do not read it
	Revision   string            `json:"revision,omitempty"`
	LaunchedBy string            `json:"launched_by,omitempty"`
	Launched   time.Time         `json:"launched"`
	Files      string            `json:"files,omitempty"`
	Windows    *Admission        `json:"windows,omitempty"` // nil: no step waits for a window
	Turns      *Turns            `json:"turns,omitempty"`   // nil: no host waits for another
	// Secrets are the references that the definitions had for the secrets of its steps, by name; no
	// values. Nil: no step lists a secret. A name that is not in it is one of the worker's own.
	Secrets map[string]secrets.Ref `json:"secrets,omitzero"`
	// Sources are those that its hosts come from, by name. Workers do not read it.
	Sources []core.SourceUse `json:"sources,omitempty"`
	// Asked has the part of the request that chose the hosts, for people. Nil: nothing did, or an
	// older version launched the run. Workers do not read it.
	Asked *Asked `json:"asked,omitempty"`
	// Trace is the W3C traceparent under which the run is traced. Workers that do not know it pass
	// over it.
	Trace string `json:"trace,omitempty"`
	// Resumes is the run at whose failed steps the jobs continue, see Resume. Older workers would call
	// all steps.
	Resumes string `json:"resumes,omitempty"`
	// Once has the results of steps with once that an earlier run called, by their names. Nil: no step
	// has once. Older workers would call such a step on each host.
	Once map[string]core.StepResult `json:"once,omitzero"`
	// Hosts has what hosts('…') gives in its expressions. Nil: none has it. Older workers cannot read
	// such a playbook.
	Hosts HostLists `json:"hosts,omitempty"`
	// Delegates are the hosts that on of its steps gives, by their names, as EncodeHost writes them.
	// Nil: no step has on. Older workers cannot read such a playbook.
	Delegates map[string]json.RawMessage `json:"delegates,omitempty"`
	// Checked names the plugins that the playbook was checked against. Nil: they are not known, as in
	// runs of older versions.
	Checked *Checked `json:"checked,omitempty"`
}

// Asked is the part of a launch's request that nothing else of the run shows.
type Asked struct {
	Limit    []string `json:"limit,omitempty"` // as --limit has it, at most the first 4 KiB
	Cut      bool     `json:"cut,omitempty"`   // Limit had more patterns
	All      bool     `json:"all,omitempty"`   // Limit is of a launcher who sees hosts of all tenants
	Select   string   `json:"select,omitempty"`
	Retry    string   `json:"retry,omitempty"`     // the run whose hosts it tries again
	Pinned   bool     `json:"pinned,omitempty"`    // its schedule pinned the project and the hosts
	NoWindow int      `json:"no_window,omitempty"` // hosts that are left out because no window fits them
}

// CommandFile is Snapshot.File of a run of a command line: diagnostics name it as the file. No
// playbook of a project has it.
const CommandFile = "turnus exec"

// CommandVar is the var that holds the command line. Its value reaches the step as data: no part of
// it is an expression.
const CommandVar = "command"

// CommandLine returns the command line of a run of one. ok is false for a run of a project's
// playbook.
func (s *Snapshot) CommandLine() (line string, ok bool) {
	if s.File != CommandFile {
		return "", false
	}
	line, ok = s.Vars[CommandVar].(string)
	return line, ok
}

// HostLists has what hosts('…') gives: by the customer of the host that asks, and by the argument.
// A host is given hosts of its own customer only.
type HostLists map[string]map[string][]any

// Checked names the process that checked a playbook, and the plugins that it was checked against.
// Workers may have others; the failure of such a step names both.
type Checked struct {
	Place   string            `json:"place"`
	Plugins map[string]string `json:"plugins"` // by job type, name and version of its plugin
}

// Encode writes the snapshot as JSON. Over queue.MaxPayload it is core.ErrInvalid.
func (s Snapshot) Encode() ([]byte, error) {
	switch {
	case len(s.Delegates) > 0:
		s.Version = 10
	case len(s.Hosts) > 0:
		s.Version = 9
	case s.Once != nil:
		s.Version = 8
	case s.Resumes != "":
		s.Version = 7
	case len(s.Included) > 0:
		s.Version = 6
	case s.Become != nil:
		s.Version = 5
	case s.Secrets != nil:
		s.Version = 4
	case s.Turns != nil:
		s.Version = 3
	case s.Windows != nil:
		s.Version = 2
	default:
		s.Version = 1
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write snapshot of %s: %w", s.Playbook, err)
	}
	if len(data) > queue.MaxPayload {
		return nil, fmt.Errorf("playbook %s with its vars has %d bytes: at most %d fit a run: %w", s.Playbook, len(data), queue.MaxPayload, core.ErrInvalid)
	}
	return data, nil
}

// Decode reads what Encode wrote. Errors wrap core.ErrInvalid.
func Decode(data []byte) (Snapshot, error) {
	var s Snapshot
	if err := Unmarshal(data, &s); err != nil {
		return Snapshot{}, fmt.Errorf("read snapshot: %w: %w", core.ErrInvalid, err)
	}
	if s.Version < 1 || s.Version > Version {
		return Snapshot{}, fmt.Errorf("read snapshot of %s: version %d, expected 1 to %d; is this worker older than the launcher? %w", s.Playbook, s.Version, Version, core.ErrInvalid)
	}
	s.Vars = Exact(s.Vars)
	for _, lists := range s.Hosts {
		for _, list := range lists {
			exact(list)
		}
	}
	for _, r := range s.Once {
		Exact(r.Outputs)
	}
	return s, nil
}

// Unmarshal reads JSON with each number as a json.Number: Exact makes values of them.
func Unmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

// Exact turns each json.Number of a decoded object into an int where it is a whole
// number written as one, else into a float64. Without it a port would come back
// from JSON as a float, and print as 1e+06. The map is changed in place and returned.
func Exact(object map[string]any) map[string]any {
	for k, v := range object {
		object[k] = exact(v)
	}
	return object
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			if n, err := v.Int64(); err == nil {
				return int(n)
			}
		}
		f, _ := v.Float64()
		return f
	case map[string]any:
		return Exact(v)
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	}
	return v
}
