package api

import "github.com/turnus/turnus/core"

// Share has the hosts of a tenant that run, and those that wait.
type Share struct {
	Tenant  string       `json:"tenant"`
	Weight  int          `json:"weight" doc:"tenant_weights of the project"`
	Runs    int          `json:"runs" doc:"in the queue, not complete"`
	Running int          `json:"running" doc:"hosts"`
	Due     int          `json:"due" doc:"hosts that wait for a worker or a lock"`
	Waiting int          `json:"waiting" doc:"all hosts that wait, those of later waves and windows included"`
	Oldest  core.Seconds `json:"oldest_overdue_seconds" doc:"how long the run that has waited longest could have gone on"`
	Before  int          `json:"before" doc:"other tenants whose hosts start before those of this one"`
	// Fair and Use are for tokens of all tenants.
	Fair float64 `json:"fair,omitempty" doc:"running hosts if all tenants shared the workers by weight; absent where it is 0, and for tokens of one tenant"`
	Use  float64 `json:"use,omitempty" doc:"its part of all running hosts, 0 to 1; absent where it is 0, and for tokens of one tenant"`
}
