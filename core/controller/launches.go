package controller

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// How many launches are kept in memory. Others are read from the ledger when something happens in
// them.
const (
	maxLaunches    = 8192
	maxLaunchHosts = 300_000 // of all of them together, beside the last one
)

// held is a launch in memory. It is not changed.
type held struct {
	id      string
	content int64 // of the run, see ledger.Run.Content
	launch  *launch.Launch

	// Of the goroutine of Run.
	results               *engine.Results     // nil: not read yet
	incarnation, position string              // of the queue's records, up to which results reach
	steps                 []int               // with once
	once                  map[int]engine.Once // of them, as far as it was read
}

func newHeld(run *ledger.Run, l *launch.Launch) *held {
	return &held{id: run.ID, content: run.Content(), launch: l, steps: l.OnceSteps(), once: map[int]engine.Once{}}
}

// launches are those that were last used.
type launches struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	used  *list.List // of *held, the last used in front
	hosts int
}

func newLaunches() *launches {
	return &launches{byID: map[string]*list.Element{}, used: list.New()}
}

func (s *launches) get(id string, content int64) *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil || e.Value.(*held).content != content {
		return nil
	}
	s.used.MoveToFront(e)
	return e.Value.(*held)
}

func (s *launches) put(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(h.id)
	s.byID[h.id] = s.used.PushFront(h)
	s.hosts += len(h.launch.Hosts)
	for s.used.Len() > maxLaunches || s.hosts > maxLaunchHosts && s.used.Len() > 1 {
		s.remove(s.used.Back().Value.(*held).id)
	}
}

func (s *launches) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(id)
}

func (s *launches) remove(id string) {
	if e := s.byID[id]; e != nil {
		s.hosts -= len(e.Value.(*held).launch.Hosts)
		s.used.Remove(e)
		delete(s.byID, id)
	}
}

func (s *launches) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used.Len()
}

// launchOf returns the launch of a run, from the ledger where it is not in memory.
func (c *Controller) launchOf(ctx context.Context, run *ledger.Run) (*held, error) {
	if h := c.launches.get(run.ID, run.Content()); h != nil {
		return h, nil
	}
	m, err := c.cfg.Ledger.Material(ctx, run.ID)
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", run.ID, err)
	}
	return c.restore(run, m)
}

func (c *Controller) restore(run *ledger.Run, m ledger.Material) (*held, error) {
	l, err := c.restorer.Restore(m.Snapshot, m.Queue)
	if err != nil {
		return nil, err
	}
	h := newHeld(run, l)
	c.launches.put(h)
	return h, nil
}

// loadLaunches brings the launches of runs into memory, in one read of the ledger. It is best
// effort: launchOf returns what is wrong with one.
func (c *Controller) loadLaunches(ctx context.Context, runs []*ledger.Run) {
	var missing []string
	for _, run := range runs {
		if c.launches.get(run.ID, run.Content()) == nil {
			missing = append(missing, run.ID)
		}
	}
	if len(missing) < 2 {
		return
	}
	materials, err := c.cfg.Ledger.Materials(ctx, missing...)
	if err != nil {
		return
	}
	for _, run := range runs {
		if m, ok := materials[run.ID]; ok {
			_, _ = c.restore(run, m)
		}
	}
}
