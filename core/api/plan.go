package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Plan is the preview of a run that would be created now. Nothing is created.
type Plan struct {
	Playbook    string       `json:"playbook"`
	Tenant      string       `json:"tenant"`
	Revision    string       `json:"revision,omitempty" doc:"commit of the project"`
	Hash        string       `json:"hash" doc:"changes with the hosts, the playbook and the hosts left out: create-run refuses a run that has another one, where it is sent as plan"`
	Check       bool         `json:"check,omitempty" doc:"a dry run"`
	Hosts       int          `json:"hosts"`
	Disruptive  bool         `json:"disruptive" doc:"it never works on two hosts of an HA group at the same time"`
	Approval    string       `json:"approval,omitempty" doc:"why another person must approve the run before it starts"`
	Pause       string       `json:"pause_between,omitempty" doc:"between waves: approve, or a duration"`
	MaxInFlight int          `json:"max_in_flight,omitempty" doc:"hosts at the same time; without it there is no limit"`
	StopAfter   int          `json:"stop_after,omitempty" doc:"failed hosts at which the run stops; without it, none"`
	Waves       []PlanWave   `json:"waves"`
	Windows     []PlanWindow `json:"windows" doc:"window sets that its hosts wait for"`
	NoWindow    []NoWindow   `json:"no_window" doc:"hosts that no window fits: a run needs skip_no_window to leave them out"`
	Forecast    *Forecast    `json:"forecast,omitempty" doc:"when it would end; absent where no host is left. Its run is empty"`
	Retried     *Retried     `json:"retried,omitempty" doc:"of a retry: what differs from the run before"`
}

// PlanWave is one wave of a plan.
type PlanWave struct {
	Wave  int      `json:"wave" doc:"from 1"`
	Total int      `json:"total"`
	Hosts []string `json:"hosts" doc:"in their order, at most the first 1000 of the run"`
}

// PlanWindow is a window set that hosts of a plan wait for.
type PlanWindow struct {
	Set         string       `json:"window_set"`
	Hosts       int          `json:"hosts"`
	Need        core.Seconds `json:"need_seconds,omitempty" doc:"time that must be left in the window"`
	Starts      time.Time    `json:"starts,omitzero" doc:"when the first of its hosts may start; absent: immediately"`
	StartsLocal string       `json:"starts_local,omitempty" doc:"in the zone of the set"`
	Reason      string       `json:"reason,omitempty" doc:"why it does not start immediately"`
}

// NoWindow is a host that no window fits.
type NoWindow struct {
	Host   string       `json:"host"`
	Set    string       `json:"window_set,omitempty"`
	Need   core.Seconds `json:"need_seconds"`
	Reason string       `json:"reason"`
}
