package api

import "time"

// HostFacts are the newest facts of a host.
type HostFacts struct {
	Host   string         `json:"host"`
	Tenant string         `json:"tenant,omitempty" doc:"of the host"`
	Facts  map[string]any `json:"facts" doc:"as the job type facts has them as outputs"`
	At     time.Time      `json:"at" doc:"when they were gathered"`
	Run    string         `json:"run" doc:"that gathered them"`
	// Booted is that the host was seen with another boot id since.
	Booted bool `json:"booted,omitempty" doc:"the host has booted since: targets do not count these facts"`
}
