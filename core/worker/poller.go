package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Times of the poller.
const (
	coalesce    = time.Millisecond       // acks wait so long for others
	coalesceMax = 64                     // or until there are so many
	backstop    = time.Second            // an idle node polls at least so often
	waitMargin  = 50 * time.Millisecond  // after the time at which the queue has something due
	turnRetry   = 200 * time.Millisecond // after a call without an answer
	barrenTurns = 16                     // in a row left work and brought no job: only then is there a pause,
	barrenPause = 5 * time.Millisecond   // of this length, so that the queue is not asked in a spin
	giveUp      = 5 * time.Second        // after Kill: how long results are still offered to a silent queue
	stuckAfter  = time.Minute            // without a look: calls of the queue have limits far below
)

// poller is the only goroutine that calls Turn. All its fields are its own.
type poller struct {
	w        *Worker
	session  *session
	finished chan finished // by jobs; as long as there are slots, so that no job ever waits
	hint     chan error    // by the waiter
	waiter   chan struct{} // closed when the waiter has ended; nil when there is none
	stopWait context.CancelFunc

	acks     []queue.Ack
	flushAt  time.Time     // when the acks must go
	pollAt   time.Time     // when to look without a hint
	retryAt  time.Time     // not before then, the queue is away
	adoptAt  time.Time     // when to compare with what the queue thinks we hold; zero is never
	stuckAt  time.Time     // when to look for jobs that ignore their end
	skew     time.Duration // the queue's clock less ours; only for Wait
	barren   int           // turns in a row that left work and brought no job
	hinted   bool
	more     bool
	quick    int // hints in a row that came immediately and brought nothing
	draining bool
	killed   bool
	killedAt time.Time
	zombies  int    // running jobs of earlier sessions
	stuck    int    // running jobs that the poller no longer waits for
	fence    uint64 // the highest token that a turn of the session leased
	older    bool   // that the queue has forgotten leases of the session was logged
	load     loadGuard
}

// finished is a job's goroutine that has ended.
type finished struct {
	job *job
	ack queue.Ack
}

func newPoller(w *Worker) *poller {
	return &poller{
		w: w, finished: make(chan finished, w.cfg.Concurrency), hint: make(chan error, 1),
		load: loadGuard{limits: w.cfg.Limits, measure: w.cfg.Load},
	}
}

// run is the life of the node. It ends in this order: no more leases; the jobs; their acks;
// the waiter; the session (whatever it still holds goes back); the beat, which keeps
// the leases alive until then.
func (p *poller) run(ctx context.Context) error {
	life := context.WithoutCancel(ctx)
	done, kill := ctx.Done(), (<-chan struct{})(p.w.kill)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		p.w.pulse.Beat()
		p.step(life, now)
		if p.over(time.Now()) {
			p.w.pulse.End()
			return p.close(life)
		}
		p.armWaiter(life)
		timer.Reset(max(time.Until(p.nextPoll()), 0))
		var gone chan struct{}
		if p.session != nil {
			gone = p.session.gone
		}
		select {
		case f := <-p.finished:
			p.collect(f)
		case err := <-p.hint:
			p.onHint(err)
		case <-gone:
		case <-timer.C:
		case <-done:
			done = nil
			p.w.draining.Store(true)
			p.startDrain()
		case <-kill:
			kill = nil
			p.startKill()
		}
		p.collectAll()
	}
}

// step does what is due now.
func (p *poller) step(ctx context.Context, now time.Time) {
	p.giveUpStuck(now)
	if p.session != nil && p.session.isGone() {
		p.dropSession()
	}
	if now.Before(p.retryAt) {
		return
	}
	if p.session == nil {
		if !p.draining {
			p.open(ctx)
		}
		return
	}
	if !p.adoptAt.IsZero() && !now.Before(p.adoptAt) {
		if !p.adopt(ctx) {
			return
		}
	}
	if p.wantsTurn(time.Now()) {
		p.turn(ctx)
	}
}

func (p *poller) open(ctx context.Context) {
	s, err := openSession(ctx, p.w)
	if err != nil {
		p.w.queueAway(err)
		p.retryAt = time.Now().Add(turnRetry)
		return
	}
	p.w.queueBack()
	p.session = s
	p.pollAt = time.Time{}
}

func (p *poller) wantsTurn(now time.Time) bool {
	if n := len(p.acks); n > 0 && (n >= coalesceMax || !now.Before(p.flushAt) || p.count() == 0) {
		return true
	}
	if p.draining {
		// The signal that this node had must reach another one: a Turn passes it on. It also shows that
		// the queue may have forgotten jobs that still run here.
		return p.hinted || !now.Before(p.pollAt)
	}
	return p.hinted || !now.Before(p.pollAt) || p.more && p.free() > 0
}

// turn calls Turn once.
func (p *poller) turn(ctx context.Context) {
	t := queue.Turn{Session: p.session.id, Acks: p.acks[:min(len(p.acks), queue.MaxAcksPerTurn)], Want: p.want()}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	sent := time.Now()
	res, err := p.w.cfg.Queue.Turn(call, t)
	cancel()
	if err != nil {
		p.turnFailed(err)
		return
	}
	p.w.heard(sent, res.Now)
	p.w.queueBack()
	if p.hinted = false; len(res.Leases) > 0 {
		p.quick = 0
	}
	p.acks = append(p.acks[:0], p.acks[len(t.Acks):]...)
	p.more = res.More && t.Want > 0
	now := time.Now()
	p.skew = res.Now.Sub(now)
	p.pollAt = now.Add(p.w.pace.poll)
	if !res.Next.IsZero() && t.Want > 0 {
		p.pollAt = now.Add(min(res.Next.Sub(res.Now)+waitMargin, p.w.pace.poll))
		if !res.Next.After(res.Now) { // due, and yet not leased: do not spin on it
			p.pollAt = now.Add(barrenPause)
		}
	}
	if p.barren++; !res.More || len(res.Leases) > 0 {
		p.barren = 0
	}
	if p.more && p.barren > barrenTurns { // much is left to do that brings no job: no hurry
		p.more, p.pollAt = false, now.Add(barrenPause)
	}
	for _, id := range res.Stale {
		p.w.cfg.Log.Warn("the queue refused an ack: the job was no longer this node's", "job", id.String())
	}
	p.startNew(res.Leases)
	if res.Doubt {
		p.adoptAt = now
	}
	p.w.cancelJobs(res.Stop, p.session)
}

func (p *poller) turnFailed(err error) {
	now := time.Now()
	switch {
	case errors.Is(err, core.ErrSessionGone):
		p.session.fence(err.Error()) // the beat also detects it; the first of both stops the jobs and reports it
		p.dropSession()
		return
	case errors.Is(err, core.ErrInvalid):
		// Only a fault of this program's can be the cause. The leases run out with the session,
		// so that the jobs are recovered by the rules rather than tried for ever.
		p.w.cfg.Log.Error("the queue refuses this worker's turn; the session ends", "err", err)
		p.w.stopJobs(errSession, func(j *job) bool { return j.session == p.session })
		p.dropSession()
		p.retryAt = now.Add(p.w.pace.poll)
		return
	default: // it may have been done; and where it was not, the queue may come back older, with leases that ended here
		p.adoptAt = now
	}
	p.w.queueAway(err)
	p.retryAt = now.Add(turnRetry)
	if p.draining {
		p.hinted = false // other nodes have their backstop
	}
}

// adopt compares what the queue thinks this node holds with what it runs, after a Turn
// without an answer: leases that never arrived are started, acks that had arrived are dropped. In a
// queue that was set back, leases of jobs that ended here are given back, else they are never free
// again; and jobs of which the queue has forgotten the lease are stopped, as it leases their hosts
// again. Guests enter again, as the queue may have forgotten those as well.
func (p *poller) adopt(ctx context.Context) bool {
	p.collectAll()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	leases, err := p.w.cfg.Queue.Adopt(call, p.session.id)
	cancel()
	if err != nil {
		p.turnFailed(err)
		return false
	}
	p.w.queueBack()
	again := p.adoptAt
	p.adoptAt = time.Time{}
	if again.Add(p.w.pace.beat).After(time.Now()) {
		// The lost Turn may still be under way and take effect after this answer: look once more.
		p.adoptAt = again.Add(p.w.pace.beat)
	}
	held := make(map[uint64]bool, len(leases))
	for _, l := range leases {
		held[l.Token] = true
	}
	kept := p.acks[:0]
	acked := map[uint64]bool{}
	for _, a := range p.acks {
		if held[a.Token] {
			kept = append(kept, a)
			acked[a.Token] = true
		}
	}
	p.acks = kept
	leases = slices.DeleteFunc(leases, func(l queue.Lease) bool { return acked[l.Token] || p.runs(l.Token) })
	p.startNew(leases)
	p.w.stopJobs(errForgotten, func(j *job) bool { return j.session == p.session && !held[j.lease.Token] })
	if err := p.guestsEnterAgain(ctx); err != nil {
		p.turnFailed(err)
		return false
	}
	return true
}

func (p *poller) runs(token uint64) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	_, ok := p.w.running[token]
	return ok
}

// startNew starts what was leased. Tokens only grow: a lease whose token was passed is of a queue
// that was set back, as a Redis is that lost its last seconds, and the job has ended here since. It
// is given back, so that the servers see it first.
func (p *poller) startNew(leases []queue.Lease) {
	seen := p.fence
	for _, l := range leases {
		p.fence = max(p.fence, l.Token)
		if l.Token > seen {
			p.start(l)
			continue
		}
		if !p.older {
			p.older = true
			p.w.cfg.Log.Warn("the queue came back older than it was: jobs wait until its leases are new again", "job", l.Job.String(), "token", l.Token, "seen", seen)
		}
		p.ack(queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckReturn, After: returnAfter})
	}
}

// start gives a lease its goroutine, or the job back when it came too late.
func (p *poller) start(l queue.Lease) {
	if p.draining || !p.session.trusted() || p.free() == 0 {
		p.ack(queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckReturn})
		return
	}
	j := newJob(p.w, p.session, l)
	p.w.mu.Lock()
	if p.zombies > 0 { // a stopped job of an earlier session may still be on this host
		for _, other := range p.w.running {
			if other.lease.Host == l.Host {
				j.after = append(j.after, other.done)
			}
		}
	}
	p.w.running[l.Token] = j
	p.w.mu.Unlock()
	go func() {
		ack := j.work()
		close(j.done)
		p.finished <- finished{j, ack}
	}()
}

func (p *poller) ack(a queue.Ack) {
	if len(p.acks) == 0 {
		p.flushAt = time.Now().Add(coalesce)
	}
	p.acks = append(p.acks, a)
}

// collect takes a job that ended.
func (p *poller) collect(f finished) {
	p.w.mu.Lock()
	delete(p.w.running, f.job.lease.Token)
	p.w.mu.Unlock()
	switch {
	case f.job.session != p.session:
		p.zombies--
		if f.job.stuck {
			p.stuck--
		}
	case f.job.stuck: // its ack was given for it
		p.stuck--
	default:
		p.ack(f.ack)
	}
}

func (p *poller) collectAll() {
	for {
		select {
		case f := <-p.finished:
			p.collect(f)
		default:
			return
		}
	}
}

// dropSession forgets a session that is gone, with the acks that only it could have given.
func (p *poller) dropSession() {
	p.collectAll()
	if n := len(p.acks); n > 0 {
		p.w.cfg.Log.Warn("results are lost with the session; the queue has the jobs run again, or ends them as lost", "jobs", n)
	}
	p.endWaiter()
	p.session.end()
	p.session, p.acks, p.fence, p.older = nil, nil, 0, false // an emptied queue counts from the beginning, and knows no session
	p.adoptAt, p.retryAt, p.hinted, p.more = time.Time{}, time.Time{}, false, false
	p.zombies = p.count()
}

func (p *poller) count() int { return p.w.count() }

func (p *poller) free() int { return max(p.w.cfg.Concurrency-p.count(), 0) }

// want is how many jobs to ask for.
func (p *poller) want() int {
	free := min(p.free(), queue.MaxLeasesTurn)
	if free == 0 || p.draining || p.w.cordoned.Load() || !p.session.trusted() || !p.adoptAt.IsZero() && p.adoptAt.Before(time.Now()) {
		return 0
	}
	over, changed, text := p.load.check(time.Now())
	if changed && over {
		p.w.cfg.Log.Warn("node is over its limit: no new jobs are taken", "load", text)
		p.w.report(Event{Kind: Overloaded, Text: text})
	} else if changed {
		p.w.cfg.Log.Info("node is below its limit again", "load", text)
		p.w.report(Event{Kind: Eased, Text: text})
	}
	if over && p.count() > 0 {
		return 0
	}
	if over {
		return 1 // see Limits
	}
	return free
}

// nextPoll is when step has work without a signal.
func (p *poller) nextPoll() time.Time {
	next := time.Now().Add(p.w.pace.poll)
	consider := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	if now := time.Now(); now.Before(p.retryAt) {
		consider(p.retryAt)
	} else {
		if len(p.acks) > 0 {
			consider(p.flushAt)
		}
		if p.session != nil {
			consider(p.pollAt)
		}
		if p.session != nil {
			consider(p.adoptAt)
			if p.wantsTurn(now) {
				return now
			}
		}
		if p.session == nil && !p.draining {
			return now
		}
	}
	return next
}
