package api

import "time"

// PendingHandler is a handler that has to run on a host: a step that notifies it changed the host,
// or may have, and the handler has not succeeded since. The playbook's next run on the host runs
// it, except if it is removed.
type PendingHandler struct {
	Tenant   string    `json:"tenant,omitempty" doc:"of the run"`
	Playbook string    `json:"playbook"`
	Host     string    `json:"host"`
	Handler  string    `json:"handler"`
	Run      string    `json:"run" doc:"that left it pending"`
	Since    time.Time `json:"since"`
	Removed  bool      `json:"removed,omitempty" doc:"the playbook no longer has it, so no run calls it"`
	At       string    `json:"at,omitempty" doc:"if it is removed: its file:line in the newest run that left it, of those of the page"`
}

// DropHandlers forgets pending handlers of a playbook.
type DropHandlers struct {
	Playbook string `json:"playbook" minLength:"1" maxLength:"200"`
	Host     string `json:"host,omitempty" minLength:"1" maxLength:"253" doc:"only on this host"`
	Handler  string `json:"handler,omitempty" minLength:"1" maxLength:"400" doc:"only this handler"`
}

// DroppedHandlers are those that were pending.
type DroppedHandlers struct {
	Items []PendingHandler `json:"items" doc:"at most 1000 a request"`
}
