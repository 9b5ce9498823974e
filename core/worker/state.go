package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/plugins/host"
)

// stateVersion is the newest version that encode writes; it writes the oldest that can hold
// everything. decodeState reads all up to it. Version 2 has handlers, version 3 facts.
const stateVersion = 3

// state is the part of a suspended job that another worker needs: the steps that are done, and how
// far the next one is. That worker continues without repeating a step.
type state struct {
	Version   int               `json:"v"`
	Started   time.Time         `json:"started,omitzero"`
	Took      time.Duration     `json:"took_ns,omitempty"` // worker time of earlier leases
	Done      []core.StepResult `json:"done,omitempty"`    // a step each, in order
	Current   progress          `json:"current,omitzero"`  // of the step after them
	Window    *waiting          `json:"window,omitempty"`  // of a job whose steps wait for windows
	Passed    int               `json:"passed,omitempty"`  // barriers of snapshot.Turns
	AtBarrier bool              `json:"at_gate,omitempty"` // it was left waiting at the next: the worker that leases it finds the barrier open

	Called *core.StepResult `json:"called,omitempty"` // result of the present step, which has once and which the job called for its run

	Given []handed `json:"given,omitzero"` // secrets that calls had; nil in a state of a former version, which does not have them

	Handlers *handlersState `json:"handlers,omitempty"`
	Facts    map[string]any `json:"facts,omitempty"` // of the host, from when a step first read them
	FactsAt  time.Time      `json:"facts_at,omitzero"`
	Seen     *core.Facts    `json:"seen,omitempty"` // what the record will have of the host; older workers drop it

	Barred map[string]string `json:"barred,omitempty"` // by host: see host.Outcome.Barred
	Cut    int               `json:"cut,omitempty"`    // the step at which the host had to end, from 1: behind it only always runs

	Entered map[string]bool `json:"entered,omitempty"` // the result of the when of each include that was evaluated
}

// bar keeps the job from becoming another user on a host once more.
func (s *state) bar(host, why string) {
	if s.Barred == nil {
		s.Barred = map[string]string{}
	}
	s.Barred[host] = why
}

// waiting is the state of a job's windows.
type waiting struct {
	promise
	Others map[string]promise `json:"others,omitempty"` // of hosts of steps with on, by window set
	Began  bool               `json:"began,omitempty"`  // a step that waits for windows was started:
	Step   int                `json:"step,omitempty"`   // this one last
	Stop   bool               `json:"stop,omitempty"`   // whose window has overrun: stop_at_checkpoint
}

// promise is the state of a job's windows of one host.
type promise struct {
	Promised time.Time `json:"promised,omitzero"` // start that it was last given, by the queue's clock
	Missed   int       `json:"missed,omitempty"`  // windows that it was given and could not use
}

// of returns the state of the windows of the job's own host, or of those of another.
func (w *waiting) of(own bool, set string) promise {
	switch {
	case w == nil:
		return promise{}
	case own:
		return w.promise
	}
	return w.Others[set]
}

// with returns a copy of w in which that is p.
func (w *waiting) with(own bool, set string, p promise) *waiting {
	next := waiting{}
	if w != nil {
		next = *w
	}
	if own {
		next.promise = p
		return &next
	}
	next.Others = maps.Clone(next.Others)
	if next.Others == nil {
		next.Others = map[string]promise{}
	}
	next.Others[set] = p
	return &next
}

// begins returns the state of the job once step i begins: nothing is promised any more.
func (w *waiting) begins(i int, stop bool) *waiting {
	next := &waiting{promise: promise{Missed: w.of(true, "").Missed}, Began: true, Step: i, Stop: stop}
	if w == nil {
		return next
	}
	for set, p := range w.Others {
		next = next.with(false, set, promise{Missed: p.Missed})
	}
	return next
}

// progress is the state of the present step.
type progress struct {
	Item     int             `json:"item,omitempty"`     // of foreach: items done
	Results  []itemResult    `json:"results,omitempty"`  // of those
	Size     int             `json:"size,omitempty"`     // of Results, in bytes of outputs
	Thin     int             `json:"thin,omitempty"`     // what of Results did not fit: see thinOutputs
	Attempts int             `json:"attempts,omitempty"` // made on the present item
	All      int             `json:"all,omitempty"`      // made on all items
	Crashes  int             `json:"crashes,omitempty"`  // of the plugin on the present item
	Absent   int             `json:"absent,omitempty"`   // calls that the plugin could not take
	Plugin   *host.State     `json:"plugin,omitempty"`   // suspended, or its last checkpoint
	Resumed  bool            `json:"resumed,omitempty"`  // Plugin is of a suspension: the same attempt continues
	Held     bool            `json:"held,omitempty"`     // Plugin is of a call that its window stopped: it waits for the next
	Took     time.Duration   `json:"took_ns,omitempty"`
	Window   *core.Window    `json:"window,omitempty"` // that the present attempt was started in
	On       string          `json:"on,omitempty"`     // the host that it is called on in place of the job's; saved before the call
	Text     core.StepResult `json:"text,omitzero"`    // output of the items so far
	Printed  core.StepResult `json:"printed,omitzero"` // output of the earlier calls of an attempt that continues
}

// keepPrinted keeps what an attempt printed so far, if a later call continues with it.
func (p *progress) keepPrinted(sr core.StepResult) {
	if p.Resumed {
		p.Printed = core.StepResult{Stdout: sr.Stdout, Stderr: sr.Stderr, Diff: sr.Diff, Truncated: sr.Truncated}
	}
}

// Parts that a foreach with many items, or with large outputs, no longer keeps.
const (
	thinOutputs = 1 // the outputs of its items
	thinGone    = 2 // its items
)

// itemResult is one item of a foreach, as expressions see it.
type itemResult struct {
	Item    any            `json:"item"`
	Outcome core.Outcome   `json:"outcome"`
	Outputs map[string]any `json:"outputs,omitempty"`
}

// begun reports whether anything may have happened on the host.
func (s *state) begun() bool {
	return len(s.Done) > 0 || s.Handlers != nil && len(s.Handlers.Ran) > 0 || s.Current.Item > 0 || s.Current.Attempts > 0 || s.Current.Plugin != nil
}

// encode writes the state in at most queue.MaxDetail bytes: texts are cut, outputs never, since
// later steps may read them.
func (s *state) encode() ([]byte, error) {
	short := *s
	short.Version = 2
	short.Done = slices.Clone(s.Done)
	if h := s.Handlers; h != nil && h.None() && len(h.Ran) == 0 && h.Flushed == 0 {
		short.Version, short.Handlers = 1, nil
	} else if h != nil {
		with := *h
		with.Ran = slices.Clone(h.Ran)
		short.Handlers = &with
	}
	if s.Facts != nil {
		short.Version = stateVersion
	}
	for keep := 32 << 10; ; keep /= 2 {
		data, err := json.Marshal(&short)
		if err != nil {
			return nil, fmt.Errorf("write state: %w", err)
		}
		if len(data) <= queue.MaxDetail {
			return data, nil
		}
		if keep < 64 {
			return nil, fmt.Errorf("outputs and saved state of the steps have %d bytes: at most %d can be kept: %w", len(data), queue.MaxDetail, core.ErrInvalid)
		}
		for i := range short.Done {
			cutStep(&short.Done[i], keep)
		}
		if short.Handlers != nil {
			for i := range short.Handlers.Ran {
				cutStep(&short.Handlers.Ran[i].StepResult, keep)
			}
		}
		cutStep(&short.Current.Text, keep)
		cutStep(&short.Current.Printed, keep)
	}
}

func decodeState(data []byte) (*state, error) {
	if len(data) == 0 {
		return &state{Version: stateVersion, Given: []handed{}}, nil
	}
	s := &state{Version: stateVersion}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("read the job's state: %w: %w", core.ErrInvalid, err)
	}
	if s.Version < 1 || s.Version > stateVersion {
		return nil, fmt.Errorf("read the job's state: version %d, expected 1 to %d; is this worker older than the one before it? %w", s.Version, stateVersion, core.ErrInvalid)
	}
	for i := range s.Done {
		s.Done[i].Outputs = snapshot.Exact(s.Done[i].Outputs)
	}
	s.Facts = snapshot.Exact(s.Facts)
	if s.Seen != nil {
		s.Seen.Values = snapshot.Exact(s.Seen.Values)
	}
	if h := s.Handlers; h != nil {
		for i := range h.Ran {
			h.Ran[i].Outputs = snapshot.Exact(h.Ran[i].Outputs)
			if after := h.Ran[i].After; after < 0 || after > len(s.Done) || i > 0 && after < h.Ran[i-1].After {
				return nil, fmt.Errorf("read the job's state: handler %s after step %d of %d: %w", h.Ran[i].Name, after, len(s.Done), core.ErrInvalid)
			}
		}
	}
	if s.Called != nil {
		s.Called.Outputs = snapshot.Exact(s.Called.Outputs)
	}
	for i := range s.Current.Results {
		r := &s.Current.Results[i]
		r.Outputs = snapshot.Exact(r.Outputs)
		r.Item = snapshot.Exact(map[string]any{"": r.Item})[""]
	}
	return s, nil
}
