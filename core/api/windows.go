package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// WindowSet is a window set with what it opens next.
type WindowSet struct {
	Name        string       `json:"name"`
	Timezone    string       `json:"timezone"`
	Hosts       int          `json:"hosts" doc:"of the inventory that have it"`
	Open        bool         `json:"open"`
	Reason      string       `json:"reason"`
	Next        []Occurrence `json:"next"`
	Work        []WindowWork `json:"work" doc:"playbooks with steps that wait for the set, on hosts of the caller's tenants"`
	Approval    string       `json:"approval,omitempty" doc:"of the set as a whole: proposed, approved, expired, revoked or void (edited since); empty where none is needed"`
	Hash        string       `json:"hash" doc:"what an approval is bound to"`
	ApprovedBy  string       `json:"approved_by,omitempty"`
	ApprovedFor time.Time    `json:"approved_until,omitzero"`
}

// Occurrence is a time during which a window set is open.
type Occurrence struct {
	Open       time.Time `json:"open"`
	Close      time.Time `json:"close"`
	OpenLocal  string    `json:"open_local"`
	CloseLocal string    `json:"close_local"`
	Notes      []string  `json:"notes"`
}

// WindowWork is a playbook that has steps which wait for a window set.
type WindowWork struct {
	Playbook string       `json:"playbook"`
	Hosts    int          `json:"hosts" doc:"that it selects, and that wait for the set"`
	Need     core.Seconds `json:"need_seconds,omitempty" doc:"time that must be left in the window of a host, rollback included; absent where it is not known"`
	Took     core.Seconds `json:"took_seconds,omitempty" doc:"what its steps that wait for the set took on a host in recent runs: the sum of their medians; absent while one of them was measured on fewer than 10 hosts"`
	Rescue   bool         `json:"rescue" doc:"each of its steps that wait for the set is in a group with a rescue, which runs when the step fails; also if the first to wait has a job type that undoes its own failure"`
}

// WindowApproval is how a window set, or a rule of it, that needs an approval stands.
type WindowApproval struct {
	Set      string       `json:"set"`
	Rule     string       `json:"rule,omitempty" doc:"of the set; absent for all that has no approval of its own"`
	Timezone string       `json:"timezone" doc:"of the set"`
	Hosts    int          `json:"hosts" doc:"of the inventory that have the set, or on which a playbook waits for it"`
	Work     []WindowWork `json:"work" doc:"as in the view of the set"`
	Hash     string       `json:"hash" doc:"what an approval is bound to: any edit of the times changes it"`
	State    string       `json:"state" enum:"approved,proposed,expired,revoked,void" doc:"void: edited after it was approved"`
	Reason   string       `json:"reason,omitempty" doc:"why no approval holds"`
	Decides  bool         `json:"decides" doc:"an approver of the caller's tenant may decide on it: nobody else's work starts by the set"`
	Waiting  []Occurrence `json:"waiting" doc:"occurrences of the next 60 days that no approval covers, at most 10"`
	File     *WindowWord  `json:"file,omitempty" doc:"the approval that is in the project"`
	Given    []WindowWord `json:"given" doc:"decisions at the server, the oldest first"`
}

// WindowWord is an approval of a window, or a revocation of approvals.
type WindowWord struct {
	ID      string    `json:"id,omitempty"`
	Revoked bool      `json:"revoked,omitempty" doc:"it revokes the approvals before it"`
	By      string    `json:"by"`
	At      time.Time `json:"at,omitzero"`
	From    time.Time `json:"from,omitzero"`
	Until   time.Time `json:"until,omitzero"`
	Window  string    `json:"window,omitempty" doc:"the hash of the set as it was approved"`
	Change  string    `json:"change,omitempty"`
	Targets string    `json:"targets,omitempty"`
	Freezes []string  `json:"freezes,omitempty"`
	Ticket  string    `json:"ticket,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// ApproveWindow approves a window set, or a rule of it, as it is.
type ApproveWindow struct {
	Rule    string    `json:"rule,omitempty" maxLength:"100" doc:"this rule only; else all that has no approval of its own"`
	From    time.Time `json:"from,omitzero" doc:"covers nothing before; from now on when absent"`
	Until   time.Time `json:"until,omitzero" doc:"covers nothing after: work must be finished by then"`
	Window  string    `json:"window,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"the hash that was seen; refused if the window has changed"`
	Change  string    `json:"change,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"for this change only, as turnus plan prints it"`
	Targets string    `json:"targets,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"for just these hosts, as turnus plan prints them"`
	Freezes []string  `json:"freezes,omitempty" maxItems:"20" doc:"freezes of the caller's own that it lifts"`
	Ticket  string    `json:"ticket,omitempty" maxLength:"100" pattern:"^[A-Za-z0-9][A-Za-z0-9._/-]*$" doc:"where it was decided, as CHG0042"`
	Reason  string    `json:"reason,omitempty" maxLength:"1000"`
}

// RevokeWindow revokes the approvals of a window set, or of a rule of it.
type RevokeWindow struct {
	Rule   string `json:"rule,omitempty" maxLength:"100"`
	Window string `json:"window,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"the hash that was seen; refused if the window has changed. Without it, the approval is revoked whatever the set contains"`
	Ticket string `json:"ticket,omitempty" maxLength:"100" pattern:"^[A-Za-z0-9][A-Za-z0-9._/-]*$"`
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// WindowAnswer is whether work may start in a window set, and why not.
type WindowAnswer struct {
	Set    string       `json:"window_set"`
	At     time.Time    `json:"at"`
	Need   core.Seconds `json:"need_seconds"`
	Fits   bool         `json:"fits" doc:"work of this need may start at that time"`
	Open   bool         `json:"open"`
	Cause  string       `json:"cause" doc:"what decides: rule, freeze, holidays, deny, requires, approval, none, need, cutoff or unknown"`
	By     string       `json:"by,omitempty"`
	Reason string       `json:"reason"`
	Next   time.Time    `json:"next,omitzero" doc:"when it may start next"`
	NoNext string       `json:"no_next,omitempty"`
}
