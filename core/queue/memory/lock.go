package memory

import (
	"slices"

	"github.com/turnus/turnus/core"
)

// locks is one table of locks, by name. A lock exists while a job has it or waits for it, and while
// it is kept for one.
type locks map[string]*lock

// lock has places that jobs hold, and jobs that wait for one in the order in which they blocked.
type lock struct {
	table   locks
	kind    string // for Explain
	name    string
	places  int
	held    []*job
	offered []*job // ready again, a place is kept for each; their runs can lease now
	waiters heap[*job]
}

// room reports whether j may take a place.
func (l *lock) room(j *job) bool {
	return j.offer == l || len(l.held)+len(l.offered) < l.places
}

// need is one lock that a job takes.
type need struct {
	table  locks
	kind   string
	name   string
	places int
}

// needs lists the locks of a job in the order in which they are taken.
func (q *Queue) needs(j *job) (n [3]need) {
	t, spec := j.target(), &j.r.submitted
	n[0] = need{q.hosts, "host", t.Host, 1}
	if spec.Disruptive && t.HAGroup != "" {
		n[1] = need{q.haGroups, "HA group", t.HAGroup, 1}
	}
	if spec.PerGroup > 0 && t.Group != "" {
		n[2] = need{j.r.groups, "group", t.Group, spec.PerGroup}
	}
	return n
}

// acquire takes all locks of the job, or none and returns the one that is in the way.
func (q *Queue) acquire(j *job) *lock {
	if j.keeps {
		j.keeps = false
		return nil
	}
	needs := q.needs(j)
	for i := range needs {
		if needs[i].table == nil {
			continue
		}
		l := needs[i].table[needs[i].name]
		if l != nil && !l.room(j) {
			return l
		}
	}
	q.forgo(j)
	for i := range needs {
		if needs[i].table == nil {
			continue
		}
		l := needs[i].table[needs[i].name]
		if l == nil {
			l = q.newLock(&needs[i])
		}
		l.held = append(l.held, j)
		j.held[i] = l
	}
	return nil
}

func (q *Queue) newLock(n *need) *lock {
	var l *lock
	if last := len(q.freeLocks) - 1; last >= 0 {
		l = q.freeLocks[last]
		q.freeLocks = q.freeLocks[:last]
	} else {
		l = &lock{waiters: heap[*job]{less: func(a, b *job) bool { return a.blockSeq < b.blockSeq }, place: placeJob}}
	}
	l.table, l.kind, l.name, l.places = n.table, n.kind, n.name, n.places
	n.table[n.name] = l
	return l
}

// forgo clears the job's offer without handing it on: it takes the place itself.
func (q *Queue) forgo(j *job) *lock {
	l := j.offer
	if l == nil {
		return nil
	}
	l.offered = slices.DeleteFunc(l.offered, func(o *job) bool { return o == j })
	j.offer = nil
	if !j.closing {
		j.r.offered--
	}
	return l
}

// block suspends a ready job on the lock that is in its way.
func (q *Queue) block(j *job, l *lock) {
	j.held = [3]*lock{}
	other := q.forgo(j)
	q.move(j, core.EvBlock)
	if j.blockSeq == 0 {
		j.blockSeq = q.next()
	}
	j.on = l
	l.waiters.push(j)
	if other != nil {
		q.hand(other)
	}
}

// release frees the locks of the job.
func (q *Queue) release(j *job) {
	held := j.held
	j.held = [3]*lock{}
	j.keeps = false
	for _, l := range held {
		if l != nil {
			l.held = slices.DeleteFunc(l.held, func(h *job) bool { return h == j })
			q.hand(l)
		}
	}
}

// hand gives free places of the lock to those who wait, first blocked first. A waiter whose run
// cannot lease now also becomes ready, but no place is kept for it.
func (q *Queue) hand(l *lock) {
	for l.waiters.len() > 0 && len(l.held)+len(l.offered) < l.places {
		j := l.waiters.pop()
		j.on = nil
		q.move(j, core.EvUnblock)
		if j.closing {
			j.offer = l
			l.offered = append(l.offered, j)
			q.close(j, 0, q.last)
			continue
		}
		j.r.ready.push(j)
		if j.r.open() {
			j.offer = l
			l.offered = append(l.offered, j)
			j.r.offered++
		}
		q.sync(j.r)
	}
	if l.table != nil && len(l.held)+len(l.offered)+l.waiters.len() == 0 {
		delete(l.table, l.name)
		l.table = nil
		q.freeLocks = append(q.freeLocks, l)
	}
}

// withdrawAll withdraws the places kept for a run that cannot lease any more.
func (q *Queue) withdrawAll(r *run) {
	var freed []*lock
	for _, j := range r.ready.items {
		if l := q.forgo(j); l != nil {
			freed = append(freed, l)
		}
	}
	for _, l := range freed {
		q.hand(l)
	}
}
