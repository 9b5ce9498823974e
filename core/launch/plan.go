package launch

import (
	"github.com/turnus/turnus/core/rollout"
)

// Plan is what a launch would do: the waves and the order of the hosts.
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
	Check           bool       `json:"check,omitempty"`
	Steps           []PlanStep `json:"steps"`
	Waves           []PlanWave `json:"waves"`
}

// PlanStep is one step that would run.
type PlanStep struct {
	Name     string `json:"name"`
	Uses     string `json:"uses"`
	Selected bool   `json:"selected"` // by --tags and --skip-tags
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
}

// Plan shows the launch.
func (l *Launch) Plan() Plan {
	p := Plan{
		Playbook: l.Playbook.Name, Description: l.Playbook.Description, Run: l.Run.ID,
		Total: len(l.Hosts), MaxInFlight: l.Run.MaxInFlight, StopAfter: l.Run.StopAfter,
		StopUnreachable: l.Run.StopUnreachable, PerGroup: l.Run.PerGroup,
		Disruptive: l.Run.Disruptive, OnLost: string(l.Run.OnLost), Check: l.Snapshot.Check,
		Pause: pauseText(l.Playbook.Strategy.PauseBetween),
	}
	for _, s := range l.Playbook.Steps {
		p.Steps = append(p.Steps, PlanStep{Name: s.Name, Uses: s.Uses, Selected: l.Snapshot.Selects(s.Tags)})
	}
	from := 0
	for k, limit := range l.Limits {
		wave := PlanWave{Wave: k + 1, Count: limit - from}
		for i := from; i < limit; i++ {
			h := l.Hosts[i]
			wave.Hosts = append(wave.Hosts, PlanHost{
				Index: i, Host: h.Name, Address: h.Target(), Customer: h.Customer, Site: h.Site,
				Pool: h.Pool, HAGroup: h.HAGroup, Group: l.Run.Targets[i].Group,
			})
		}
		p.Waves = append(p.Waves, wave)
		from = limit
	}
	return p
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
