package worker

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// program is a run's snapshot, read and compiled.
type program struct {
	snapshot snapshot.Snapshot
	playbook *playbooks.Playbook
	calls    []playbooks.Step // its steps, then its handlers
	selected []bool           // by tags, a call each: handlers have none, and are
	steps    *admission.Steps // which of them wait for windows; nil: none does
	once     sync.Map         // results of steps with once that are on record: *snapshot.Once by index
}

// programsKept is how many runs' programs a worker keeps: as many as it may work on at the same
// time, with any number pending.
const programsKept = 64

// programs keeps the programs of the runs last used. Safe for concurrent use.
type programs struct {
	payload func(ctx context.Context, run string) ([]byte, error)
	plugins Plugins

	mu     sync.Mutex
	loaded map[string]*list.Element // of *entry
	recent *list.List               // last used first
}

type entry struct {
	run   string
	ready chan struct{} // closed when prog or err is set
	prog  *program
	err   error
}

func newPrograms(payload func(ctx context.Context, run string) ([]byte, error), plugins Plugins) *programs {
	return &programs{payload: payload, plugins: plugins, loaded: map[string]*list.Element{}, recent: list.New()}
}

// get returns the program of a run; the first caller loads it, others wait for it.
func (ps *programs) get(ctx context.Context, run string) (*program, error) {
	for {
		e, mine := ps.claim(run)
		if mine {
			e.prog, e.err = ps.load(ctx, run)
			if e.err != nil {
				ps.forget(e)
			}
			close(e.ready)
			return e.prog, e.err
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if e.err == nil {
			return e.prog, nil
		}
		// The other's failure may be its own cancelling; load it ourselves.
	}
}

func (ps *programs) claim(run string) (e *entry, mine bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if el, ok := ps.loaded[run]; ok {
		ps.recent.MoveToFront(el)
		return el.Value.(*entry), false
	}
	e = &entry{run: run, ready: make(chan struct{})}
	ps.loaded[run] = ps.recent.PushFront(e)
	if ps.recent.Len() > programsKept {
		oldest := ps.recent.Back()
		ps.recent.Remove(oldest)
		delete(ps.loaded, oldest.Value.(*entry).run)
	}
	return e, true
}

func (ps *programs) forget(e *entry) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if el, ok := ps.loaded[e.run]; ok && el.Value.(*entry) == e {
		ps.recent.Remove(el)
		delete(ps.loaded, e.run)
	}
}

func (ps *programs) load(ctx context.Context, run string) (*program, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	data, err := ps.payload(call, run)
	if err != nil {
		return nil, fmt.Errorf("snapshot of run %s: %w", run, err)
	}
	snap, err := snapshot.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run, err)
	}
	playbook, err := playbooks.Parse(snap.File, []byte(snap.Source), playbooks.Options{Vars: snap.Vars, Steps: playbooks.ReadFrom(snap.Included)})
	if err != nil {
		return nil, fmt.Errorf("playbook of run %s: %w: %w", run, core.ErrInvalid, err)
	}
	prog := &program{snapshot: snap, playbook: playbook, calls: playbook.Calls()}
	prog.selected = playbook.Selected(snap.Selects)
	prog.steps = snap.Steps(playbook, func(uses string) bool {
		t, known := ps.plugins.Type(uses)
		return !known || t.Disruptive
	})
	ps.plugins.Warm(prog.uses())
	return prog, nil
}

// uses returns the job types that the hosts of the run need in any case, in the order of the steps:
// rescue and handlers may never run.
func (p *program) uses() []string {
	var types []string
	for i, step := range p.playbook.Steps {
		rescue := slices.ContainsFunc(step.Within, func(at int) bool {
			b := p.playbook.Blocks[at]
			return b.Rescue <= i && i < b.Always
		})
		if p.selected[i] && !rescue && !slices.Contains(types, step.Uses) {
			types = append(types, step.Uses)
		}
	}
	return types
}

// onLost returns what becomes of a job whose effects are unknown after it used the type.
func onLost(t host.Type) queue.OnLost {
	if t.Idempotent || t.OnLost == string(queue.LostRetry) {
		return queue.LostRetry
	}
	return queue.LostHold
}
