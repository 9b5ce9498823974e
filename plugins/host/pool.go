package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redact"
)

// pool keeps the processes of one plugin, or of built-ins that share them. A call goes to the first
// process with room; when none has, it waits in line while another process is started, up to
// processes.
type pool struct {
	plugin    *Plugin   // what is started; of a shared one it has the name of the process, and no job types
	serves    []*Plugin // whose calls go to it
	source    *origin   // nil of a built-in plugin
	users     int       // calls that go to it, guarded by the supervisor
	launch    launch
	log       *slog.Logger
	timing    timing
	processes int // the most at the same time

	mu       sync.Mutex
	live     []*process         // retired ones included, until they are gone
	starting chan struct{}      // of the start under way, closed when it has ended; nil: none
	giveUp   context.CancelFunc // of the start under way
	ahead    bool               // the start under way was made before a call needed it
	waiting  []*waiter          // first come, first served
	restart  restart
	starts   int                  // processes that were started
	deaths   int                  // that died, or did not start
	again    *time.Timer          // the start that waits for the backoff
	last     string               // how a process died, or did not start, the last time
	healthy  bool                 // a call completed since the last death
	suspects map[deadly]bool      // were in a process that died under several calls: each runs alone until it is known whose fault it was
	poison   map[deadly]time.Time // a process died of it alone, then; it runs alone
	stopped  bool
	hurry    chan struct{} // closed: stop without waiting for calls
	wg       sync.WaitGroup
}

// serve has the calls of one more plugin go to the pool. A process that several share takes as many
// calls as their own would: no job type waits for the concurrency of another.
func (p *pool) serve(plugin *Plugin) {
	p.serves = append(p.serves, plugin)
	if p.plugin != plugin {
		p.plugin.Manifest.Concurrency += plugin.concurrency()
	}
}

// timing holds the times that tests make shorter.
type timing struct {
	idle, grace, maxAge, start time.Duration
	inspect, silence           time.Duration // how often a busy process is asked whether it lives, and for how long it may be silent
	now                        func() time.Time
}

// waiter is a call in line; it gets a process or an error.
type waiter struct {
	alone   bool          // nobody else in the process
	granted chan *process // one, with the slot taken; closed when err is set
	err     error
}

// acquire takes a slot of a process for a call. release gives it back.
func (p *pool) acquire(ctx context.Context, c *Call) (*process, error) {
	p.mu.Lock()
	if p.stopped {
		p.mu.Unlock()
		return nil, p.stopping()
	}
	alone := p.aloneLocked(c)
	if got := p.roomLocked(alone); got != nil {
		p.mu.Unlock()
		return got, nil
	}
	if d, refuse := p.restart.wait(p.timing.now()); refuse && !p.anyUsableLocked() {
		p.mu.Unlock()
		return nil, p.refused(d)
	}
	w := &waiter{granted: make(chan *process, 1), alone: alone}
	p.waiting = append(p.waiting, w)
	p.startLocked()
	p.mu.Unlock()
	select {
	case got, ok := <-w.granted:
		if !ok {
			return nil, w.err
		}
		return got, nil
	case <-ctx.Done():
		p.leaveLine(w)
		return nil, ctx.Err()
	}
}

func (p *pool) refused(d time.Duration) error {
	return fmt.Errorf("%w: plugin %s %s died %d times within %s and is suspended; it is tried again in %s (at %s). The last time: %s",
		core.ErrUnavailable, p.plugin.Name, p.plugin.Version, breakerDeaths, breakerWindow,
		d.Round(time.Second), p.timing.now().Add(d).Format(time.TimeOnly), p.last)
}

// stats reports how the processes fare.
func (p *pool) stats() PluginStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, refuse := p.restart.wait(p.timing.now())
	return PluginStats{Plugin: p.plugin.Name, Processes: len(p.live), Starts: p.starts, Deaths: p.deaths, Blocked: refuse && !p.anyUsableLocked()}
}

func (p *pool) stopping() error {
	return fmt.Errorf("%w: plugin %s: the worker is stopping", core.ErrUnavailable, p.plugin.Name)
}

// roomLocked takes a slot of the first process that has one, or a whole process.
func (p *pool) roomLocked(alone bool) *process {
	for _, q := range slices.Clone(p.live) {
		if !q.retired && p.timing.now().Sub(q.born) > p.timing.maxAge {
			p.retireLocked(q)
		}
		if q.retired || q.dead() || q.alone || q.calls >= p.plugin.concurrency() || alone && q.calls > 0 {
			continue
		}
		q.calls++
		q.alone = alone
		if q.idle != nil {
			q.idle.Stop()
			q.idle = nil
		}
		return q
	}
	return nil
}

func (p *pool) anyUsableLocked() bool {
	return slices.ContainsFunc(p.live, func(q *process) bool { return !q.retired })
}

func (p *pool) leaveLine(w *waiter) {
	p.mu.Lock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if got, ok := <-w.granted; ok { // it came at the same moment
		p.release(got)
	}
}

// release gives a slot back.
func (p *pool) release(q *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked(q)
}

func (p *pool) releaseLocked(q *process) {
	q.calls--
	q.alone = false // a call that is alone is the last to leave
	if q.retired && q.calls == 0 {
		close(q.drained)
	}
	p.serveLocked() // which may give the slot away again, or retire q for its age
	if q.calls > 0 || q.retired {
		return
	}
	q.unused = p.timing.now()
	q.idle = time.AfterFunc(p.timing.idle, func() { p.reap(q) })
}

// reap retires a process that has been unused for long enough.
func (p *pool) reap(q *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.calls == 0 && p.timing.now().Sub(q.unused) >= p.timing.idle {
		p.retireLocked(q)
	}
}

// serveLocked gives free concurrency to the waiting calls. One that waits for a whole process does
// not delay the others.
func (p *pool) serveLocked() {
	left := p.waiting[:0]
	for _, w := range p.waiting {
		if q := p.roomLocked(w.alone); q != nil {
			w.granted <- q
		} else {
			left = append(left, w)
		}
	}
	clear(p.waiting[len(left):])
	p.waiting = left
	p.startLocked()
}

func (p *pool) failLocked(err error) {
	for _, w := range p.waiting {
		w.err = err
		close(w.granted)
	}
	p.waiting = nil
}

// startLocked starts a process when somebody waits for one, one at a time.
func (p *pool) startLocked() {
	if p.stopped || p.starting != nil || len(p.waiting) == 0 || p.again != nil {
		return
	}
	usable := 0
	for _, q := range p.live {
		if !q.retired {
			usable++
		}
	}
	most := p.processes
	if slices.ContainsFunc(p.waiting, func(w *waiter) bool { return w.alone }) {
		most++ // the others may be busy for long
	}
	if usable >= most || len(p.live) >= 2*p.processes {
		return // when one is gone, this is called again
	}
	if d, _ := p.restart.wait(p.timing.now()); d > 0 {
		p.again = time.AfterFunc(d, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.again = nil
			p.startLocked()
		})
		return
	}
	p.beginLocked()
}

func (p *pool) beginLocked() {
	ctx, cancel := context.WithTimeout(context.Background(), p.timing.start)
	p.starting, p.giveUp = make(chan struct{}), cancel
	p.wg.Go(func() { p.own(ctx, cancel) })
}

// warm starts a process before a call needs it, and returns when that start has ended. It does
// nothing where there is a process, or one is being started, or waits after a death.
func (p *pool) warm() {
	p.mu.Lock()
	d, _ := p.restart.wait(p.timing.now())
	if p.stopped || p.starting != nil || p.again != nil || d > 0 || p.anyUsableLocked() {
		p.mu.Unlock()
		return
	}
	p.ahead = true
	p.beginLocked()
	begun := p.starting
	p.mu.Unlock()
	<-begun
}

// own is the life of one process, from start to reaping.
func (p *pool) own(ctx context.Context, cancel context.CancelFunc) {
	defer cancel()
	q, err := p.launch.start(ctx, p.plugin)
	if !p.started(q, err) {
		return
	}
	watching, enough := context.WithCancel(context.Background())
	p.wg.Go(func() { p.watch(watching, q) })
	select {
	case <-q.child.exited:
	case <-q.retire:
	}
	enough()
	if q.dead() {
		p.crashed(q)
	} else {
		q.end(p.timing.grace, p.hurry)
	}
	q.close()
	p.gone(q)
}

// watch condemns a process that has calls and answers no more: a call without a time limit would
// otherwise wait for it for ever.
func (p *pool) watch(ctx context.Context, q *process) {
	tick := time.NewTicker(p.timing.inspect)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		busy := q.calls > 0
		p.mu.Unlock()
		if busy && !q.answers(ctx, p.timing.silence) && ctx.Err() == nil {
			p.condemn(q, fmt.Sprintf("it stood still: no answer for %v", p.timing.silence))
			return
		}
	}
}

// started takes in a new process, or its failure.
func (p *pool) started(q *process, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.starting)
	unasked := p.ahead && len(p.waiting) == 0
	p.starting, p.giveUp, p.ahead = nil, nil, false
	switch {
	case err == nil:
		p.starts++
		q.calls = 1 // given back immediately, which serves the line and starts the idle clock
		p.live = append(p.live, q)
		if p.stopped {
			p.retireLocked(q)
		}
		p.releaseLocked(q)
		return true
	case p.stopped:
		p.failLocked(p.stopping())
		return false
	case unasked: // the call that needs it tries again, and reports it
		p.log.Warn("plugin did not start ahead of its first call", "plugin", p.plugin.Name, "err", err)
		return false
	}
	p.log.Error("plugin did not start", "plugin", p.plugin.Name, "err", err)
	p.healthy, p.last = false, err.Error() // others may have worked, but this one does not start
	p.diedLocked()
	if !p.anyUsableLocked() {
		p.failLocked(fmt.Errorf("%w: %w", core.ErrUnavailable, err))
	}
	return false
}

func (p *pool) crashed(q *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Error("plugin process died", "plugin", p.plugin.Name, "pid", q.child.pid, "how", q.child.how, "calls", q.calls)
	p.last = q.child.how
	p.diedLocked()
	p.retireLocked(q)
}

func (p *pool) gone(q *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live = slices.DeleteFunc(p.live, func(o *process) bool { return o == q })
	if d, refuse := p.restart.wait(p.timing.now()); refuse && !p.anyUsableLocked() {
		p.failLocked(p.refused(d))
	}
	p.startLocked()
}

// hide keeps a call's values out of what the process prints from now on, also when the call has
// ended: a process may print what it was given once. One that was given too many takes no further
// calls.
func (p *pool) hide(q *process, values *redact.Set) error {
	if values.Len() == 0 {
		return nil
	}
	err := q.hidden.AddAll(values)
	if err == nil && q.hidden.Len() < redact.MaxValues/2 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retireLocked(q)
	if err != nil {
		return fmt.Errorf("%w: plugin %s %s: its process was given too many secrets, another takes its place: %w", core.ErrUnavailable, p.plugin.Name, p.plugin.Version, err)
	}
	return nil
}

// retireLocked gives the process no more calls. Twice is fine.
func (p *pool) retireLocked(q *process) {
	if q.retired {
		return
	}
	q.retired = true
	if q.idle != nil {
		q.idle.Stop()
		q.idle = nil
	}
	close(q.retire)
	if q.calls == 0 {
		close(q.drained)
	}
}

// condemn replaces a process in which a call does not end.
func (p *pool) condemn(q *process, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-q.condemned:
		return
	default:
	}
	p.log.Warn("plugin process is condemned", "plugin", p.plugin.Name, "pid", q.child.pid, "why", why)
	q.why = why
	q.crowded = q.crowded || q.calls > 1
	close(q.condemned)
	p.retireLocked(q)
}

// stop refuses new calls and retires every process. It returns when all are reaped;
// calls that run may end until ctx does.
func (p *pool) stop(ctx context.Context) {
	p.mu.Lock()
	first := !p.stopped
	p.stopped = true
	p.failLocked(p.stopping())
	if p.again != nil {
		p.again.Stop()
	}
	if p.giveUp != nil {
		p.giveUp()
	}
	for _, q := range p.live {
		p.retireLocked(q)
	}
	p.mu.Unlock()
	reaped := make(chan struct{})
	go func() { p.wg.Wait(); close(reaped) }()
	select {
	case <-reaped:
		return
	case <-ctx.Done():
	}
	if first {
		close(p.hurry)
	}
	<-reaped
}
