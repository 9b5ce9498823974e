package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Share has the hosts of a tenant that run, and those that wait.
type Share struct {
	Tenant  string       `json:"tenant"`
	Weight  int          `json:"weight" doc:"tenant_weights of the project"`
	Runs    int          `json:"runs" doc:"in the queue, not complete"`
	Running int          `json:"running" doc:"hosts"`
	Due     int          `json:"due" doc:"hosts that wait for a worker or a lock"`
	Waiting int          `json:"waiting" doc:"all hosts that wait, those of later waves and windows included"`
	Oldest  core.Seconds `json:"oldest_overdue_seconds" doc:"how long the run that has waited longest could have continued"`
	Before  int          `json:"before" doc:"other tenants whose hosts start before those of this one"`
	// Fair and Use are for tokens of all tenants.
	Fair float64 `json:"fair,omitempty" doc:"running hosts if all tenants shared the workers by weight; absent where it is 0, and for tokens of one tenant"`
	Use  float64 `json:"use,omitempty" doc:"its part of all running hosts, 0 to 1; absent where it is 0, and for tokens of one tenant"`
}

// ShareHistory is the worker time that tenants used, hour by hour.
type ShareHistory struct {
	From    time.Time     `json:"from" doc:"begin of the first hour"`
	At      time.Time     `json:"at" doc:"when it was read: the last hour continues"`
	Tenants []TenantHours `json:"tenants" doc:"the most worker time first; at most 200"`
	LeftOut int           `json:"left_out,omitempty" doc:"further tenants"`
	Partial bool          `json:"partial,omitempty" doc:"more than 2 million host tasks would have to be read: the oldest runs are left out"`
}

// TenantHours is the worker time of one tenant's runs.
type TenantHours struct {
	Tenant string       `json:"tenant"`
	Weight int          `json:"weight" doc:"tenant_weights of the present project"`
	Hosts  int          `json:"hosts" doc:"host tasks that ended"`
	Used   core.Seconds `json:"used_seconds" doc:"worker time of these"`
	Fair   core.Seconds `json:"fair_seconds" doc:"the sum of the hours"`
	Hours  []HourShare  `json:"hours" doc:"24, the oldest first"`
}

// HourShare is the worker time of host tasks that ended in one hour.
type HourShare struct {
	Used core.Seconds `json:"used_seconds"`
	Fair core.Seconds `json:"fair_seconds" doc:"the time of all tenants shared by weight among those that used any; 0 for the others"`
}
