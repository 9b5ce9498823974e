package admission

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// Options define which steps of a playbook wait for a window.
type Options struct {
	Check bool // nothing is changed, so nothing waits for a window
	// Disruptive reports whether a job type is.
	Disruptive func(uses string) bool
	// Selected reports whether a step with these tags runs; nil is all of them.
	Selected func(tags []string) bool
	// Learned is the time that a step without needs: takes, rollback included, from earlier
	// runs; nil, and false, is not known.
	Learned func(step, uses string) (time.Duration, bool)
}

// Steps is the steps of a playbook that wait for windows. It is immutable, and safe for concurrent
// use.
type Steps struct{ list []step }

type step struct {
	name   string
	window string // "" where it is not gated
	need   time.Duration
	runs   bool
}

// NewSteps returns the steps of a playbook that wait for windows: selected steps with a window of
// their own, and disruptive steps under the playbook's window. A step with the window None never
// waits.
//
// They have the indexes of Playbook.Calls: handlers come last, and count as if all of them ran.
func NewSteps(p *playbooks.Playbook, o Options) *Steps {
	calls, selects := p.Calls(), o.Selected
	if selects == nil {
		selects = func([]string) bool { return true }
	}
	selected := p.Selected(selects)
	s := &Steps{list: make([]step, len(calls))}
	for i, from := range calls {
		to := &s.list[i]
		*to = step{name: from.Name, need: from.Needs, runs: selected[i]}
		window := from.Window
		if window == "" && from.Disrupts(o.Disruptive) {
			window = p.Window
		}
		if window != None && to.runs && !o.Check {
			to.window = window
		}
		if to.need == 0 && to.window != "" && o.Learned != nil {
			if d, ok := o.Learned(from.Name, from.Uses); ok {
				to.need = d
			}
		}
	}
	return s
}

// Len is how many steps the playbook has.
func (s *Steps) Len() int { return len(s.list) }

// Any reports whether a step waits for a window.
func (s *Steps) Any() bool {
	for _, one := range s.list {
		if one.window != "" {
			return true
		}
	}
	return false
}

// Check returns playbooks.Diagnostics: each step with a window whose need is not known.
func (s *Steps) Check(p *playbooks.Playbook) error {
	var all playbooks.Diagnostics
	for i, one := range s.list {
		if one.window != "" && one.need <= 0 {
			all = append(all, p.Diagnose(i, fmt.Sprintf("step %q waits for the window %q, and how long it takes is not known", one.name, one.window),
				"needs: with the time that must be left in the window, rollback included", "needs: 40m"))
		}
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// Set is the window set that a host's step waits for; windowed is false if it waits for none. "" is
// a host without a window set, which is closed.
func (s *Steps) Set(i int, h core.Host) (set string, windowed bool) {
	switch window := s.list[i].window; window {
	case "":
		return "", false
	case Service:
		return h.WindowSet, true
	case Own:
		return h.WindowSet, h.WindowSet != ""
	default:
		return window, true
	}
}

// Hosts are the names of hosts by the window sets that their steps wait for. A host may be in
// several.
func (s *Steps) Hosts(hosts []core.Host) map[string][]string {
	out := map[string][]string{}
	for _, h := range hosts {
		var seen []string
		for i := range s.list {
			if set, windowed := s.Set(i, h); windowed && !slices.Contains(seen, set) {
				seen = append(seen, set)
				out[set] = append(out[set], h.Name)
			}
		}
	}
	return out
}

// First is the first step at or after i that waits for a window; len of the playbook's steps if
// none is.
func (s *Steps) First(i int) int {
	for ; i < len(s.list); i++ {
		if s.list[i].window != "" {
			break
		}
	}
	return i
}

// AtOnce reports whether a job begins with a step that waits for no window, of those that it calls.
func (s *Steps) AtOnce(calls func(i int) bool) bool {
	for i, one := range s.list {
		if one.runs && calls(i) {
			return one.window == ""
		}
	}
	return true
}

// Alone is the time that step i needs, without what comes after it. Zero is not known.
func (s *Steps) Alone(i int) time.Duration { return s.list[i].need }

// Need is the time that must fit when step i begins: that of the steps with a window of its set
// from i on, and of what runs between them. Zero is not known.
func (s *Steps) Need(i int, h core.Host) time.Duration {
	set, windowed := s.Set(i, h)
	if !windowed {
		return 0
	}
	var sum, between time.Duration
	for j := i; j < len(s.list); j++ {
		other, windowed := s.Set(j, h)
		switch {
		case !windowed || other != set:
			if s.list[j].runs {
				between += s.list[j].need
			}
		case s.list[j].need <= 0:
			return 0
		default:
			sum += between + s.list[j].need
			between = 0
		}
	}
	return sum
}
