package api

import "time"

// Kinds of locks.
const (
	HostLock    = "host"
	HAGroupLock = "ha_group"
)

// Lock is a lock that a job holds, so that others wait.
type Lock struct {
	Lock     string    `json:"lock" enum:"host,ha_group"`
	Name     string    `json:"name" doc:"of the host or HA group"`
	Run      string    `json:"run,omitempty" doc:"absent where the caller may not see the run"`
	Index    int       `json:"index" doc:"of the job in the run"`
	Host     string    `json:"host,omitempty" doc:"of the job: of an HA group it may be another one"`
	Playbook string    `json:"playbook,omitempty"`
	Since    time.Time `json:"since,omitzero" doc:"when a worker leased the job; absent while it is suspended and keeps its locks, or comes next"`
	Kept     bool      `json:"kept,omitempty" doc:"the lock is kept for the job, which comes next"`
}
