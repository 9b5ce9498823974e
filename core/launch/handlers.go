package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// pendingData is what Target.Data has beside the host.
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
		more, err := json.Marshal(pendingData{&h})
		if err != nil {
			return fmt.Errorf("host %s: write its pending handlers: %w", targets[i].Host, err)
		}
		host, isObject := bytes.CutSuffix(targets[i].Data, []byte("}")) // never an empty one: the host's name is in it
		if !isObject {
			return fmt.Errorf("host %s: its data is not a JSON object: %w", targets[i].Host, core.ErrInvalid)
		}
		targets[i].Data = slices.Concat(host, []byte(","), more[1:])
		if len(targets[i].Data) > queue.MaxDataLength {
			return fmt.Errorf("host %s with its vars, labels and pending handlers has %d bytes: at most %d fit a job: %w",
				targets[i].Host, len(targets[i].Data), queue.MaxDataLength, core.ErrInvalid)
		}
	}
	l.Run.Targets = targets
	return nil
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
