package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Calendar has a lane for each customer and window set, with the events of a range of time.
type Calendar struct {
	At           time.Time       `json:"at" doc:"when it was made; fire times are those from then on"`
	From         time.Time       `json:"from"`
	To           time.Time       `json:"to"`
	Zones        []CalendarZone  `json:"zones" doc:"of the lanes, by name"`
	Lanes        []CalendarLane  `json:"lanes" doc:"by customer and window set. Of more than 200 lanes each one has counts only, and density has the times"`
	LanesLeftOut int             `json:"lanes_left_out,omitempty"`
	Density      []CalendarCount `json:"density,omitempty" doc:"of more than 200 lanes: how many lanes have something in a part of the range"`
}

// CalendarZone is a time zone of lanes.
type CalendarZone struct {
	Name    string        `json:"name"`
	Changes []ClockChange `json:"changes" doc:"clock changes within the range"`
}

// ClockChange is a moment at which clocks are set forward or back.
type ClockChange struct {
	At     time.Time    `json:"at"`
	By     core.Seconds `json:"by_seconds" doc:"more than 0: clocks are set forward"`
	Before string       `json:"before" doc:"local time at which clocks are set"`
	After  string       `json:"after" doc:"local time that they show then"`
}

// CalendarLane is the time of a customer's hosts that have a window set.
type CalendarLane struct {
	Tenant    string             `json:"tenant" doc:"the customer; empty: the provider's"`
	Set       string             `json:"window_set" doc:"empty: work that waits for no window"`
	Timezone  string             `json:"timezone"`
	Hosts     int                `json:"hosts" doc:"of the inventory"`
	Reason    string             `json:"reason,omitempty" doc:"why the whole set is closed"`
	Windows   []CalendarWindow   `json:"windows"`
	Denied    []CalendarDenied   `json:"denied" doc:"freezes, holidays and other denies"`
	FireTimes []CalendarFire     `json:"fire_times" doc:"times at which schedules that are not paused launch runs"`
	Runs      []CalendarRun      `json:"runs" doc:"that are not over, and the next launch of schedules that have a forecast"`
	Conflicts []CalendarConflict `json:"conflicts"`
	Counts    CalendarCount      `json:"counts"`
	LeftOut   int                `json:"left_out,omitempty" doc:"at least so many windows, denials and fire times are not listed"`
}

// CalendarWindow is a time during which a set is open, or would be if somebody approved it.
type CalendarWindow struct {
	Occurrence
	Unapproved string `json:"unapproved,omitempty" doc:"why it is not open after all"`
}

// CalendarDenied is a time during which a set is closed, whatever its windows are.
type CalendarDenied struct {
	Kind      string    `json:"kind" enum:"freeze,holidays,rule"`
	Name      string    `json:"name"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	FromLocal string    `json:"from_local"`
	ToLocal   string    `json:"to_local"`
	Cancels   bool      `json:"cancels,omitempty" doc:"windows that it touches do not open at all"`
	Owner     string    `json:"owner,omitempty"`
	Reason    string    `json:"reason,omitempty"`
}

// CalendarFire is a time at which a schedule launches a run.
type CalendarFire struct {
	Schedule string    `json:"schedule" doc:"TENANT:NAME"`
	Playbook string    `json:"playbook"`
	At       time.Time `json:"at"`
	Local    string    `json:"local" doc:"in the zone of the lane"`
	Open     bool      `json:"open" doc:"its hosts need not wait for a window"`
	Opens    time.Time `json:"opens,omitzero" doc:"where they wait: the next window in the range"`
}

// CalendarRun is the part that a run, or a launch that is planned, has in a lane.
type CalendarRun struct {
	Run        string    `json:"run,omitempty" doc:"absent of a launch that is planned"`
	Schedule   string    `json:"schedule,omitempty" doc:"that launches it"`
	Playbook   string    `json:"playbook"`
	Phase      Phase     `json:"phase,omitempty" doc:"absent of a launch that is planned"`
	Hosts      int       `json:"hosts" doc:"that have not ended; without a forecast, of the whole run"`
	Begin      time.Time `json:"begin" doc:"of its first host, P50; without a forecast, when it was created"`
	BeginLocal string    `json:"begin_local"`
	FinishP50  time.Time `json:"finish_p50,omitzero" doc:"of its last host; absent where there is no forecast"`
	FinishP90  time.Time `json:"finish_p90,omitzero"`
	LateLocal  string    `json:"finish_p90_local,omitempty"`
}

// CalendarConflict is an event that somebody should check before it happens.
type CalendarConflict struct {
	Kind  string    `json:"kind" enum:"closed,frozen,unapproved,overrun,overlap"`
	At    time.Time `json:"at"`
	Local string    `json:"local"`
	Text  string    `json:"text"`
}

// CalendarCount counts what a lane has, or the lanes that have something in a part of the range.
type CalendarCount struct {
	From       time.Time `json:"from,omitzero" doc:"of the part of the range"`
	To         time.Time `json:"to,omitzero"`
	Open       int       `json:"open" doc:"approved windows"`
	Unapproved int       `json:"unapproved"`
	Denied     int       `json:"denied"`
	FireTimes  int       `json:"fire_times"`
	Runs       int       `json:"runs"`
	Conflicts  int       `json:"conflicts"`
}

// CalendarFeed is a secret address at which calendar programs read windows and freezes.
type CalendarFeed struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Tenant    string    `json:"tenant" doc:"whose lanes it shows; * is all tenants"`
	CreatedBy string    `json:"created_by"`
	Created   time.Time `json:"created"`
	LastUsed  time.Time `json:"last_used,omitzero" doc:"within five minutes"`
	Path      string    `json:"path,omitempty" doc:"of the address at this server, with the secret; shown once, when the feed is made"`
}

// NewCalendarFeed asks for a calendar feed.
type NewCalendarFeed struct {
	Name   string `json:"name" minLength:"1" maxLength:"100" pattern:"^[A-Za-z0-9][A-Za-z0-9._@+ -]*$" doc:"of the person or program that will have it"`
	Tenant string `json:"tenant,omitempty" maxLength:"128" doc:"of a token of all tenants: the customer whose lanes it shows; without it, those of the token at hand"`
}
