package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Turn reaps, acknowledges, activates and leases in one atomic step.
func (q *Queue) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	if err := ctx.Err(); err != nil {
		return queue.TurnResult{}, err
	}
	if err := t.Validate(); err != nil {
		return queue.TurnResult{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	s, err := q.session(t.Session, now)
	if err != nil {
		return queue.TurnResult{}, err
	}
	q.keepAlive(s, now)
	q.forget(now)
	q.stats.Turns++

	more := !q.reap(now, reapBatch)
	res := queue.TurnResult{Now: now}
	for i := range t.Acks {
		if !q.ack(s, &t.Acks[i], now) {
			res.Stale = append(res.Stale, t.Acks[i].Job)
			q.stats.StaleAcks++
		}
	}
	more = !q.activate(now, activateBatch) || more
	more = !q.sweep(sweepBatch) || more
	held := now.Before(q.heldUntil)
	if !held {
		res.Leases = q.lease(s, t.Want, now)
	}
	res.Stop = s.stopList()
	if q.timed.len() > 0 {
		res.Next = q.timed.top().nextDue
	}
	if len(res.Leases)+len(t.Acks) == 0 {
		q.stats.EmptyTurns++
	}
	if held && (res.Next.IsZero() || q.heldUntil.Before(res.Next)) {
		res.Next = q.heldUntil
	}
	if q.closing.len() > 0 && (res.Next.IsZero() || q.closing.top().due.Before(res.Next)) {
		res.Next = q.closing.top().due
	}
	if (q.ready.len() > 0 || q.closes(now)) && !held {
		more = true
		q.signalOne() // chain: a node that leased less than all signals the next one
	}
	res.More = more
	q.arm()
	return res, nil
}

// lease takes up to want jobs by rank, trying a bounded number that turn out to be blocked.
func (q *Queue) lease(s *session, want int, now time.Time) []queue.Lease {
	leases := q.leaseClosing(s, want, now)
	for blocked := 0; len(leases) < want && q.ready.len() > 0 && blocked < blockBatch; {
		t := q.ready.top()
		r := t.flows.top()
		j := q.take(r)
		if l := q.acquire(j); l != nil {
			q.block(j, l)
			blocked++
			q.sync(r)
			continue
		}
		if leases == nil {
			leases = make([]queue.Lease, 0, min(want, r.ready.len()+r.left+64))
		}
		q.v, t.v = t.tag, r.tag
		q.grant(j, s, now)
		leases = append(leases, j.lease())
		q.sync(r)
	}
	return leases
}

// take gives the flow's lowest ready job, those that were tried before first.
func (q *Queue) take(r *run) *job {
	if r.ready.len() > 0 {
		return r.ready.pop()
	}
	sp := &r.fresh.items[0]
	j := q.newJob(r, sp.lo)
	sp.lo++
	if sp.lo == sp.hi {
		r.fresh.pop()
	}
	r.left--
	r.jobs[j.index] = j
	return j
}

func (q *Queue) newJob(r *run, index int) *job {
	var j *job
	if last := len(q.freeJobs) - 1; last >= 0 {
		j = q.freeJobs[last]
		q.freeJobs = q.freeJobs[:last]
		*j = job{}
	} else {
		j = new(job)
	}
	j.r, j.index, j.state, j.place = r, index, core.Pending, -1
	return j
}

func (q *Queue) grant(j *job, s *session, now time.Time) {
	q.move(j, core.EvLease)
	j.token, j.leasedAt, j.blockSeq, j.saved = q.nextToken(now), now, 0, 0
	j.r.tenant.inFlight++
	q.inFlight++
	s.add(j)
}

func (j *job) lease() queue.Lease {
	t := j.target()
	l := queue.Lease{Job: j.id(), Host: t.Host, Data: t.Data, Token: j.token, Attempt: j.attempts + 1, State: j.data}
	if j.closing {
		l.Over = j.r.reason
	}
	return l
}

// drop takes the job out of its session and counts the worker time; the caller moves it on.
func (q *Queue) drop(j *job, now time.Time) {
	r := j.r
	j.session.remove(j)
	took := max(now.Sub(j.leasedAt), 0)
	r.served += took
	r.tag += took.Microseconds() / int64(r.weight)
	r.tenant.tag += took.Microseconds() / int64(r.tenant.weight)
	r.tenant.inFlight--
	q.inFlight--
}

// ack applies one ack; false means it was stale.
func (q *Queue) ack(s *session, a *queue.Ack, now time.Time) bool {
	r := q.runs[a.Job.Run]
	if r == nil {
		return false
	}
	j := r.jobs[a.Job.Index]
	if j == nil || j.state != core.Leased || j.session != s || j.token != a.Token {
		return false
	}
	q.drop(j, now)
	switch a.Kind {
	case queue.AckDone:
		j.attempts++
		q.finish(j, core.EvFinish, a.Outcome, "", a.Detail)
	case queue.AckRetry:
		j.attempts++
		if r.over() && !a.Cleanup {
			q.finish(j, core.EvFinish, a.Outcome, "", a.Detail)
			break
		}
		j.data, j.unheard, j.cleanup = a.State, "", a.Cleanup
		q.put(j, core.EvRetry, a.After, now)
	case queue.AckReturn:
		if r.over() && !j.owes() {
			q.abandon(j)
			break
		}
		q.put(j, core.EvReturn, a.After, now)
	case queue.AckSuspend:
		if r.over() && (!a.Cleanup || j.closing && a.Event != "" && a.After <= 0) {
			q.finish(j, core.EvCancel, core.Cancelled, r.reason, a.State)
			break
		}
		q.suspend(j, a, now)
	}
	q.update(r)
	return true
}

// update brings the run's places in the heaps up to date and notices its end.
func (q *Queue) update(r *run) {
	q.retime(r)
	q.sync(r)
	q.checkComplete(r)
}

// put suspends a job that was leased until after has passed, without its locks.
func (q *Queue) put(j *job, e core.Event, after time.Duration, now time.Time) {
	q.move(j, e)
	q.release(j)
	q.waitFor(j, after, now)
}

// waitFor lets the job wait; a job that is due immediately becomes ready immediately.
func (q *Queue) waitFor(j *job, after time.Duration, now time.Time) {
	if j.r.over() && j.owes() {
		q.close(j, after, now)
		return
	}
	if after <= 0 {
		q.signalJob(j)
		return
	}
	j.due = now.Add(after)
	j.r.timers.push(j)
}

func (q *Queue) suspend(j *job, a *queue.Ack, now time.Time) {
	q.move(j, core.EvSuspend)
	j.data, j.unheard, j.cleanup = a.State, "", a.Cleanup
	if a.KeepLocks {
		j.keeps = true
	} else {
		q.release(j)
	}
	q.await(j, a.Event, a.After, now)
}

// await lets a suspended job wait for an event, until after has passed, or for whichever comes
// first.
func (q *Queue) await(j *job, event string, after time.Duration, now time.Time) {
	if event == "" || j.r.over() && j.owes() {
		q.waitFor(j, after, now)
		return
	}
	r := j.r
	j.event = event
	if r.events == nil {
		r.events = map[string]map[*job]struct{}{}
	}
	if r.events[event] == nil {
		r.events[event] = map[*job]struct{}{}
	}
	r.events[event][j] = struct{}{}
	if after > 0 {
		j.due = now.Add(after)
		r.timers.push(j)
	}
}

// crash puts the job of a reaped session back, or ends it.
func (q *Queue) crash(j *job, node string, now time.Time) {
	r := j.r
	q.drop(j, now)
	j.attempts++
	j.crashes++
	spec := &r.submitted
	switch {
	case spec.OnLost == queue.LostHold:
		q.finish(j, core.EvFinish, core.Lost, core.Because(core.WorkerLost, "worker "+node+" was silent past its lease while it held the job; nobody knows what the host saw"), j.data)
	case r.over() && !j.closing:
		q.finish(j, core.EvFinish, core.Lost, silent(node, r), j.data)
	case j.crashes >= queue.MaxCrashes:
		q.finish(j, core.EvFinish, core.Lost, core.Because(core.WorkerLost, fmt.Sprintf("its worker died %d times, the last was %s", j.crashes, node)), j.data)
	default:
		j.unheard = node
		q.put(j, core.EvRetry, 0, now)
	}
	q.update(r)
}

// silent is why a job of a run that is over ended as lost.
func silent(node string, r *run) core.Reason {
	return core.Because(core.WorkerLost, "worker "+node+" was silent past its lease while it held the job, and the run had ended: "+r.reason.Text())
}

// finish records the outcome of a job and reaches the threshold. detail is its state where there is
// a reason.
func (q *Queue) finish(j *job, e core.Event, o core.Outcome, reason core.Reason, detail []byte) {
	r := j.r
	id := j.id()
	q.move(j, e)
	q.release(j)
	delete(r.jobs, j.index)
	q.record(r, record{index: int32(j.index), count: 1, attempt: int32(j.attempts), outcome: outcomeCode(o), reason: reason, detail: detail})
	j.data = nil
	q.freeJobs = append(q.freeJobs, j)
	q.spend(r, o, id.Index)
}

// spend stops the run when outcome o, of the job at index, was the last that its threshold allows.
func (q *Queue) spend(r *run, o core.Outcome, index int) {
	spec := &r.submitted
	switch {
	case o == core.Lost:
		q.stop(r, queue.Stopped, core.Because(core.HostLost, fmt.Sprintf("job %s ended as lost", core.JobID{Run: r.id, Index: index})))
	case o.CountsAsFailure() && spec.StopAfter > 0 && r.bad() >= spec.StopAfter:
		q.stop(r, queue.Stopped, core.Because(core.ThresholdReached, fmt.Sprintf("the failure threshold is reached: %d failed, stop_after is %d", r.bad(), spec.StopAfter)))
	case o == core.Unreachable && spec.StopUnreachable > 0 && r.outcomes[outcomeCode(o)] >= spec.StopUnreachable:
		q.stop(r, queue.Stopped, core.Because(core.ThresholdReached, fmt.Sprintf("the failure threshold is reached: %d unreachable, stop_unreachable is %d", r.outcomes[outcomeCode(o)], spec.StopUnreachable)))
	}
}

// adoptFinished counts what ended before the run was submitted, and stops the run where that
// reaches its threshold.
func (q *Queue) adoptFinished(r *run) {
	lost := -1
	for _, s := range r.submitted.FinishedJobs {
		r.outcomes[outcomeCode(s.Outcome)] += s.Count
		r.ended += s.Count
		if s.Outcome == core.Lost && lost < 0 {
			lost = s.Index
		}
	}
	if lost >= 0 {
		q.spend(r, core.Lost, lost)
	}
	if r.ended > 0 {
		q.spend(r, core.Failed, 0)
		q.spend(r, core.Unreachable, 0)
	}
}

func (q *Queue) record(r *run, rec record) {
	q.report(r)
	r.records = append(r.records, rec)
	r.outcomes[rec.outcome] += int(rec.count)
	r.ended += int(rec.count)
}

// bad counts the outcomes that spend the threshold.
func (r *run) bad() int {
	n := 0
	for code, o := range outcomeOrder {
		if o.CountsAsFailure() {
			n += r.outcomes[code]
		}
	}
	return n
}

var outcomeOrder = [8]core.Outcome(core.Outcomes())

func outcomeCode(o core.Outcome) uint8 {
	for i := range outcomeOrder {
		if outcomeOrder[i] == o {
			return uint8(i)
		}
	}
	return 0 // not reached: acks are validated
}

// stop ends a run before its time; sweep then ends its jobs.
func (q *Queue) stop(r *run, phase queue.Phase, reason core.Reason) {
	if r.complete || r.phase == queue.Cancelled || (r.phase == queue.Stopped && phase == queue.Stopped) {
		return
	}
	r.phase, r.reason = phase, reason
	q.report(r)
	if !r.sweeping {
		r.sweeping = true
		q.sweeping = append(q.sweeping, r)
	}
	q.sync(r)
}

// sweep ends jobs of runs that are stopped or cancelled, at most threshold items; false when some
// are left.
func (q *Queue) sweep(threshold int) bool {
	for len(q.sweeping) > 0 {
		r := q.sweeping[0]
		if threshold = q.sweepRun(r, threshold); threshold <= 0 {
			return false
		}
		r.sweeping = false
		q.sweeping = q.sweeping[1:]
	}
	q.sweeping = nil
	return true
}

// sweepRun returns the rest of the threshold; 0 means that jobs may be left.
func (q *Queue) sweepRun(r *run, threshold int) int {
	for ; threshold > 0 && r.fresh.len() > 0; threshold-- {
		q.cancelSpan(r, r.fresh.pop())
	}
	for ; threshold > 0 && r.later.len() > 0; threshold-- {
		s := r.later.remove(r.later.len() - 1)
		r.late -= r.releasedOf([]span{s})
		q.cancelSpan(r, s)
	}
	if len(r.jobs) > r.count.leased {
		for _, j := range r.jobs {
			if threshold <= 0 {
				break
			}
			if j.closing {
				continue
			}
			threshold--
			if j.state != core.Leased {
				q.end(j)
			}
		}
	}
	q.update(r)
	return threshold
}

// cancelSpan records a range as cancelled, joined to the last one where it follows it.
func (q *Queue) cancelSpan(r *run, s span) {
	r.left -= s.hi - s.lo
	q.record(r, record{index: int32(s.lo), count: int32(s.hi - s.lo), outcome: outcomeCode(core.Cancelled), reason: r.reason})
}

// end cancels a job that is not leased, wherever it is suspended. One with a cleanup is leased once
// more instead.
func (q *Queue) end(j *job) {
	owes := j.owes()
	switch j.state {
	case core.Pending:
		j.r.ready.remove(j.place) // no lock's place is kept for it: the run has ended
	case core.Blocked:
		l := j.on
		l.waiters.remove(j.place)
		j.on = nil
		if owes {
			q.move(j, core.EvUnblock)
		}
	case core.Retrying, core.Suspended:
		q.endWait(j)
	}
	if owes {
		q.close(j, 0, q.last)
		return
	}
	q.abandon(j)
}

// abandon ends a job of a run that has ended: as cancelled, or as lost if its last lease crashed
// and no worker has reported since what the host saw.
func (q *Queue) abandon(j *job) {
	if j.unheard != "" {
		q.finish(j, core.EvCancel, core.Lost, silent(j.unheard, j.r), j.data)
		return
	}
	q.finish(j, core.EvCancel, core.Cancelled, j.r.reason, j.data)
}

func (q *Queue) checkComplete(r *run) {
	if r.complete || r.ended < len(r.submitted.Targets) {
		return
	}
	r.complete, r.doneAt = true, q.last
	r.tenant.open--
	if !r.over() {
		r.phase = queue.Finished
	}
	q.complete = append(q.complete, r)
}
