package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Source is a system that keeps hosts, and how fetching them goes.
type Source struct {
	Name       string          `json:"name"`
	Tenant     string          `json:"tenant,omitempty" doc:"of all its hosts; empty: the customer of each host"`
	Type       string          `json:"type" enum:"netbox,http,exec"`
	State      string          `json:"state" enum:"good,failed,waiting,refused" doc:"failed: the last good hosts are used; waiting: a generation waits for approval; refused: launches on its hosts are"`
	Reason     string          `json:"reason,omitempty" doc:"why the state is not good"`
	ReasonCode core.ReasonCode `json:"reason_code,omitempty"`
	Generation string          `json:"generation,omitempty" doc:"id of the hosts in use"`
	Hosts      int             `json:"hosts" doc:"in use"`
	Good       time.Time       `json:"good,omitzero" doc:"when the source last gave what is in use"`
	Fetched    time.Time       `json:"fetched,omitzero" doc:"the last fetch"`
	Every      core.Seconds    `json:"every_seconds"`
	MaxAge     core.Seconds    `json:"max_age_seconds"`
	Waiting    *WaitingSource  `json:"waiting,omitempty"`
	Left       []string        `json:"left_out" doc:"hosts and records that are not used, each with the reason; at most 100"`
	LeftTotal  int             `json:"left_out_total"`
}

// WaitingSource is a generation of hosts that a person must approve.
type WaitingSource struct {
	Generation string    `json:"generation"`
	Hosts      int       `json:"hosts"`
	At         time.Time `json:"at"`
	Reason     string    `json:"reason"`
}

// SourceDiff is the difference between the hosts in use and a waiting generation.
type SourceDiff struct {
	Source  Source         `json:"source"`
	Added   []string       `json:"added"`
	Removed []string       `json:"removed"`
	Changed []SourceChange `json:"changed"`
}

// SourceChange is a host whose values would change; values are not shown.
type SourceChange struct {
	Host   string   `json:"host"`
	Fields []string `json:"fields"`
}

// ApproveSource approves a waiting generation.
type ApproveSource struct {
	Generation string `json:"generation" minLength:"1" maxLength:"100" doc:"as the diff shows it"`
}

// Origin is a value of a host, and where it comes from.
type Origin struct {
	Field string `json:"field" doc:"as in an inventory, such as labels.role"`
	Value any    `json:"value"`
	Layer string `json:"layer" doc:"such as group web"`
	Place string `json:"place" doc:"file:line:col, or the record of a source"`
}
