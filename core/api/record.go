package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Output is one text that a job's step wrote.
type Output struct {
	Name    string    `json:"name" doc:"STEP/STREAM: the step's number from 0, and stdout, stderr or diff"`
	Step    string    `json:"step,omitempty"`
	Size    int64     `json:"size" doc:"bytes"`
	Written time.Time `json:"written,omitzero"`
	Cut     bool      `json:"cut,omitempty" doc:"it was longer than a worker keeps"`
}

// Attempt is one try of a job.
type Attempt struct {
	Attempt int          `json:"attempt" doc:"from 1"`
	Life    int          `json:"life,omitempty" doc:"how often the job had been given a new life"`
	Outcome core.Outcome `json:"outcome"`
	Reason  string       `json:"reason,omitempty"`
	Step    string       `json:"step,omitempty"`
	Worker  string       `json:"worker,omitempty"`
	Started time.Time    `json:"started,omitzero"`
	Ended   time.Time    `json:"ended,omitzero"`
}

// Decision is one person's word on a run or on one of its waves.
type Decision struct {
	Wave    int       `json:"wave,omitempty" doc:"from 1; 0 is the run as a whole"`
	By      string    `json:"by"`
	Approve bool      `json:"approve"`
	Reason  string    `json:"reason,omitempty"`
	Time    time.Time `json:"time"`
	Void    bool      `json:"void,omitempty" doc:"the run was changed afterwards"`
}

// Document is one file of the definitions.
type Document struct {
	Path string `json:"path" minLength:"1" maxLength:"1024" doc:"from the root of the definitions, with slashes"`
	Data []byte `json:"data" doc:"the file's bytes, in base64"`
}

// Apply asks for definitions in the place of those that hold.
type Apply struct {
	Documents []Document `json:"documents" maxItems:"20000"`
	Revision  string     `json:"revision,omitempty" maxLength:"128" doc:"commit that they come from"`
	Author    string     `json:"author,omitempty" maxLength:"300"`
	Subject   string     `json:"subject,omitempty" maxLength:"300"`
}

// Change is one thing in which definitions differ.
type Change struct {
	Kind        string    `json:"kind" doc:"playbook, schedule, window_set, freeze, holidays or host"`
	Name        string    `json:"name"`
	Action      string    `json:"action" doc:"added, removed or changed"`
	Details     []string  `json:"details"`
	HostsCome   []string  `json:"hosts_come,omitempty"`
	HostsGo     []string  `json:"hosts_go,omitempty"`
	WindowsCome int       `json:"windows_come,omitempty"`
	WindowsGo   int       `json:"windows_go,omitempty"`
	Voids       []string  `json:"voids,omitempty" doc:"approvals that hold no longer"`
	OldNext     time.Time `json:"old_next,omitzero"`
	NewNext     time.Time `json:"new_next,omitzero"`
}

// Launched is the run that a trigger launches.
type Launched struct {
	Run string `json:"run" doc:"it may be accepted a moment later"`
}

// Backfilled is how many fires a backfill launches.
type Backfilled struct {
	Fires int `json:"fires"`
}

// WindowAnswer says whether work may start in a window set.
type WindowAnswer struct {
	Set    string    `json:"window_set"`
	At     time.Time `json:"at"`
	Need   string    `json:"need"`
	Fits   bool      `json:"fits" doc:"work of this need may start at that time"`
	Open   bool      `json:"open"`
	Cause  string    `json:"cause" doc:"what decides: rule, freeze, holidays, deny, requires, approval, none, need, cutoff or unknown"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason"`
	Next   time.Time `json:"next,omitzero" doc:"when it may start next"`
	NoNext string    `json:"no_next,omitempty"`
}

// Whoami is who a token makes its bearer.
type Whoami struct {
	Name    string    `json:"name" doc:"as it stands in the audit log"`
	Token   string    `json:"token" doc:"id"`
	Tenant  string    `json:"tenant" doc:"* is all tenants"`
	Roles   []string  `json:"roles"`
	Expires time.Time `json:"expires,omitzero"`
}

// Health is how a server is.
type Health struct {
	Ready       bool   `json:"ready"`
	Ledger      string `json:"ledger" doc:"ok, or what is wrong"`
	Queue       string `json:"queue" doc:"ok, or away: runs are accepted nevertheless"`
	Definitions string `json:"definitions" doc:"ok, or none: no run can be made"`
	Version     string `json:"version"`
}
