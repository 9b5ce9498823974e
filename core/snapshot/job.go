package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

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
	h, err := RestoreHost(data)
	if err != nil {
		return core.Host{}, err
	}
	if !mayName(data, logins...) {
		return h, nil
	}
	var said struct {
		SSH map[string]any `json:"ssh"`
	}
	if err := Unmarshal(data, &said); err != nil {
		return core.Host{}, fmt.Errorf("read host: %w: %w", core.ErrInvalid, err)
	}
	for key := range said.SSH {
		if slices.ContainsFunc(logins, func(login string) bool { return strings.EqualFold(login, key) }) {
			return core.Host{}, fmt.Errorf("host %s: the job has %s, and no job may set what a worker logs in with: "+
				"launch the run again, with hosts that name a credential of the workers: %w", h.Name, key, core.ErrInvalid)
		}
	}
	return h, nil
}

// RestoreHost reads a host of the ledger, which may be older than credentials: its own
// credentials are dropped.
func RestoreHost(data []byte) (core.Host, error) {
	var h core.Host
	if err := Unmarshal(data, &h); err != nil {
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

// Delegate returns the host of the inventory that on of a step gives. Errors wrap core.ErrInvalid,
// also for a host of another customer than of.
func (s *Snapshot) Delegate(name string, of core.Host) (core.Host, error) {
	data, known := s.Delegates[name]
	if !known {
		return core.Host{}, fmt.Errorf("host %s was not in the inventory at the launch: %w", name, core.ErrInvalid)
	}
	h, err := DecodeHost(data)
	if err != nil {
		return core.Host{}, err
	}
	if h.Name != name || h.Customer != of.Customer {
		return core.Host{}, fmt.Errorf("host %s is not of the customer of %s: %w", name, of.Name, core.ErrInvalid)
	}
	return h, nil
}

// pendingData is the part of Target.Data that holds the handlers.
type pendingData struct {
	Handlers core.Handlers `json:"handlers"`
}

// AddPending returns Target.Data with the handlers that earlier runs left pending.
func AddPending(t queue.Target, h core.Handlers) ([]byte, error) {
	return withData(t, pendingData{h}, queue.MaxDataLength)
}

// DecodePending reads what AddPending added.
func DecodePending(data []byte) (core.Handlers, error) {
	var p pendingData
	if !mayName(data, "handlers") {
		return core.Handlers{}, nil
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return core.Handlers{}, fmt.Errorf("read the host's pending handlers: %w: %w", core.ErrInvalid, err)
	}
	return p.Handlers, nil
}

// Resume holds the results with which a job begins, instead of its first step.
type Resume struct {
	// Steps are the results of the first steps, which an earlier run called. Each has Kept.
	Steps []core.StepResult `json:"steps,omitempty"`
	// Items are the finished items of the next step's foreach, as its output items has them.
	Items []any `json:"items,omitempty"`
	// Entered has the values of when of the includes around the steps, see core.Result.
	Entered map[string]bool `json:"entered,omitempty"`
	// Boot is the boot id that the host had at the end of the earlier run; "" is not known. A host
	// with another one does not continue. Older workers do not compare it.
	Boot string `json:"boot,omitempty"`
}

// resumeData is the part of Target.Data that holds the resumption.
type resumeData struct {
	Resume Resume `json:"resume"`
}

// handlersRoom is how much of Target.Data is for AddPending, in bytes.
const handlersRoom = 8 << 10

// AddResume returns Target.Data with the results that the job begins with.
func AddResume(t queue.Target, r Resume) ([]byte, error) {
	return withData(t, resumeData{r}, queue.MaxDataLength-handlersRoom)
}

// DecodeResume reads what AddResume added.
func DecodeResume(data []byte) (Resume, error) {
	if !mayName(data, "resume") {
		return Resume{}, nil
	}
	var d resumeData
	if err := Unmarshal(data, &d); err != nil {
		return Resume{}, fmt.Errorf("read the steps at which the host continues: %w: %w", core.ErrInvalid, err)
	}
	for i := range d.Resume.Steps {
		d.Resume.Steps[i].Outputs = Exact(d.Resume.Steps[i].Outputs)
	}
	Exact(map[string]any{"": d.Resume.Items})
	return d.Resume, nil
}

// withData returns Target.Data with the fields of more beside the host, in at most so many bytes.
func withData(t queue.Target, more any, most int) ([]byte, error) {
	fields, err := json.Marshal(more)
	if err != nil {
		return nil, fmt.Errorf("host %s: write its job: %w", t.Host, err)
	}
	host, isObject := bytes.CutSuffix(t.Data, []byte("}")) // never an empty one: the host's name is in it
	if !isObject {
		return nil, fmt.Errorf("host %s: its data is not a JSON object: %w", t.Host, core.ErrInvalid)
	}
	data := slices.Concat(host, []byte(","), fields[1:])
	if len(data) > most {
		return nil, fmt.Errorf("host %s with its vars, labels, and what earlier runs left has %d bytes: at most %d fit a job: %w", t.Host, len(data), most, core.ErrInvalid)
	}
	return data, nil
}

// HandlersOf returns the state of a job's handlers, by the state that its worker saved. Without a
// state there is nothing to run: a worker saves one before the first change that needs a handler.
// Nil is a state that cannot be read.
func HandlersOf(state []byte) *core.Handlers {
	var s struct {
		Handlers core.Handlers `json:"handlers"`
	}
	if len(state) > 0 && json.Unmarshal(state, &s) != nil {
		return nil
	}
	return s.Handlers.Final()
}
