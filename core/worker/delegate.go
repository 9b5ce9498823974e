package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// guestAgain is the pause before a job asks again whether the host of a step with on is free.
const guestAgain = 200 * time.Millisecond

// delegate returns the host on which a step is called: that of the job, or the one that its on
// gives, with its own address, login, become and window set. The launch has chosen among which.
func (m *machine) delegate(s playbooks.Step) (core.Host, error) {
	name, err := s.Delegate(m.env)
	switch {
	case err != nil:
		return core.Host{}, err
	case name == m.host.Name:
		return m.host, nil
	case name == "":
		return core.Host{}, s.Misplaced(m.host, "gives no host", "the name of a host of the inventory", "give the step a when that is false on such hosts")
	}
	h, err := m.prog.snapshot.Delegate(name, m.host)
	if err != nil {
		return core.Host{}, fmt.Errorf("on: %w", err)
	}
	return h, nil
}

// delegated reports whether the step is called on another host than the job's.
func (a *attempts) delegated() bool { return a.host.Name != a.m.host.Name }

// guest names the job on the step's host.
func (a *attempts) guest() queue.Guest {
	j := a.m.job
	return queue.Guest{Session: j.session.id, Job: j.lease.Job, Token: j.lease.Token, Host: a.host.Name}
}

// enter makes the job the guest of the step's host. While another job is, it waits here for a
// short time, and then suspended. A step of always waits here, so that a cancelled run ends soon.
func (a *attempts) enter() *leaseEnd {
	if !a.delegated() || a.fence > 0 {
		return nil
	}
	j, patience := a.m.job, time.Now().Add(inPlace)
	for {
		call, cancel := context.WithTimeout(j.ctx, callTimeout)
		fence, err := j.w.cfg.Queue.Enter(call, a.guest())
		cancel()
		if fence > 0 && err == nil {
			a.fence = fence
			j.isGuest(a.guest(), fence)
			return a.saveGuest()
		}
		if v, stop := a.m.between(a.name); stop {
			return &v
		}
		if err != nil && !core.NoAnswer(err) {
			v := a.m.setAside(core.ErrorText(err))
			return &v
		}
		if !time.Now().Before(patience) && !j.isShielded() {
			return a.awaitGuest(err)
		}
		core.Pause(j.ctx, guestAgain, a.m.draining())
	}
}

// saveGuest makes durable, before the step is called, that the job works on the other host. The
// record of a job that is lost meanwhile names that host.
func (a *attempts) saveGuest() *leaseEnd {
	if a.cur.On == a.host.Name {
		return nil
	}
	a.cur.On = a.host.Name
	a.m.job.ahead = true // even when no answer comes
	s := *a.m.state
	s.Took += time.Since(a.m.job.started)
	err := a.m.job.save(a.m.job.ctx, &s)
	if err == nil {
		return nil
	}
	a.cur.On = ""
	if v, stop := a.m.between(a.name); stop {
		return &v
	}
	v := a.m.setAside(core.ErrorText(err))
	return &v
}

// awaitGuest suspends the job, with its locks: it is between two steps of its own host.
func (a *attempts) awaitGuest(err error) *leaseEnd {
	why := core.Because(core.GuestHeld, fmt.Sprintf("host %s has another guest: a step with on of another job", a.host.Name))
	if err != nil {
		why = core.Because(core.QueueAway, "the queue does not report whether host "+a.host.Name+" has another guest: "+core.ErrorText(err))
	}
	return &leaseEnd{
		kind: queue.AckSuspend, step: a.name, code: why.Code(), reason: why.Text(), event: snapshot.EventGuest, keepLocks: true,
		after: leastPause + rand.N(leastPause), //nolint:gosec // spread, no secret
	}
}

// leave lets the next guest in. If that fails, the end of the lease does.
func (a *attempts) leave() {
	if a.fence == 0 {
		return
	}
	j := a.m.job
	call, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), callTimeout)
	defer cancel()
	j.guestMu.Lock()
	defer j.guestMu.Unlock()
	j.guest = queue.Guest{}
	if err := j.w.cfg.Queue.Leave(call, a.guest()); err != nil && !errors.Is(err, core.ErrSessionGone) {
		j.w.cfg.Log.Warn("a host has its guest until the end of the lease", "job", j.lease.Job.String(), "host", a.host.Name, "err", err)
	}
}

// isGuest notes that the job is the guest of a host.
func (j *job) isGuest(g queue.Guest, fence uint64) {
	j.guestMu.Lock()
	defer j.guestMu.Unlock()
	j.guest, j.guest.Fence = g, fence
}

// enterAgain has the queue note again that the job is the guest of a host, if it is one. A job that
// cannot be the guest any more is stopped: another one may be at work there.
func (j *job) enterAgain(ctx context.Context) error {
	j.guestMu.Lock()
	defer j.guestMu.Unlock()
	if j.guest.Host == "" {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	fence, err := j.w.cfg.Queue.Enter(call, j.guest)
	if errors.Is(err, core.ErrConflict) || err == nil && fence == 0 {
		j.stop(errNoGuest, j.w.patience())
		return nil
	}
	return err
}

// guestsEnterAgain does that for the jobs of the session.
func (p *poller) guestsEnterAgain(ctx context.Context) error {
	p.w.mu.Lock()
	jobs := slices.Collect(maps.Values(p.w.running))
	p.w.mu.Unlock()
	for _, j := range jobs {
		if j.session != p.session {
			continue
		}
		if err := j.enterAgain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere completes the result of a step that another host than the job's gave: that such a host
// is not reached is the step's failure, for the job's own host may well be.
func (a *attempts) elsewhere(sr core.StepResult) core.StepResult {
	if !a.delegated() {
		return sr
	}
	sr.On = a.host.Name
	if sr.Outcome == core.Unreachable {
		sr.Outcome = core.Failed
	}
	return sr
}

// located is the reason of a bad end, with the host if that is not the job's own.
func (a *attempts) located(reason string) string {
	if !a.delegated() {
		return reason
	}
	return fmt.Sprintf("on %s: %s", a.host.Name, reason)
}
