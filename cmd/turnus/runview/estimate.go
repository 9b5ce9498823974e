package runview

import "time"

const (
	estimateSettles = 5 * time.Second  // time constant at which a lower estimate is taken over
	estimateWrong   = 30 * time.Second // an estimate is replaced after it was wrong for so long
)

// pace is the part of a run's state that determines how long the rest takes.
type pace struct {
	total, done, running int
	waiting              int           // hosts that wait for windows
	released             int           // hosts of the waves released so far; 0: the run has no waves
	finished             int           // hosts since the last wave was released
	since                time.Duration // how long ago that was
}

// left returns how long the rest takes at the pace of the last wave. It is 0 where that means
// nothing: before as many hosts finished as run at the same time, when all remaining hosts run
// already, and while later waves hold most of the remaining hosts.
func (p pace) left() time.Duration {
	rest := p.total - p.done - p.waiting
	switch {
	case rest <= p.running, p.finished < max(p.running, 3), p.since < 3*time.Second:
		return 0
	case p.released > 0 && 2*(p.released-p.done) < rest:
		return 0
	}
	return time.Duration(float64(p.since) * float64(rest) / float64(p.finished))
}

// estimate is the time left as people see it. It does not grow, except when it was wrong by half
// for estimateWrong.
type estimate struct {
	left  time.Duration // 0: none yet
	at    time.Time     // of left
	wrong time.Time     // since when left is too low; zero: it is not
}

// update takes in a new measure and returns the time left to show; 0 is unknown.
func (e *estimate) update(now time.Time, measured time.Duration) time.Duration {
	if measured <= 0 {
		return 0
	}
	passed := now.Sub(e.at)
	e.at = now
	if e.left == 0 {
		e.left = measured
		return roundUp(e.left)
	}
	expected := max(e.left-passed, 0)
	switch {
	case measured <= expected:
		e.left = expected - time.Duration(float64(expected-measured)*min(1, passed.Seconds()/estimateSettles.Seconds()))
		e.wrong = time.Time{}
	case measured <= e.left+e.left/2+estimateSettles:
		e.left = min(e.left, measured)
		e.wrong = time.Time{}
	case e.wrong.IsZero():
		e.wrong = now
	case now.Sub(e.wrong) >= estimateWrong:
		e.left, e.wrong = measured, time.Time{}
	}
	return roundUp(e.left)
}

// roundUp rounds as coarsely as the time is long, so that the text changes seldom.
func roundUp(d time.Duration) time.Duration {
	unit := 5 * time.Minute
	switch {
	case d < 2*time.Minute:
		unit = 5 * time.Second
	case d < 10*time.Minute:
		unit = 30 * time.Second
	case d < time.Hour:
		unit = time.Minute
	}
	return max((d + unit - 1).Truncate(unit), unit)
}
