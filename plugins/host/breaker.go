package host

import (
	"math/rand/v2"
	"time"

	"github.com/turnus/turnus/core"
)

const (
	breakerDeaths = 3
	breakerWindow = 60 * time.Minute
)

// restart decides when a plugin whose processes die may be started again: after
// 1 s, then 2 s, and from the third death within the hour calls are refused
// for 2 min at a time. Not safe for concurrent use.
type restart struct {
	backoff core.Backoff
	deaths  []time.Time // within breakerWindow
	until   time.Time
}

func newRestart() restart {
	return restart{backoff: core.Backoff{Interval: time.Second, Max: 2 * time.Minute, Jitter: 0.2}}
}

// died records a death.
func (r *restart) died(now time.Time) {
	r.forget(now)
	r.deaths = append(r.deaths, now)
	n := len(r.deaths) - 1
	if len(r.deaths) >= breakerDeaths {
		r.deaths = r.deaths[len(r.deaths)-breakerDeaths:]
		n = 16 // the whole of Max
	}
	r.until = now.Add(r.backoff.Delay(n, rand.Float64())) //nolint:gosec // spread, no secret
}

func (r *restart) forget(now time.Time) {
	for len(r.deaths) > 0 && now.Sub(r.deaths[0]) > breakerWindow {
		r.deaths = r.deaths[1:]
	}
}

// wait is how long the next start must wait; refuse reports that calls should not wait for it.
func (r *restart) wait(now time.Time) (d time.Duration, refuse bool) {
	r.forget(now)
	d = max(r.until.Sub(now), 0)
	return d, d > 0 && len(r.deaths) >= breakerDeaths
}
