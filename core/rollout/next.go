package rollout

import "time"

// Action is the next action in a run.
type Action string

// The actions.
const (
	Wait    Action = "wait"    // nothing: the wave is not done, or the run is paused; check again at Decision.Until
	Release Action = "release" // release Decision.Wave
	Ask     Action = "ask"     // ask an operator to approve Decision.Wave
	Delay   Action = "delay"   // wait until Decision.Until, then check again
	Stop    Action = "stop"    // stop the run: no host of the last released wave succeeded
)

// Progress is the known state of a run when its next action is decided.
type Progress struct {
	Released int // hosts released so far: the queue's limit
	Passed   int // of them, those released before the last barrier
	Finished int // jobs with an outcome
	Deferred int // released hosts without one that wait for a time when they may start
	Proven   int // hosts of the last released wave on which the steps were tried
	// Succeeded counts the hosts of the last released wave that succeeded, or reached a barrier.
	Succeeded int
	Held      bool      // paused, stopped or cancelled: nothing may be released
	Reached   int       // hosts that were ever released, also by a queue that was lost since
	Approved  int       // highest wave, from 0, that an operator approved
	Began     time.Time // when the last wave was released
	Done      time.Time // when WaveDone was first seen; zero if it is not so
	Now       time.Time
}

// Decision is the next action.
type Decision struct {
	Action Action
	Wave   int       // of Release and Ask the next one, of Stop the one that failed, from 0
	Limit  int       // of Release: hosts to release in all
	Until  time.Time // of Delay; of Wait, if time alone may end it
}

// WaveDone reports whether the released waves are done: every host has its outcome. It does not
// wait for a host that waits for its window, unless the strategy has WaitForWindows, once
// another host of the wave has proved the change and the wave cannot fail any more. Nor does it
// wait for the stragglers that NextWaveAt leaves behind.
func (p Progress) WaveDone(s Strategy) bool {
	if p.Finished >= p.Released {
		return true
	}
	if !p.shown(s) {
		return false
	}
	finished := p.Finished - p.Passed
	if !s.WaitForWindows {
		finished += p.Deferred
	}
	return finished >= s.NextWaveAt.Hosts(p.Released-p.Passed) || s.NextWaveAt.After > 0 && !p.Now.Before(p.late(s))
}

// shown reports whether the wave has shown what comes of it, and cannot fail any more.
func (p Progress) shown(s Strategy) bool { return p.Proven > 0 && !p.failed(s) }

// late is when NextWaveAt stops waiting for stragglers.
func (p Progress) late(s Strategy) time.Time { return p.Began.Add(s.NextWaveAt.After) }

// failed reports whether no host of the wave has succeeded, and that matters.
func (p Progress) failed(s Strategy) bool { return p.Succeeded == 0 && s.OnFailedWave != ContinueRun }

// Next decides what follows. limits are what Limits returned.
func Next(limits []int, s Strategy, p Progress) Decision {
	wave := nextWave(limits, p.Released)
	if p.Held || wave == len(limits) {
		return Decision{Action: Wait}
	}
	if !p.WaveDone(s) {
		if s.NextWaveAt.After > 0 && p.shown(s) {
			return Decision{Action: Wait, Until: p.late(s)}
		}
		return Decision{Action: Wait}
	}
	if wave > 0 && limits[wave-1] == p.Released && p.failed(s) { //nolint:gosec // nextWave returns at most len(limits)
		return Decision{Action: Stop, Wave: wave - 1}
	}
	pause := s.PauseBetween
	if pause.Approve && p.Approved < wave {
		return Decision{Action: Ask, Wave: wave}
	}
	again := limits[wave] <= p.Reached // the pause before it was waited out
	if until := p.Done.Add(pause.For); pause.For > 0 && !again && p.Now.Before(until) {
		return Decision{Action: Delay, Wave: wave, Until: until}
	}
	return Decision{Action: Release, Wave: wave, Limit: limits[wave]}
}

// nextWave is the first wave that is not wholly released.
func nextWave(limits []int, released int) int {
	for k, limit := range limits {
		if limit > released {
			return k
		}
	}
	return len(limits)
}
