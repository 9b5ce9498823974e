package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/playbooks"
)

// SnapshotVersion is the newest version that Encode writes; it writes the oldest that says
// everything. Decode reads all up to it. A worker that knows no windows refuses a run of version 2,
// instead of running it outside of them, one that knows no turns a run of version 3, and one that
// knows no secrets a run of version 4.
// Version 6 has included files, version 7 jobs that go on at a later step, version 8 steps with
// once, version 9 lists of hosts, version 10 steps that are called on other hosts.
const SnapshotVersion = 10

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
	Become     *core.BecomeRule  `json:"become,omitempty"` // of the command line; what the playbook says goes before
	Reason     string            `json:"reason,omitempty"` // of a Command; workers do not read it
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
	// Trace is the W3C traceparent under which the run is traced. Workers that do not know it pass
	// over it.
	Trace string `json:"trace,omitempty"`
	// Resumes is the run at whose failed steps the jobs go on, see Resume. Older workers would call
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

// Checked names the process that checked a playbook, and the plugins that it was checked against.
// Workers may have others; the failure of such a step names both.
type Checked struct {
	Place   string            `json:"place"`
	Plugins map[string]string `json:"plugins"` // by job type, name and version of its plugin
}

func newChecked(p *playbooks.Playbook, o Options) *Checked {
	plugins := map[string]string{}
	for _, s := range p.Calls() {
		if o.Types == nil {
			break
		}
		if t, ok := o.Types(s.Uses); ok && t.Plugin != "" {
			plugins[s.Uses] = t.Plugin
		}
	}
	if len(plugins) == 0 {
		return nil
	}
	return &Checked{Place: o.Place, Plugins: plugins}
}

func newSnapshot(p *playbooks.Playbook, o Options) Snapshot {
	return Snapshot{
		Run: o.RunID, Playbook: p.Name, File: p.File, Source: string(p.Source), Included: p.Included,
		Vars: o.Vars, Tags: o.Tags, SkipTags: o.SkipTags, Check: o.Check, Diff: o.Diff, Become: o.Become, Reason: o.Reason,
		Revision: o.Revision, LaunchedBy: o.LaunchedBy, Launched: o.Now.UTC(), Files: o.Files, Trace: o.Trace, Checked: newChecked(p, o), Once: newOnce(p),
	}
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

// DecodeSnapshot reads what Encode wrote. Errors wrap core.ErrInvalid.
func DecodeSnapshot(data []byte) (Snapshot, error) {
	var s Snapshot
	if err := unmarshal(data, &s); err != nil {
		return Snapshot{}, fmt.Errorf("read snapshot: %w: %w", core.ErrInvalid, err)
	}
	if s.Version < 1 || s.Version > SnapshotVersion {
		return Snapshot{}, fmt.Errorf("read snapshot of %s: version %d, expected 1 to %d; is this worker older than the launcher? %w", s.Playbook, s.Version, SnapshotVersion, core.ErrInvalid)
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

// EncodeHost writes a host as Target.Data.
func EncodeHost(h core.Host) ([]byte, error) {
	data, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("host %s: write its vars: %w: %w", h.Name, core.ErrInvalid, err)
	}
	if len(data) > queue.MaxDataLength {
		return nil, fmt.Errorf("host %s with its vars and labels has %d bytes: at most %d fit a job: %w", h.Name, len(data), queue.MaxDataLength, core.ErrInvalid)
	}
	return data, nil
}

// DecodeHost reads what EncodeHost wrote. It refuses a host that names its login, because a writer
// to the queue must not choose a program, variable or file of the worker. Errors wrap
// core.ErrInvalid.
func DecodeHost(data []byte) (core.Host, error) {
	h, err := decodeHost(data)
	if err != nil {
		return core.Host{}, err
	}
	if !mayName(data, logins...) {
		return h, nil
	}
	var said struct {
		SSH map[string]any `json:"ssh"`
	}
	if err := unmarshal(data, &said); err != nil {
		return core.Host{}, fmt.Errorf("read host: %w: %w", core.ErrInvalid, err)
	}
	for key := range said.SSH {
		if slices.ContainsFunc(logins, func(login string) bool { return strings.EqualFold(login, key) }) {
			return core.Host{}, fmt.Errorf("host %s: the job says %s, and no job may say what a worker logs in with: "+
				"launch the run again, with hosts that name a credential of the workers: %w", h.Name, key, core.ErrInvalid)
		}
	}
	return h, nil
}

// decodeHost reads a host of the ledger, which may be older than credentials: what it says to log
// in with is dropped.
func decodeHost(data []byte) (core.Host, error) {
	var h core.Host
	if err := unmarshal(data, &h); err != nil {
		return core.Host{}, fmt.Errorf("read host: %w: %w", core.ErrInvalid, err)
	}
	h.Vars = Exact(h.Vars)
	return h, nil
}

// logins are the keys of a host's SSH settings that only a process's own settings may have.
// Versions before credentials wrote them into jobs.
var logins = []string{"identity_files", "certificate_file", "password_env", "password_command"}

// mayName reports whether JSON may have one of the keys. It spares reading most hosts a second
// time.
func mayName(data []byte, keys ...string) bool {
	lower := bytes.ToLower(data)
	return bytes.IndexByte(data, '\\') >= 0 || slices.ContainsFunc(keys, func(key string) bool { return bytes.Contains(lower, []byte(key)) })
}

func unmarshal(data []byte, v any) error {
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

func mergedVars(p *playbooks.Playbook, o Options) map[string]any {
	if len(o.Vars) == 0 {
		return p.Vars
	}
	vars := maps.Clone(p.Vars)
	if vars == nil {
		vars = make(map[string]any, len(o.Vars))
	}
	maps.Copy(vars, o.Vars)
	return vars
}
