package snapshot

import (
	"sort"
)

// Turns are the barriers of a run at which its jobs wait for each other, in the snapshot. Barrier 0
// is before the first step: a host waits there for the hosts that it comes after. Barrier n is
// before the step of Barriers[n-1], for every host. A queue.Turn, which leases jobs, is another
// thing.
type Turns struct {
	Barriers []Barrier `json:"barriers,omitempty"` // by step
	Classes  []Class   `json:"classes"`            // by From; together they hold all jobs
}

// Barrier is a step that no host begins before all have done the steps before it.
type Barrier struct {
	Step      int  `json:"step"`                // index in the playbook
	Remaining bool `json:"remaining,omitempty"` // a host that did not end well does not keep it closed
}

// Class is the jobs from From up to the next class: those side by side that are of one wave and
// come after the same jobs.
type Class struct {
	From  int   `json:"from"`
	After []int `json:"after,omitempty"` // indexes of jobs
}

// Class is the one of a job.
func (t *Turns) Class(job int) int {
	return sort.Search(len(t.Classes), func(i int) bool { return t.Classes[i].From > job }) - 1
}

// Barrier returns the last barrier to pass before the step: from 1, or 0 if the step has only the
// one before the first step.
func (t *Turns) Barrier(step int) int {
	n := 0
	for _, b := range t.Barriers {
		if b.Step <= step {
			n++
		}
	}
	return n
}

// Waits reports whether the jobs of a class wait at a barrier at all.
func (t *Turns) Waits(barrier, class int) bool {
	return barrier > 0 || len(t.Classes[class].After) > 0
}
