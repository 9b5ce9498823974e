package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// FleetHost is a host of the inventory with the outcome of the last job that ran on it.
type FleetHost struct {
	Name     string       `json:"name"`
	Customer string       `json:"customer,omitempty"`
	Site     string       `json:"site,omitempty"`
	HAGroup  string       `json:"ha_group,omitempty"`
	Groups   []string     `json:"groups,omitempty"`
	Outcome  core.Outcome `json:"outcome,omitempty" doc:"absent where nothing has run"`
	Ended    time.Time    `json:"ended,omitzero"`
	Run      string       `json:"run,omitempty"`
	Index    int          `json:"index" doc:"of the host's job in the run, where there is one"`
	Playbook string       `json:"playbook,omitempty"`
}
