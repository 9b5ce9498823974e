package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue"
)

// Times of the session.
const (
	beatRetry   = 500 * time.Millisecond // between beats that get no answer,
	beatLeast   = 20 * time.Millisecond  // and at the least
	callTimeout = 3 * time.Second        // of one call of the queue that does not wait
)

// pace is how often a node speaks to the queue. A simulation of days sets it slower, queue and all.
type pace struct {
	beat time.Duration // between beats
	ttl  time.Duration // after which a silent session is gone
	poll time.Duration // an idle node polls at least so often
}

// margin is how long before the session may be reaped its jobs are stopped.
func (p pace) margin() time.Duration { return p.ttl / 4 }

// Why jobs were asked to end.
var (
	errCancelled = errors.New("the run was cancelled")
	errSession   = errors.New("the worker lost its right to the job: the queue did not hear from it in time")
	errKilled    = errors.New("the worker was stopped immediately")
	errTimeout   = errors.New("time limit of the step")
	errForgotten = forgotten{"the lease"}
	errNoGuest   = forgotten{"that the job is the guest of the host"}
)

// forgotten is an errSession of a queue that answers.
type forgotten struct{ what string }

func (f forgotten) Error() string {
	return "the worker lost its right to the job: the queue came back older, and has forgotten " + f.what
}

func (forgotten) Is(target error) bool { return target == errSession }

// whySilent is why jobs are stopped whose session the queue may soon reap.
const whySilent = "the queue was silent for so long that other nodes may soon get this node's jobs"

// session is one session of the worker and the goroutine that keeps it alive.
// A session is trusted while its last answered beat is younger than its TTL less a
// margin, by the clocks of this machine: the queue's promise is counted from the instant
// before the beat was sent. When trust ends jobs are stopped, before another node may get them.
//
// A process that was stopped runs late whatever it had set timers for. So time is
// also compared right before each thing that a job begins: see live.
type session struct {
	w    *Worker
	id   string
	gone chan struct{} // closed when the queue has given the session up
	done chan struct{} // closed when the beat goroutine has ended
	quit context.CancelFunc

	mu      sync.Mutex
	fenced  bool
	queue   string        // its incarnation; "": not known yet, or it has none
	renewed moment        // before the last answered beat was sent
	good    time.Duration // for which the session is trusted from then on
}

// moment is an instant by the clocks that only go forward. Go's monotonic clock stands still
// while Linux is suspended; suspended is how long the machine had been suspended.
type moment struct {
	local     time.Time
	suspended time.Duration
}

func (w *Worker) moment() moment { return moment{time.Now(), w.suspended()} }

// since is how long ago m was.
func (w *Worker) since(m moment) time.Duration {
	return time.Since(m.local) + w.suspended() - m.suspended
}

// openSession opens a session and starts its beat.
func openSession(ctx context.Context, w *Worker) (*session, error) {
	sent := w.moment()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id, err := w.cfg.Queue.Open(call, w.cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	beating, quit := context.WithCancel(context.WithoutCancel(ctx))
	s := &session{
		w: w, id: id, gone: make(chan struct{}), done: make(chan struct{}), quit: quit,
		renewed: sent, good: w.pace.ttl - w.pace.margin(),
	}
	go s.beat(beating)
	return s, nil
}

// end stops the beat and joins it.
func (s *session) end() {
	s.quit()
	<-s.done
}

// left is for how long the session is still trusted.
func (s *session) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.good - s.w.since(s.renewed)
}

// queueName returns the incarnation of the queue, within which its tokens grow: hosts compare them.
// A queue without one has the name "": it lives in one process, as that of turnus run, and nobody
// else's leases follow its own. If the name cannot be read, nothing may begin on a host: it would
// run there without a fence.
func (s *session) queueName(ctx context.Context) (string, error) {
	s.mu.Lock()
	name := s.queue
	s.mu.Unlock()
	if name != "" || s.w.cfg.Board == nil {
		return name, nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, _, err := s.w.cfg.Board.Posted(call, board.Incarnation, 0)
	if errors.Is(err, core.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the name of the queue: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = string(text)
	return s.queue, nil
}

// trusted reports whether new jobs may be started under the session.
func (s *session) trusted() bool {
	s.mu.Lock()
	fenced := s.fenced
	s.mu.Unlock()
	return !fenced && s.left() > 0
}

// live is the last question before something begins under the session: nil, or why it must not.
// It fences first; whether the session lives after all is for the beat to ask.
func (s *session) live() error {
	if s.trusted() {
		return nil
	}
	s.fence(whySilent)
	return errSession
}

func (s *session) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

func (s *session) beat(ctx context.Context) {
	defer close(s.done)
	timer := time.NewTimer(s.w.pace.beat)
	defer timer.Stop()
	silent := false // the last call had no answer
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		left := s.left()
		if left <= 0 { // the process was stopped, or the machine suspended
			s.fence(whySilent)
		}
		call, cancel := context.WithTimeout(ctx, min(s.w.pace.beat, max(left, beatRetry)))
		sent, res, err := s.ask(call, silent)
		cancel()
		silent = err != nil
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, core.ErrSessionGone):
			s.lose(err)
			return
		case err != nil:
			s.w.queueAway(err)
			left := s.left()
			if left <= 0 {
				s.fence(whySilent)
				left = 2 * beatRetry
			}
			timer.Reset(min(beatRetry, max(left/2, beatLeast))) // oftener near the end: what comes at it comes too late
		default:
			s.w.heard(sent.local, res.Now)
			s.w.queueBack()
			s.w.cancelJobs(res.Stop, s)
			if !s.renew(sent, res.Until.Sub(res.Now)) {
				timer.Reset(0) // the answer is from before a stop: it does not count now
				continue
			}
			timer.Reset(s.w.pace.beat)
		}
	}
}

// ask beats once, and returns when it did. After silence it first makes sure that answers come: a
// beat without one prolongs the session for the queue, which then keeps its jobs from other nodes,
// and not for this node.
func (s *session) ask(ctx context.Context, silent bool) (sent moment, res queue.BeatResult, err error) {
	if silent {
		if _, err := s.w.cfg.Queue.Adopt(ctx, s.id); err != nil {
			return moment{}, queue.BeatResult{}, err
		}
	}
	sent = s.w.moment()
	res, err = s.w.cfg.Queue.Beat(ctx, s.id)
	return sent, res, err
}

// renew takes in that the queue keeps the session for ttl from sent on. It is false when that is
// over already.
func (s *session) renew(sent moment, ttl time.Duration) bool {
	s.mu.Lock()
	s.renewed, s.good = sent, ttl-s.w.pace.margin()
	s.mu.Unlock()
	if s.left() <= 0 {
		s.fence(whySilent)
		return false
	}
	s.mu.Lock()
	s.fenced = false
	s.mu.Unlock()
	return true
}

// fence stops the session's jobs and logs why, once: it may be reaped soon, or is gone. Should it
// turn out to live, their acks still count.
func (s *session) fence(why string) {
	s.mu.Lock()
	was := s.fenced
	s.fenced = true
	s.mu.Unlock()
	if was {
		return
	}
	s.w.cfg.Log.Warn("running jobs are stopped: their leases can no longer be trusted", "session", s.id, "why", why)
	s.w.report(Event{Kind: SessionLost, Text: why})
	s.w.stopJobs(errSession, func(j *job) bool { return j.session == s })
}

// lose ends the session for good: its jobs are stopped, and nothing is acknowledged with it again.
func (s *session) lose(err error) {
	close(s.gone)
	s.fence(err.Error())
}

// cancelJobs stops jobs of a cancelled run.
func (w *Worker) cancelJobs(ids []core.JobID, s *session) {
	if len(ids) == 0 {
		return
	}
	set := make(map[core.JobID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.running {
		if j.session == s && set[j.lease.Job] {
			j.cancelRun(w.patience())
		}
	}
}
