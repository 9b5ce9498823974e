// Package forecast owns the estimate of when a run's hosts start and when it ends: an event-driven
// simulation of hosts, windows, concurrency, waves and groups over plain values, repeated with
// durations drawn from their known distribution. It also owns the calendar: what may happen when,
// by customer and window set.
//
// It must not know playbooks, queues, files or the clock: the caller passes all of it. It does not
// draw calendars.
package forecast

import (
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/windows"
)

// Bounds of a forecast.
const (
	DefaultSamples = 200
	MaxSamples     = 10_000
)

// Input is a run to be forecast.
type Input struct {
	At    time.Time // when it is launched
	Hosts []Host    // in the order of the run; waves do not decrease
	// Concurrency is how many jobs all workers together run at the same time; 0: no limit.
	Concurrency int
	MaxInFlight int           // of the run; 0: no limit
	PerGroup    int           // jobs of one Host.Group at the same time; 0: no limit
	HAGroups    bool          // no two jobs of one Host.HAGroup at the same time
	Pause       time.Duration // between waves; an approval between waves is the caller's to mention
	// WaitForWindows keeps a wave open until also its hosts that wait for a window are done.
	WaitForWindows bool
	NextWaveAt     rollout.NextWave // which stragglers of a wave the next one does not wait for
	Ended          []EndedHosts     // by wave, of a run under way; shorter: no host of the later waves
	Samples        int              // DefaultSamples when 0
	Seed           uint64           // the same seed gives the same forecast
}

// EndedHosts are the hosts of a wave that ended before Input.At, and are not in Input.Hosts.
type EndedHosts struct {
	Hosts int  // with those of waves before it that are all ended
	Begun bool // the wave was released: one of them was given to a worker
	// Proven: they show what comes of the wave. The next one waits neither for hosts that wait for a
	// window nor for stragglers.
	Proven bool
}

// Host is one job of the run.
type Host struct {
	Name    string
	HAGroup string
	Group   string // of PerGroup; "": in none
	Wave    int    // from 0
	Windows *windows.Compiled
	Work    *Work // shared by all hosts that do the same
	// Never is why this host cannot start at all, where the caller knows it already.
	Never string
}

// Work is the work of a job, in stages. Between two stages it may wait, holding nothing.
type Work struct{ Stages []Stage }

// Stage is a stretch of steps that is not interrupted.
type Stage struct {
	// Windowed: it starts only in a window of the host in which Need fits. Otherwise at any time.
	Windowed bool
	Windows  *windows.Compiled // instead of the host's
	Need     time.Duration     // p95, reboot and rollback included
	Steps    []Step
}

// Step is how long one step takes.
type Step struct {
	Took     Dist
	Attempts int     // at most; 0 is 1
	Fails    float64 // share of attempts that are followed by another one
	Backoff  core.Backoff
}

// Result is a forecast. All times of hosts are estimates but Earliest.
type Result struct {
	Hosts   []HostResult // as Input.Hosts
	Samples int
	// When the last host that finishes is done, without those of Unfinished; zero if none finishes.
	FinishP50, FinishP90 time.Time
	Binding              Constraint
	Tried                []Constraint // every limit that was lifted, the one that gains most first
	Missed               float64      // hosts that miss a window they waited for, in the mean
	Unfinished           float64      // hosts that start in no window of the horizon any more, or need a new approval first; in the mean
}

// HostResult is one host's part.
type HostResult struct {
	// Earliest is when its windows let it start, were it alone; of the first stage with a window, if
	// it has one.
	Earliest   time.Time
	Begin      time.Time // first step, P50
	Start      time.Time // of the first stage with a window, P50; Begin if it has none
	Finish     time.Time // P50
	Late       time.Time // finish, P90
	Holds      []Hold    // what it waits for until it begins or continues, in the median sample; the longest first
	Runs       []Span    // when it works, in the median sample
	Misses     float64   // windows it misses, in the mean
	Unfinished float64   // share of samples in which it finds no window any more or needs a new approval
	Never      string    // why it cannot start at all; all else but Holds is zero
}

// Span is [From, To).
type Span struct{ From, To time.Time }

// Cause is the reason for which a host waits.
type Cause string

// The causes for which a run can wait.
const (
	ByWork        Cause = "work"          // only the work itself
	ByWindows     Cause = "windows"       // of a set
	ByApproval    Cause = "approval"      // of a set: windows that are not approved
	ByConcurrency Cause = "concurrency"   // of the workers
	ByInFlight    Cause = "max_in_flight" // of the run
	ByGroup       Cause = "per_group"     // of a group
	ByHAGroup     Cause = "ha_group"      // of an HA group
	ByWaves       Cause = "waves"         // an earlier wave is not done
	ByPause       Cause = "pause"         // between waves
	ByBarrier     Cause = "barrier"       // until all hosts have done the steps before
)

// Hold is a wait.
type Hold struct {
	Cause Cause
	Name  string // of the set or group; "": none, or several
	For   time.Duration
}

// Constraint is a limit, and what would be done, or how much earlier the run would be, without it.
type Constraint struct {
	Cause Cause
	Name  string
	Gain  time.Duration // of FinishP50, by simulating without it; 0 if more or fewer hosts finish then
	Hosts int           // that finish without it, and otherwise do not, at P50
}

// Make forecasts the run. Errors wrap core.ErrInvalid.
func Make(in Input) (*Result, error) {
	m, err := newModel(in)
	if err != nil {
		return nil, err
	}
	r := &Result{Hosts: make([]HostResult, len(in.Hosts)), Samples: m.samples}
	m.impossible(r.Hosts)
	if !slices.ContainsFunc(m.hosts, func(h host) bool { return !h.never }) {
		r.Binding = Constraint{Cause: ByWindows}
		return r, nil
	}
	obs := m.observe(limitsOf(in))
	obs.summarise(r)
	s := newSim(m, limitsOf(in))
	m.draw(s.took, uint64(obs.median()))
	s.run(true)
	s.describe(r.Hosts)
	r.Binding, r.Tried = m.binding(in, s, obs)
	return r, nil
}
