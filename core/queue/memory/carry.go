package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Remains is the state of a queue when it was stopped as intended, beside the recorded outcomes of
// its runs. A queue that gets it continues there; without it jobs that had begun would begin again.
type Remains struct {
	// Runs are those that are not complete and of which no job was running. Of any other run nobody
	// knows what its hosts saw.
	Runs []string `json:"runs"`
	Jobs []Begun  `json:"jobs"`
}

// Begun is a job that was leased before, and has not ended.
type Begun struct {
	Job      core.JobID `json:"job"`
	Attempts int        `json:"attempts,omitempty"` // made
	Crashes  int        `json:"crashes,omitempty"`
	State    []byte     `json:"state,omitempty"`
	Due      time.Time  `json:"due,omitzero"` // zero: immediately, or with the event alone
	Event    string     `json:"event,omitempty"`
	Locks    bool       `json:"locks,omitempty"`   // it keeps them
	Cleanup  bool       `json:"cleanup,omitempty"` // it is leased once more if its run ends
	Unheard  string     `json:"unheard,omitempty"` // the node that crashed with it, and no worker has reported since what the host saw
}

// Remains returns the jobs and states to continue from: call it when no node works any more. It
// includes the part of New's Remains that no Submit has taken. The order is that of runs and jobs.
func (q *Queue) Remains() Remains {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out Remains
	for id, r := range q.runs {
		if r.complete || r.count.leased > 0 {
			continue
		}
		out.Runs = append(out.Runs, id)
		for _, j := range r.jobs {
			b := Begun{Job: j.id(), Attempts: j.attempts, Crashes: j.crashes, State: j.data, Event: j.event, Locks: j.keeps, Cleanup: j.cleanup, Unheard: j.unheard}
			if j.state == core.Suspended || j.state == core.Retrying {
				b.Due = j.due
			}
			out.Jobs = append(out.Jobs, b)
		}
	}
	for id, jobs := range q.carried {
		out.Runs = append(out.Runs, id)
		out.Jobs = append(out.Jobs, jobs...)
	}
	slices.Sort(out.Runs)
	slices.SortFunc(out.Jobs, func(a, b Begun) int {
		return cmp.Or(cmp.Compare(a.Job.Run, b.Job.Run), cmp.Compare(a.Job.Index, b.Job.Index))
	})
	return out
}

// carriedBy sorts what remains by run.
func carriedBy(rest Remains) map[string][]Begun {
	all := map[string][]Begun{}
	for _, id := range rest.Runs {
		all[id] = nil
	}
	for id, jobs := range byRun(rest.Jobs) {
		if _, whole := all[id]; whole {
			all[id] = jobs
		}
	}
	return all
}

func byRun(jobs []Begun) map[string][]Begun {
	all := map[string][]Begun{}
	for _, b := range jobs {
		all[b.Job.Run] = append(all[b.Job.Run], b)
	}
	return all
}

// begun takes out what remained of the run that is submitted: its jobs that are not finished, by
// index.
func (q *Queue) begun(spec *queue.Run) []Begun {
	jobs, whole := q.carried[spec.ID]
	if !whole {
		jobs = q.suspended[spec.ID]
	}
	delete(q.carried, spec.ID)
	delete(q.suspended, spec.ID)
	slices.SortFunc(jobs, func(a, b Begun) int { return cmp.Compare(a.Job.Index, b.Job.Index) })
	jobs = slices.CompactFunc(jobs, func(a, b Begun) bool { return a.Job.Index == b.Job.Index })
	return slices.DeleteFunc(jobs, func(b Begun) bool {
		i, found := slices.BinarySearchFunc(spec.FinishedJobs, b.Job.Index, func(s queue.FinishedJobs, index int) int { return cmp.Compare(s.Index, index) })
		finished := found || i > 0 && b.Job.Index < spec.FinishedJobs[i-1].Index+spec.FinishedJobs[i-1].Count
		return finished || b.Job.Index < 0 || b.Job.Index >= len(spec.Targets)
	})
}

// apart is the run with the jobs that have begun counted among the finished ones: the others are
// targets without a state.
func apart(spec queue.Run, jobs []Begun) queue.Run {
	if len(jobs) == 0 {
		return spec
	}
	spec.FinishedJobs = slices.Clone(spec.FinishedJobs)
	for _, b := range jobs {
		spec.FinishedJobs = append(spec.FinishedJobs, queue.FinishedJobs{Index: b.Job.Index, Count: 1})
	}
	slices.SortFunc(spec.FinishedJobs, func(a, b queue.FinishedJobs) int { return cmp.Compare(a.Index, b.Index) })
	return spec
}

// resume puts jobs that have begun where they were: each waits for its time or event, at the latest
// until now.
func (q *Queue) resume(r *run, jobs []Begun, now time.Time) {
	for _, b := range jobs {
		j := q.newJob(r, b.Job.Index)
		j.state, j.attempts, j.crashes, j.data, j.unheard, j.cleanup = core.Suspended, b.Attempts, b.Crashes, b.State, b.Unheard, b.Cleanup
		r.jobs[j.index] = j
		r.count.suspended++
		if b.Locks {
			j.keeps = q.acquire(j) == nil
		}
		if !b.Due.IsZero() && !b.Due.After(now) {
			b.Event = "" // its time came meanwhile
		}
		q.await(j, b.Event, b.Due.Sub(now), now)
	}
}
