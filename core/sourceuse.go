package core

import "time"

// SourceUse is the generation of a source of hosts that a run was launched with.
type SourceUse struct {
	Source     string    `json:"source"`
	Generation string    `json:"generation"`      // id of its content, sha256:HEX
	Good       time.Time `json:"good"`            // when the source last gave it
	Hosts      int       `json:"hosts,omitempty"` // of the run; 0: only on or hosts('…') give some
}

// Age is how old the generation was at a time. It is 0 if the source gave it later, by a clock that
// differs.
func (u *SourceUse) Age(at time.Time) time.Duration { return max(at.Sub(u.Good), 0) }
