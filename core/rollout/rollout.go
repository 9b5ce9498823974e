// Package rollout owns the pure decisions of a careful rollout: how waves cut a
// target list, how sizes resolve, the order of hosts, and what follows when a wave
// is done. It does no I/O and must not know queues or playbook files.
package rollout

import "time"

// Strategy is how carefully a run goes.
type Strategy struct {
	Waves           []Size         `json:"waves,omitempty"`
	MaxInFlight     Size           `json:"max_in_flight,omitzero"`
	StopAfter       Size           `json:"stop_after,omitzero"`
	StopUnreachable Size           `json:"stop_unreachable,omitzero"`
	PauseBetween    Pause          `json:"pause_between,omitzero"`
	PerGroup        map[string]int `json:"per_group,omitempty"` // "ha_group", "site", "customer", "pool", or "label:NAME": hosts of one group at the same time
	// WaitForWindows makes a wave wait for its hosts that wait for their maintenance windows.
	WaitForWindows bool `json:"wait_for_windows,omitempty"`
	// OnFailedWave selects what follows a wave of which no host succeeded: StopRun when not given.
	OnFailedWave string `json:"on_failed_wave,omitempty"`
	// NextWaveAt begins a wave before all released hosts have finished; the zero value does not.
	NextWaveAt NextWave `json:"next_wave_at,omitzero"`
}

// The values of OnFailedWave.
const (
	StopRun     = "stop"
	ContinueRun = "continue"
)

// NextWave defines when the next wave begins although released hosts have not finished yet. At most
// one of its fields is set.
type NextWave struct {
	Finished float64       `json:"finished,omitempty"` // percent of the released hosts that have finished
	After    time.Duration `json:"after_ns,omitempty"` // time since the last wave was released
}

// Hosts returns how many of the released hosts must have finished, or wait for a window that no
// wave waits for.
func (n NextWave) Hosts(released int) int {
	if n.Finished == 0 {
		return released
	}
	return Size{Percent: n.Finished}.Of(released)
}

// String writes the value as in a playbook, and "" for the zero value.
func (n NextWave) String() string {
	if n.After > 0 {
		return n.After.String()
	}
	return Size{Percent: n.Finished}.String()
}

// Pause is the pause between waves.
type Pause struct {
	Approve bool          `json:"approve,omitempty"` // an operator must approve it
	For     time.Duration `json:"for_ns,omitempty"`  // or wait so long
}

// Limits resolves waves to cumulative counts of hosts: "[1, 5%, 100%]" over 200
// hosts is 1, 10, 200. The last is always the total, no limit is below the one
// before it, and a wave that would add no host is left out. Without hosts there
// are no waves.
func Limits(waves []Size, total int) []int {
	if total <= 0 {
		return nil
	}
	var limits []int
	last := 0
	for _, w := range waves {
		if n := w.Of(total); n > last {
			limits = append(limits, n)
			last = n
		}
	}
	if last < total {
		limits = append(limits, total)
	}
	return limits
}

// Wave is the wave, from 0, that holds the host at index.
func Wave(limits []int, index int) int {
	for k, limit := range limits {
		if index < limit {
			return k
		}
	}
	return max(len(limits)-1, 0)
}
