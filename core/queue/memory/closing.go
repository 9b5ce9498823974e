package memory

import (
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

const (
	closingBatch = 16          // jobs that one turn leases for their cleanup
	closingAgain = time.Second // until a run at MaxInFlight is tried again
)

// owes reports whether a job has to be leased once more if its run ends: it has a cleanup, and a
// worker reported what the host saw.
func (j *job) owes() bool {
	return j.cleanup && (j.closing || j.unheard == "") && queue.Cleans(j.r.reason)
}

// close makes a job of a run that has ended due for its cleanup: immediately, unless that has
// begun.
func (q *Queue) close(j *job, after time.Duration, now time.Time) {
	if j.state == core.Retrying || j.state == core.Suspended {
		q.move(j, core.EvDue)
	}
	if !j.closing {
		after = 0
	}
	j.closing, j.due = true, now.Add(max(after, 0))
	q.closing.push(j)
	if after <= 0 {
		q.signalOne()
	}
}

func closingLess(a, b *job) bool {
	if a.due.Equal(b.due) && a.r != b.r {
		return a.r.seq < b.r.seq
	}
	return jobDueLess(a, b)
}

// closes reports whether a job is due for its cleanup.
func (q *Queue) closes(now time.Time) bool {
	return q.closing.len() > 0 && !q.closing.top().due.After(now)
}

// leaseClosing leases jobs of runs that have ended.
func (q *Queue) leaseClosing(s *session, want int, now time.Time) (leases []queue.Lease) {
	for tried := 0; tried < closingBatch && len(leases) < want && q.closes(now); tried++ {
		j := q.closing.pop()
		r := j.r
		if r.maxInFlight > 0 && r.count.leased >= r.maxInFlight {
			q.close(j, closingAgain, now)
			continue
		}
		if l := q.acquire(j); l != nil {
			q.block(j, l)
			continue
		}
		q.grant(j, s, now)
		leases = append(leases, j.lease())
		q.sync(r)
	}
	return leases
}
