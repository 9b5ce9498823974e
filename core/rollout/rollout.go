// Package rollout owns the pure decisions of a careful rollout: how waves cut a
// target list, how sizes resolve, the order of hosts, and what follows when a wave
// is done. It does no I/O and must not know queues or playbook files.
package rollout

import "time"

// Size is a count of hosts or a share of all: "5", "5%".
type Size struct {
	Count   int
	Percent float64 // used when Count is 0
}

// Strategy is how carefully a run goes.
type Strategy struct {
	Waves           []Size
	MaxInFlight     Size
	StopAfter       Size
	StopUnreachable Size
	PauseBetween    Pause
	PerGroup        map[string]int // "ha_group", "site", "customer", or "label:NAME": hosts of one group at once
}

// Pause is what happens between waves.
type Pause struct {
	Approve bool          // an operator must say go
	For     time.Duration // or wait so long
}
