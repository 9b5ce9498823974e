package api

import (
	"encoding/json"
	"time"
)

// Schedule launches runs again and again.
type Schedule struct {
	Name        string    `json:"name"`
	Tenant      string    `json:"tenant"`
	Playbook    string    `json:"playbook"`
	Cron        string    `json:"cron"`
	Sentence    string    `json:"sentence" doc:"the expression in words"`
	Timezone    string    `json:"timezone"`
	CatchUp     string    `json:"catch_up"`
	Overlap     string    `json:"overlap"`
	Jitter      string    `json:"jitter,omitempty"`
	StartWithin string    `json:"start_within,omitempty"`
	Managed     bool      `json:"managed" doc:"it stands in the definitions, and is changed there"`
	Paused      bool      `json:"paused"`
	PauseReason string    `json:"pause_reason,omitempty"`
	Next        time.Time `json:"next,omitzero"`
	NextLocal   string    `json:"next_local,omitempty"`
	Fires       int64     `json:"fires" doc:"launched so far"`
	LastRun     string    `json:"last_run,omitempty"`
	LastFire    time.Time `json:"last_fire,omitzero"`
	LastSkip    string    `json:"last_skip,omitempty" doc:"why the last skipped fire was skipped"`
	ETag        string    `json:"etag"`
}

// NewSchedule makes or replaces a schedule of a playbook that the definitions hold.
type NewSchedule struct {
	Playbook    string `json:"playbook" minLength:"1" maxLength:"200"`
	Cron        string `json:"cron" minLength:"1" maxLength:"200"`
	Timezone    string `json:"timezone,omitempty" maxLength:"64"`
	CatchUp     string `json:"catch_up,omitempty" enum:"skip,once,all"`
	Overlap     string `json:"overlap,omitempty" enum:"skip,queue,cancel_running"`
	Jitter      string `json:"jitter,omitempty" maxLength:"20"`
	StartWithin string `json:"start_within,omitempty" maxLength:"20"`
	Paused      bool   `json:"paused,omitempty"`
}

// Backfill launches the fires of a past range.
type Backfill struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// WindowSet is a window set with what it opens next.
type WindowSet struct {
	Name        string       `json:"name"`
	Timezone    string       `json:"timezone"`
	Hosts       int          `json:"hosts" doc:"of the inventory that have it"`
	Open        bool         `json:"open"`
	Reason      string       `json:"reason"`
	Next        []Occurrence `json:"next"`
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

// WindowApproval is how a window set, or a rule of it, that needs an approval stands.
type WindowApproval struct {
	Set     string       `json:"set"`
	Rule    string       `json:"rule,omitempty" doc:"of the set; absent for all that has no approval of its own"`
	Hosts   int          `json:"hosts" doc:"of the inventory that have the set"`
	Hash    string       `json:"hash" doc:"what an approval is bound to: any edit of the times changes it"`
	State   string       `json:"state" enum:"approved,proposed,expired,revoked,void" doc:"void: edited after it was approved"`
	Reason  string       `json:"reason,omitempty" doc:"why no approval holds"`
	Waiting []Occurrence `json:"waiting" doc:"occurrences of the next 60 days that no approval covers, at most 10"`
	File    *WindowWord  `json:"file,omitempty" doc:"the approval that stands in the definitions"`
	Given   []WindowWord `json:"given" doc:"what was said at the server, the oldest first"`
}

// WindowWord is an approval of a window, or one that takes approvals back.
type WindowWord struct {
	ID      string    `json:"id,omitempty"`
	Revoked bool      `json:"revoked,omitempty" doc:"it takes back what was approved before it"`
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
	Window  string    `json:"window,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"the hash that was looked at; another one by now is refused"`
	Change  string    `json:"change,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"for this change only, as turnus plan prints it"`
	Targets string    `json:"targets,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"for just these hosts, as turnus plan prints them"`
	Freezes []string  `json:"freezes,omitempty" maxItems:"20" doc:"freezes of the caller's own that it lifts"`
	Ticket  string    `json:"ticket,omitempty" maxLength:"100" pattern:"^[A-Za-z0-9][A-Za-z0-9._/-]*$" doc:"where it was decided, as CHG0042"`
	Reason  string    `json:"reason,omitempty" maxLength:"1000"`
}

// RevokeWindow takes back what was approved of a window set, or of a rule of it.
type RevokeWindow struct {
	Rule   string `json:"rule,omitempty" maxLength:"100"`
	Ticket string `json:"ticket,omitempty" maxLength:"100" pattern:"^[A-Za-z0-9][A-Za-z0-9._/-]*$"`
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// Host is a managed machine as the inventory has it, without its secrets' names.
type Host struct {
	Name      string            `json:"name"`
	Address   string            `json:"address,omitempty"`
	Customer  string            `json:"customer,omitempty"`
	Site      string            `json:"site,omitempty"`
	Pool      string            `json:"pool,omitempty"`
	HAGroup   string            `json:"ha_group,omitempty"`
	WindowSet string            `json:"window_set,omitempty"`
	Groups    []string          `json:"groups,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// Playbook is a playbook of the definitions.
type Playbook struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Tenant      string    `json:"tenant"`
	File        string    `json:"file"`
	Revision    string    `json:"revision,omitempty"`
	Window      string    `json:"window,omitempty"`
	Schedule    string    `json:"schedule,omitempty" doc:"its cron expression"`
	Steps       []string  `json:"steps"`
	Source      string    `json:"source,omitempty" doc:"in the view of one playbook only"`
	Changed     time.Time `json:"changed,omitzero"`
}

// Worker is a node that works on jobs.
type Worker struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Pool     string    `json:"pool"`
	State    string    `json:"state" enum:"ready,busy,overloaded,cordoned,draining,away"`
	Slots    int       `json:"slots"`
	Running  int       `json:"running"`
	CPU      float64   `json:"cpu" doc:"share of the node's CPU, 0 to 1"`
	Memory   float64   `json:"memory"`
	Started  time.Time `json:"started"`
	Reported time.Time `json:"reported"`
}

// Queue is the state of the whole queue.
type Queue struct {
	Backend  string `json:"backend" enum:"memory,redis"`
	Away     string `json:"away,omitempty" doc:"why it does not answer"`
	Runs     int    `json:"runs"`
	Tenants  int    `json:"tenants"`
	Ready    int    `json:"ready_runs"`
	InFlight int    `json:"in_flight"`
	Timed    int    `json:"timed"`
	Sessions int    `json:"sessions"`
	Oldest   string `json:"oldest_overdue"`
}

// Entry is one line of the audit log.
type Entry struct {
	Seq    int64           `json:"seq"`
	Time   time.Time       `json:"time"`
	Who    string          `json:"who"`
	What   string          `json:"what" doc:"as run.cancel"`
	Tenant string          `json:"tenant"`
	Object string          `json:"object"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Definitions is what the server holds of playbooks, inventory and windows.
type Definitions struct {
	Revision  string    `json:"revision,omitempty"`
	ETag      string    `json:"etag"`
	Source    string    `json:"source" doc:"git, folder or apply"`
	Author    string    `json:"author,omitempty"`
	Subject   string    `json:"subject,omitempty"`
	Applied   time.Time `json:"applied,omitzero"`
	Playbooks int       `json:"playbooks"`
	Hosts     int       `json:"hosts"`
	Windows   int       `json:"window_sets"`
	Schedules int       `json:"schedules"`
	Rejected  *Rejected `json:"rejected,omitempty" doc:"a newer revision that was not taken"`
}

// Rejected is a revision of the definitions that is wrong.
type Rejected struct {
	Revision string    `json:"revision"`
	Author   string    `json:"author,omitempty"`
	Since    time.Time `json:"since"`
	Error    string    `json:"error"`
}

// Token is what is known of a token; the secret itself is told once, when it is made.
type Token struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant" doc:"* is all tenants"`
	Role     string    `json:"role" enum:"viewer,operator,approver,admin"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
	LastUsed time.Time `json:"last_used,omitzero"`
	Secret   string    `json:"secret,omitempty"`
}

// NewToken asks for a token.
type NewToken struct {
	Name    string `json:"name" minLength:"1" maxLength:"100" pattern:"^[A-Za-z0-9][A-Za-z0-9._@+ -]*$" doc:"of the person or pipeline that will have it"`
	Tenant  string `json:"tenant" doc:"* is all tenants" minLength:"1" maxLength:"128"`
	Role    string `json:"role" enum:"viewer,operator,approver,admin"`
	Expires string `json:"expires,omitempty" doc:"a duration as 90d" maxLength:"20"`
}
