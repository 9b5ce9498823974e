package snapshot

import (
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/playbooks"
)

// Admission is the part of a run's windows that is fixed at launch. The windows themselves
// may be edited while the run is under way: they are a document on the board.
type Admission struct {
	Board   string                   `json:"board"`              // name of the document, see admission.DecodeCalendar
	Change  string                   `json:"change"`             // what approvals may be bound to, as sha256:HEX
	Targets map[string]string        `json:"targets,omitempty"`  // the same of the run's hosts in each window set
	Needs   map[string]time.Duration `json:"needs_ns,omitempty"` // learned, by step: where the playbook has none
	Planned []Planned                `json:"planned,omitempty"`  // the windows that hosts were planned for
	Ready   int                      `json:"ready,omitempty"`    // jobs below it could begin when their windows opened
}

// Planned is the window that hosts with one question were planned for at launch.
type Planned struct {
	Set  string        `json:"set"`
	Need time.Duration `json:"need_ns"`
	From time.Time     `json:"from"` // the earliest start
	Last time.Time     `json:"last"` // the latest one
}

// Missed reports whether a job that comes to its first step with a window at now, and is asked to
// wait, has missed the window that it was planned for. A job may have had to wait for its wave, for
// the hosts that it comes after, or for a step before. It has then missed the window only where it
// could have started, were it not for an edit.
func (s Snapshot) Missed(index int, q admission.Question, now time.Time) bool {
	g := s.Windows
	i := slices.IndexFunc(g.Planned, func(p Planned) bool { return p.Set == q.Set && p.Need == q.Need })
	if i < 0 || now.Before(g.Planned[i].From) {
		return false
	}
	ready := index < g.Ready && (s.Turns == nil || !s.Turns.Waits(0, s.Turns.Class(index)))
	return ready || !now.After(g.Planned[i].Last)
}

// Steps returns which steps of the run wait for windows; nil when none does. disruptive reports
// whether a job type is.
func (s Snapshot) Steps(p *playbooks.Playbook, disruptive func(uses string) bool) *admission.Steps {
	if s.Windows == nil {
		return nil
	}
	return admission.NewSteps(p, admission.Options{
		Check: s.Check, Disruptive: disruptive, Selected: s.Selects,
		Learned: func(step, _ string) (time.Duration, bool) {
			need, ok := s.Windows.Needs[step]
			return need, ok
		},
	})
}

// Question returns the question to ask before step i of a host's job; windowed is false if the step
// waits for no window.
func (g *Admission) Question(steps *admission.Steps, i int, h core.Host, missed int) (q admission.Question, windowed bool) {
	set, windowed := steps.Set(i, h)
	if !windowed {
		return admission.Question{}, false
	}
	return admission.Question{Set: set, Need: steps.Need(i, h), Change: g.Change, Targets: g.Targets[set], Missed: missed}, true
}

// Delegated is the question to ask before step i is called on another host than the job's, in
// addition to that for the job's own.
func (g *Admission) Delegated(steps *admission.Steps, i int, to core.Host) (q admission.Question, windowed bool) {
	set, windowed := steps.Set(i, to)
	if !windowed {
		return admission.Question{}, false
	}
	return admission.Question{Set: set, Need: steps.Alone(i), Change: g.Change, Targets: g.Targets[set]}, true
}
