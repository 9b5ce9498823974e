package api

import "time"

// Schedule launches runs again and again by cron, or once at a time.
type Schedule struct {
	Name     string `json:"name"`
	Tenant   string `json:"tenant"`
	Playbook string `json:"playbook"`
	LaunchOptions
	LeftOut     []string  `json:"left_out,omitempty" doc:"options that a tenant does not see of a schedule that a person of all tenants made: limit, and vars.NAME where the name marks a secret"`
	Cron        string    `json:"cron" doc:"empty for one with a single fire time"`
	At          time.Time `json:"at,omitzero" doc:"of one with a single fire time"`
	Sentence    string    `json:"sentence" doc:"its fire times, in words"`
	Pinned      bool      `json:"pinned,omitempty" doc:"it launches the project and its hosts as they were when it was made, not as they are then"`
	Revision    string    `json:"revision,omitempty" doc:"commit that is pinned"`
	Timezone    string    `json:"timezone"`
	CatchUp     string    `json:"catch_up"`
	Overlap     string    `json:"overlap"`
	Jitter      string    `json:"jitter,omitempty"`
	StartWithin string    `json:"start_within,omitempty"`
	Managed     bool      `json:"managed" doc:"it is in the project, and is changed there"`
	Damaged     string    `json:"damaged,omitempty" doc:"why it cannot be read from the ledger, and what to do; it launches nothing, and other fields may be empty"`
	Paused      bool      `json:"paused"`
	PauseReason string    `json:"pause_reason,omitempty"`
	Next        time.Time `json:"next,omitzero"`
	NextLocal   string    `json:"next_local,omitempty"`
	Triggers    int64     `json:"triggers" doc:"launched so far"`
	LastRun     string    `json:"last_run,omitempty"`
	LastTrigger time.Time `json:"last_fire,omitzero"`
	LastSkip    string    `json:"last_skip,omitempty" doc:"why the last skipped fire time was skipped"`
	LastSkipAt  time.Time `json:"last_skip_at,omitzero" doc:"the fire time that was skipped"`
	// Upcoming is not in lists.
	Upcoming []FireTime `json:"upcoming,omitempty" doc:"the next 5 fire times of a schedule that is not paused; in the view of one schedule"`
	ETag     string     `json:"etag"`
}

// FireTime is a time at which a schedule launches a run.
type FireTime struct {
	At    time.Time `json:"at"`
	Local string    `json:"local" doc:"in the zone of the schedule"`
}

// NewSchedule makes or replaces a schedule of a playbook that the definitions hold.
type NewSchedule struct {
	Playbook string `json:"playbook" minLength:"1" maxLength:"200"`
	LaunchOptions
	Cron        string    `json:"cron,omitempty" maxLength:"200" doc:"either this or at"`
	At          time.Time `json:"at,omitzero" doc:"trigger once, then; it must lie ahead. The schedule is kept for 30 days after that"`
	Pin         bool      `json:"pin,omitempty" doc:"with at: launch the project and its hosts, also those of sources, as they are now; windows, approvals and secrets are those of then"`
	Timezone    string    `json:"timezone,omitempty" maxLength:"64"`
	CatchUp     string    `json:"catch_up,omitempty" enum:"skip,once,all" doc:"skip by default; once by default with at"`
	Overlap     string    `json:"overlap,omitempty" enum:"skip,queue,cancel_running"`
	Jitter      string    `json:"jitter,omitempty" maxLength:"20"`
	StartWithin string    `json:"start_within,omitempty" maxLength:"20"`
	Paused      bool      `json:"paused,omitempty"`
}

// Backfill launches the fire times of a past range.
type Backfill struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Reason string    `json:"reason,omitempty" maxLength:"1000" doc:"for the audit log"`
	DryRun bool      `json:"dry_run,omitempty" doc:"only count: nothing is launched"`
}

// Launched is the run that a trigger launches.
type Launched struct {
	Run string `json:"run" doc:"it may be accepted a moment later"`
}

// Backfilled is how many fire times a backfill launches.
type Backfilled struct {
	Triggers int `json:"triggers" doc:"in the range; of a dry run, those that it would launch"`
	Before   int `json:"launched_before,omitempty" doc:"of a dry run: fire times of the range that have a run, and are not repeated"`
}
