package worker

import (
	"context"
	"time"
)

// armWaiter starts waiting for work where there are slots for it.
func (p *poller) armWaiter(ctx context.Context) {
	if time.Until(p.pollAt) <= waitMargin {
		return // the next look is too near to wait for anything before it
	}
	if p.waiter != nil || p.session == nil || p.draining || time.Now().Before(p.retryAt) || p.free() == 0 || p.want() == 0 {
		return
	}
	waiting, stop := context.WithCancel(ctx)
	p.stopWait = stop
	done := make(chan struct{})
	p.waiter = done
	id, until, pause := p.session.id, p.pollAt.Add(p.skew-waitMargin), p.pace()
	go func() {
		defer close(done)
		defer stop()
		if pause > 0 {
			select {
			case <-waiting.Done():
			case <-time.After(pause):
			}
		}
		err := p.w.cfg.Queue.Wait(waiting, id, until)
		if waiting.Err() == nil {
			p.hint <- err
		}
	}()
}

// pace keeps a wait that returns immediately, again and again, from spinning.
func (p *poller) pace() time.Duration {
	if p.quick < 4 {
		return 0
	}
	return min(time.Millisecond<<min(p.quick-4, 10), 100*time.Millisecond)
}

func (p *poller) onHint(err error) {
	<-p.waiter
	p.waiter = nil
	if err != nil {
		p.w.queueAway(err)
		p.retryAt = time.Now().Add(turnRetry)
	}
	p.quick++ // a lease resets it
	if time.Now().After(p.pollAt.Add(-2 * waitMargin)) {
		p.quick = 0 // it waited its time
	}
	p.hinted = true
}

func (p *poller) endWaiter() {
	if p.waiter == nil {
		return
	}
	p.stopWait()
	<-p.waiter
	p.waiter = nil
	select {
	case <-p.hint: //nolint:errcheck // the turn that a hint brings meets the same error
		p.hinted = true
	default:
	}
}
