package launch

import (
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

// SetPending gives the jobs the handlers that earlier runs left pending, by host. Call it before
// the run is submitted.
func (l *Launch) SetPending(pending map[string]core.Handlers) error {
	targets := slices.Clone(l.Run.Targets)
	for i := range targets {
		h, known := pending[targets[i].Host]
		if !known {
			continue
		}
		data, err := snapshot.AddPending(targets[i], h)
		if err != nil {
			return err
		}
		targets[i].Data = data
	}
	l.Run.Targets = targets
	return nil
}

// handlers returns the state of a job's handlers after a record: that of its worker, else that of
// the state that the job had. If neither is known, all handlers that its steps notify have to run.
func (l *Launch) handlers(said *core.Handlers, worker bool, r queue.Record) *core.Handlers {
	if l.Snapshot.Check {
		return nil
	}
	if !worker && (len(r.State) > 0 || r.Outcome != core.Lost) {
		if said = snapshot.HandlersOf(r.State); said != nil && said.None() {
			return nil
		}
	}
	if names := l.Playbook.Notifiable(); said == nil && len(names) > 0 {
		return &core.Handlers{Pending: names}
	}
	return said
}
