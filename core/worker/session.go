package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// Times of the session.
const (
	beatRetry   = 500 * time.Millisecond // between beats that get no answer
	callTimeout = 3 * time.Second        // of one call of the queue that does not wait
)

// pace is how often a node speaks to the queue. A simulation of days sets it slower, queue and all.
type pace struct {
	beat time.Duration // between beats
	ttl  time.Duration // after which a silent session is gone
	look time.Duration // an idle node looks at least so often
}

// margin is how long before the session may be reaped its jobs are stopped.
func (p pace) margin() time.Duration { return p.ttl / 4 }

// Why jobs were told to end.
var (
	errCancelled = errors.New("the run was cancelled")
	errSession   = errors.New("the worker lost its right to the job: the queue did not hear from it in time")
	errKilled    = errors.New("the worker was stopped at once")
	errTimeout   = errors.New("time limit of the step")
)

// session is one session of the worker and the goroutine that keeps it alive.
// A session is trusted while its last answered beat is younger than its TTL less a
// margin, on the local monotonic clock: the queue's promise is counted from when the beat
// was sent. When trust ends jobs are stopped, before another node may get them.
type session struct {
	w    *Worker
	id   string
	gone chan struct{} // closed when the queue has given the session up
	done chan struct{} // closed when the beat goroutine has ended
	quit context.CancelFunc

	mu     sync.Mutex
	fenced bool
}

// openSession opens a session and starts its beat.
func openSession(ctx context.Context, w *Worker) (*session, error) {
	sent := time.Now()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id, err := w.cfg.Queue.Open(call, w.cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	beating, quit := context.WithCancel(context.WithoutCancel(ctx))
	s := &session{w: w, id: id, gone: make(chan struct{}), done: make(chan struct{}), quit: quit}
	go s.beat(beating, sent.Add(w.pace.ttl))
	return s, nil
}

// end stops the beat and joins it.
func (s *session) end() {
	s.quit()
	<-s.done
}

// trusted tells whether new jobs may be started under the session.
func (s *session) trusted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.fenced
}

func (s *session) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

func (s *session) beat(ctx context.Context, safe time.Time) {
	defer close(s.done)
	timer := time.NewTimer(s.w.pace.beat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		sent := time.Now()
		limit := min(s.w.pace.beat, max(time.Until(safe.Add(-s.w.pace.margin())), beatRetry))
		call, cancel := context.WithTimeout(ctx, limit)
		res, err := s.w.cfg.Queue.Beat(call, s.id)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, core.ErrSessionGone):
			s.lose(err)
			return
		case err != nil:
			s.w.queueAway(err)
			left := time.Until(safe.Add(-s.w.pace.margin()))
			if left <= 0 {
				s.fence("the queue was silent for so long that other nodes may soon get this node's jobs")
				left = beatRetry
			}
			timer.Reset(min(left, beatRetry))
		default:
			s.w.clock.tell(sent, res.Now)
			safe = sent.Add(res.Until.Sub(res.Now))
			s.unfence()
			s.w.queueBack()
			s.w.cancelJobs(res.Stop, s)
			timer.Reset(s.w.pace.beat)
		}
	}
}

// fence stops the session's jobs and says why, once: it may be reaped soon, or is gone. Should
// it turn out to live, their acks still count.
func (s *session) fence(why string) {
	s.mu.Lock()
	was := s.fenced
	s.fenced = true
	s.mu.Unlock()
	if was {
		return
	}
	s.w.cfg.Log.Warn("running jobs are stopped: their leases can no longer be trusted", "session", s.id, "why", why)
	s.w.say(Event{Kind: SessionLost, Text: why})
	s.w.stopJobs(errSession, func(j *job) bool { return j.session == s })
}

func (s *session) unfence() {
	s.mu.Lock()
	s.fenced = false
	s.mu.Unlock()
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
	w.stopJobs(errCancelled, func(j *job) bool { return j.session == s && set[j.lease.Job] })
}
