package localrun

import "github.com/turnus/turnus/core"

// ShownHost is a host in the output of a command: its durations are seconds.
type ShownHost struct {
	core.Host
	SSH shownSSH `json:"ssh,omitzero"`
}

type shownSSH struct {
	core.SSH
	Timeout core.Seconds `json:"connect_timeout_seconds,omitempty"`
}

// Shown returns hosts as the output of a command has them.
func Shown(hosts []core.Host) []ShownHost {
	out := make([]ShownHost, len(hosts))
	for i, h := range hosts {
		out[i] = ShownHost{h, shownSSH{h.SSH, core.InSeconds(h.SSH.ConnectTimeout)}}
		out[i].SSH.ConnectTimeout = 0 // the queue has it in nanoseconds
	}
	return out
}
