package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// pendingData is the part of Target.Data that holds the handlers.
type pendingData struct {
	Handlers *core.Handlers `json:"handlers,omitempty"`
}

// DecodePending reads from Target.Data what SetPending added.
func DecodePending(data []byte) (core.Handlers, error) {
	var p pendingData
	if !mayName(data, "handlers") {
		return core.Handlers{}, nil
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return core.Handlers{}, fmt.Errorf("read the host's pending handlers: %w: %w", core.ErrInvalid, err)
	}
	if p.Handlers == nil {
		return core.Handlers{}, nil
	}
	return *p.Handlers, nil
}

// SetPending gives the jobs the handlers that earlier runs left pending, by host. Call it before
// the run is submitted.
func (l *Launch) SetPending(pending map[string]core.Handlers) error {
	targets := slices.Clone(l.Run.Targets)
	for i := range targets {
		h, known := pending[targets[i].Host]
		if !known {
			continue
		}
		data, err := withData(targets[i], pendingData{&h}, queue.MaxDataLength)
		if err != nil {
			return err
		}
		targets[i].Data = data
	}
	l.Run.Targets = targets
	return nil
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

// handlers is how a job stands with its handlers after a record: as its worker said, else by the
// state that the job had. Of a job about which nobody can say it, all that its steps notify have to
// run.
func (l *Launch) handlers(said *core.Handlers, worker bool, r queue.Record) *core.Handlers {
	if l.Snapshot.Check {
		return nil
	}
	if !worker && (len(r.State) > 0 || r.Outcome != core.Lost) {
		if said = HandlersOf(r.State); said != nil && said.None() {
			return nil
		}
	}
	if names := l.Playbook.Notifiable(); said == nil && len(names) > 0 {
		return &core.Handlers{Pending: names}
	}
	return said
}

// HandlersOf returns how a job stands with its handlers by the state that its worker saved. Without
// a state there is nothing to run: a worker saves one before the first change that needs a handler.
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
