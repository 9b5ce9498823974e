package engine

import (
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
)

// Results are the outcomes of a run's jobs, as far as they are recorded.
type Results struct {
	limits  []int
	outcome []core.Outcome // by index
	proven  []int          // hosts whose outcome proves something, by wave
	good    []int          // hosts that succeeded, by wave
	count   int
}

// NewResults returns those of a run of which so much is recorded.
func NewResults(l *launch.Launch, recorded ...queue.FinishedJobs) *Results {
	waves := len(l.Limits)
	r := &Results{limits: l.Limits, outcome: make([]core.Outcome, len(l.Hosts)), proven: make([]int, waves), good: make([]int, waves)}
	for _, s := range recorded {
		r.Add(s)
	}
	return r
}

// Add takes in what was recorded. The first outcome of a job stays.
func (r *Results) Add(s queue.FinishedJobs) {
	for i := s.Index; i < min(s.Index+max(s.Count, 1), len(r.outcome)); i++ {
		if r.outcome[i] != "" {
			continue
		}
		r.outcome[i] = s.Outcome
		r.count++
		wave := rollout.Wave(r.limits, i)
		if s.Outcome.Proves() {
			r.proven[wave]++
		}
		if s.Outcome.Good() {
			r.good[wave]++
		}
	}
}

// Count is how many jobs have an outcome.
func (r *Results) Count() int { return r.count }

// Finished lists them as a queue takes them at a submit.
func (r *Results) Finished() (list []queue.FinishedJobs) {
	for i, o := range r.outcome {
		switch n := len(list); {
		case o == "":
		case n > 0 && list[n-1].Outcome == o && list[n-1].Index+list[n-1].Count == i:
			list[n-1].Count++
		default:
			list = append(list, queue.FinishedJobs{Index: i, Count: 1, Outcome: o})
		}
	}
	return list
}

// Begun returns how many jobs, from the first on, may have begun in a queue that has forgotten
// them: those of released waves that were due. p is the progress that was kept.
func Begun(l *launch.Launch, r *Results, p Progress, now time.Time) (n int) {
	released := max(p.Limit, releasedInOrder(l, r))
	end := 0
	segments := l.Run.Segments
	if len(segments) == 0 {
		segments = []queue.Segment{{Count: len(l.Hosts)}}
	}
	for _, s := range segments {
		from := end
		end = from + s.Count
		if s.Due.After(now) {
			continue
		}
		for i := from; i < min(end, released); i++ {
			if r.outcome[i] == "" {
				n = i + 1
			}
		}
	}
	return n
}

// releasedInOrder is how many jobs are released where each wave waits for all of the one before: of
// a run whose progress has no limit, since it is in its first wave or older than limits are.
func releasedInOrder(l *launch.Launch, r *Results) int {
	first := 0
	for first < len(r.outcome) && r.outcome[first] != "" {
		first++
	}
	return l.Limits[rollout.Wave(l.Limits, first)]
}

// Goes reports whether a run in this phase has jobs started, now or after a resume.
func Goes(p Phase) bool { return p == Queued || p == Active || p == Paused }

// Forgotten returns how many jobs, from the first on, may have begun in a queue that came back
// older, and hold reports that the run must be paused, because they must not be repeated. Jobs in
// flight are known to the queue.
func Forgotten(in *Input) (begun int, hold bool) {
	begun = Begun(in.Launch, in.Results, in.Progress, in.Now)
	open := 0
	for _, o := range in.Results.outcome[:begun] {
		if o == "" {
			open++
		}
	}
	if open <= in.Status.InFlight {
		return 0, false
	}
	return begun, in.Launch.Run.OnLost == queue.LostHold && in.Phase == Active
}

// Older compares the queue's outcomes with the recorded ones: a Redis that restarted from an older
// file has forgotten outcomes, and their jobs run again. In that case begun is how many jobs may
// have begun, from the first on. If hold, the run must be paused, because its jobs must not be
// repeated. Call Older before reading the queue's records.
func Older(in *Input) (p Progress, begun int, hold bool) {
	p = in.Progress
	behind := in.Recorded - in.Status.Ended()
	if behind <= 0 || in.Status.Complete {
		p.Behind = 0
		return p, 0, false
	}
	if behind <= p.Behind { // the same, which somebody may have resumed
		return p, 0, false
	}
	p.Behind = behind
	return p, Begun(in.Launch, in.Results, in.Progress, in.Now), in.Launch.Run.OnLost == queue.LostHold && in.Phase == Active
}
