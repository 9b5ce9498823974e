package core

import "fmt"

// Quota bounds what a tenant may hold, so that one tenant cannot take what the others need.
type Quota struct {
	What string // in the plural
	Of   string // whose they are: a tenant, a window set
	Max  int
	Do   string // how the caller makes room
}

// Over is the error for a thing that would exceed the quota of its owner. It wraps ErrQuota.
func (q Quota) Over(owner string) error { return q.Exceeded(owner, q.Max) }

// Exceeded is Over for n things that come together.
func (q Quota) Exceeded(owner string, n int) error {
	return fmt.Errorf("%s has %d %s, and %s may have %d: %s: %w", owner, n, q.What, q.Of, q.Max, q.Do, ErrQuota)
}

// The quotas. docs/api.md lists them; a test holds the two together.
var (
	QuotaSetApprovals = Quota{
		"approvals that count", "a window set", 100,
		"revoke the set and approve it again, or write lasting approvals into the project",
	}
	QuotaRuns      = Quota{"unfinished runs", "a tenant", 10_000, "wait until some have finished, or cancel some with turnus runs cancel"}
	QuotaVars      = Quota{"bytes of vars", "a run", 256 << 10, "put large values into files of the project"}
	QuotaSchedules = Quota{"schedules made at the server", "a tenant", 500, "remove some with turnus schedules rm, or write them into playbooks"}
	QuotaTests     = Quota{"tests of channels that wait", "a tenant", 20, "mend the channel, or wait until they are sent or dead-lettered"}
	QuotaApprovals = Quota{"approvals that count", "a tenant", 300, "revoke those that nobody needs, or write lasting ones into the project"}
)
