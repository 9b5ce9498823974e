package launch

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/playbooks"
)

// Plan is the preview of a launch: the waves and the order of the hosts.
type Plan struct {
	Playbook        string     `json:"playbook"`
	Description     string     `json:"description,omitempty"`
	Run             string     `json:"run"`
	Total           int        `json:"total"`
	MaxInFlight     int        `json:"max_in_flight,omitempty"`
	StopAfter       int        `json:"stop_after,omitempty"`
	StopUnreachable int        `json:"stop_unreachable,omitempty"`
	PerGroup        int        `json:"per_group,omitempty"`
	Disruptive      bool       `json:"disruptive"`
	OnLost          string     `json:"on_lost"`
	Pause           string     `json:"pause_between,omitempty"` // "approve" or a duration
	NextWaveAt      string     `json:"next_wave_at,omitempty"`  // a share of the released hosts, or a duration
	Check           bool       `json:"check,omitempty"`
	Steps           []PlanStep `json:"steps"`
	Handlers        []PlanStep `json:"handlers,omitempty"` // each runs on hosts where a step that notifies it changes something
	Waves           []PlanWave `json:"waves"`
	WithoutFacts    []string   `json:"without_facts,omitempty"` // hosts left out: targets read facts that are not on record, or too old
	// Of a playbook whose steps wait for windows:
	WaitForWindows bool         `json:"wait_for_windows,omitempty"`
	Change         string       `json:"change,omitempty"` // what an approval's change: is bound to, sha256:HEX
	Windows        []PlanWindow `json:"windows,omitempty"`
	NoWindow       []NoWindow   `json:"no_window,omitempty"` // hosts that no window fits
}

// PlanWindow is one window set that steps wait for.
type PlanWindow struct {
	Set     string       `json:"window_set"`
	Hosts   int          `json:"hosts"`
	Targets string       `json:"targets"` // what an approval's targets: is bound to, sha256:HEX
	Need    core.Seconds `json:"need_seconds,omitempty"`
	Start   time.Time    `json:"start,omitzero"` // the earliest of its hosts; none: immediately
	Reason  string       `json:"reason,omitempty"`
}

// PlanStep is one step that would run.
type PlanStep struct {
	Name     string `json:"name"`
	Uses     string `json:"uses"`
	Selected bool   `json:"selected"` // by --tags and --skip-tags
	// Secrets are the names of those that it lists, sorted.
	Secrets []string            `json:"secrets,omitempty"`
	Notify  []string            `json:"notify,omitempty"` // handlers
	Group   string              `json:"group,omitempty"`  // of a step in its rescue or always
	Part    playbooks.GroupPart `json:"part,omitempty"`   // that part
	Flush   bool                `json:"flush,omitempty"`  // pending handlers run before it
	After   string              `json:"after,omitempty"`  // all_hosts or remaining_hosts: a barrier, behind which the waves begin again
	Once    bool                `json:"once,omitempty"`   // one host of the run calls it
	On      []string            `json:"on,omitempty"`     // hosts on which it is called in place of the run's
}

// PlanWave is one wave.
type PlanWave struct {
	Wave  int        `json:"wave"` // from 1
	Count int        `json:"count"`
	Hosts []PlanHost `json:"hosts"`
}

// PlanHost is one host at its place.
type PlanHost struct {
	Index    int    `json:"index"` // of its job
	Host     string `json:"host"`
	Address  string `json:"address"`
	Customer string `json:"customer,omitempty"`
	Site     string `json:"site,omitempty"`
	Pool     string `json:"pool,omitempty"`
	HAGroup  string `json:"ha_group,omitempty"`
	Group    string `json:"group,omitempty"` // of per_group
	// Hosts that must have succeeded before it begins: the standby of its pair, bastions on its way.
	After []string `json:"after,omitempty"`
	// Of a host that waits for a window:
	WindowSet  string    `json:"window_set,omitempty"`
	Start      time.Time `json:"start,omitzero"`        // none: immediately
	StartLocal string    `json:"start_local,omitempty"` // in the set's zone
	Waits      string    `json:"waits,omitempty"`       // why it does not start immediately
}

// Plan shows the launch.
func (l *Launch) Plan() Plan {
	p := Plan{
		Playbook: l.Playbook.Name, Description: l.Playbook.Description, Run: l.Run.ID,
		Total: len(l.Hosts), MaxInFlight: l.Run.MaxInFlight, StopAfter: l.Run.StopAfter,
		StopUnreachable: l.Run.StopUnreachable, PerGroup: l.Run.PerGroup,
		Disruptive: l.Run.Disruptive, OnLost: string(l.Run.OnLost), Check: l.Snapshot.Check,
		Pause: pauseText(l.Playbook.Strategy.PauseBetween), NextWaveAt: l.Playbook.Strategy.NextWaveAt.String(),
		WithoutFacts: l.WithoutFacts,
	}
	steps := l.planSteps()
	p.Steps, p.Handlers = steps[:len(l.Playbook.Steps)], steps[len(l.Playbook.Steps):]
	from := 0
	for k, limit := range l.Limits {
		wave := PlanWave{Wave: k + 1, Count: limit - from}
		for i := from; i < limit; i++ {
			h := l.Hosts[i]
			one := PlanHost{
				Index: i, Host: h.Name, Address: h.Target(), Customer: h.Customer, Site: h.Site,
				Pool: h.Pool, HAGroup: h.HAGroup, Group: l.Run.Targets[i].Group, After: l.After[h.Name],
			}
			if l.Starts != nil {
				one.startAt(l.Starts[i])
			}
			wave.Hosts = append(wave.Hosts, one)
		}
		p.Waves = append(p.Waves, wave)
		from = limit
	}
	l.planWindows(&p)
	return p
}

// planSteps are the steps as Playbook.Calls has them.
func (l *Launch) planSteps() (steps []PlanStep) {
	selected := l.Playbook.Selected(l.Snapshot.Selects)
	for i, s := range l.Playbook.Calls() {
		one := PlanStep{Name: s.Name, Uses: s.Uses, Selected: selected[i], Secrets: slices.Compact(slices.Sorted(maps.Values(s.Secrets))), Notify: s.Notify, Flush: s.Flush, After: s.After, Once: s.Once}
		one.On = slices.Sorted(maps.Keys(l.Delegates[i]))
		one.Group, one.Part = l.Playbook.Aside(i)
		steps = append(steps, one)
	}
	return steps
}

func (h *PlanHost) startAt(s Start) {
	h.WindowSet = s.Set
	if s.At.IsZero() {
		return
	}
	h.Start, h.StartLocal, h.Waits = s.At.UTC(), s.At.In(s.Zone).Format(time.RFC3339), s.Reason
}

// planWindows adds the window sets, by name.
func (l *Launch) planWindows(p *Plan) {
	g := l.Snapshot.Windows
	if g == nil {
		return
	}
	p.WaitForWindows, p.Change, p.NoWindow = l.Playbook.Strategy.WaitForWindows, g.Change, l.NoWindow
	for _, set := range slices.Sorted(maps.Keys(g.Targets)) {
		if set != "" { // else hosts without one: no window fits them, or they need none
			p.Windows = append(p.Windows, PlanWindow{Set: set, Targets: g.Targets[set]})
		}
	}
	for _, s := range l.Starts {
		i, gated := slices.BinarySearchFunc(p.Windows, s.Set, func(w PlanWindow, set string) int { return strings.Compare(w.Set, set) })
		if !gated {
			continue // window: own, and the host has no set
		}
		w := &p.Windows[i]
		w.Hosts++
		w.Need = core.InSeconds(s.Need)
		if !s.At.IsZero() {
			w.Start, w.Reason = s.At.UTC(), s.Reason
		}
	}
}

func pauseText(p rollout.Pause) string {
	switch {
	case p.Approve:
		return "approve"
	case p.For > 0:
		return p.For.String()
	}
	return ""
}
