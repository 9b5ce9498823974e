package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

func (p *poller) startDrain() {
	if p.draining {
		return
	}
	p.draining = true
	p.endWaiter()
	close(p.w.drain)
	n := p.count()
	p.w.cfg.Log.Info("draining: no new jobs are taken", "running", n)
	p.w.report(Event{Kind: Draining, Text: fmt.Sprintf("%d jobs run", n)})
}

func (p *poller) startKill() {
	if p.killed {
		return
	}
	p.startDrain()
	p.killed, p.killedAt = true, time.Now()
	p.w.stopJobs(errKilled, func(*job) bool { return true })
}

// giveUpStuck ends jobs whose job type did not return although it was asked to. Their goroutines
// stay and count against the concurrency, but their runs can be completed.
func (p *poller) giveUpStuck(now time.Time) {
	if now.Before(p.stuckAt) {
		return
	}
	p.stuckAt = now.Add(p.w.pace.poll)
	p.w.mu.Lock()
	var stuck []*job
	for _, j := range p.w.running {
		if !j.stuck && j.overdue(now) {
			j.stuck = true
			stuck = append(stuck, j)
		}
	}
	p.w.mu.Unlock()
	for _, j := range stuck {
		p.stuck++
		p.w.cfg.Log.Error("job type did not end when it was asked to; the job ends as lost", "job", j.lease.Job.String(), "host", j.lease.Host)
		if ack := j.givenUp(); j.session == p.session {
			p.ack(ack)
		}
	}
}

// over reports whether a drain is done.
func (p *poller) over(now time.Time) bool {
	if !p.draining {
		return false
	}
	if p.count() > p.stuck {
		return false
	}
	return len(p.acks) == 0 && !p.hinted || p.session == nil || p.killed && now.Sub(p.killedAt) > p.w.patience()+giveUp
}

// close ends the node, see run.
func (p *poller) close(ctx context.Context) error {
	p.endWaiter()
	var errs []error
	if p.session != nil {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		if err := p.w.cfg.Queue.Close(call, p.session.id); err != nil && !errors.Is(err, core.ErrSessionGone) {
			errs = append(errs, fmt.Errorf("close session: %w; its jobs are recovered within %v", err, queue.SessionTTL))
		}
		cancel()
		p.session.end()
	}
	if n := len(p.acks); n > 0 {
		errs = append(errs, fmt.Errorf("%d results could not be given to the queue: %w", n, core.ErrUnavailable))
	}
	if p.stuck > 0 {
		names := core.Map(p.w.Running(), func(r Running) string { return fmt.Sprintf("%s on %s in step %q", r.Job, r.Host, r.Step) })
		errs = append(errs, fmt.Errorf("jobs that did not end: %s: %w", strings.Join(names, ", "), core.ErrTimeout))
	}
	return errors.Join(errs...)
}
