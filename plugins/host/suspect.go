package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/turnus/turnus/core"
)

// maxPoison bounds how many hosts a pool remembers as deadly.
const maxPoison = 1000

// deadly names what a process dies of: one job type on one host.
type deadly struct{ jobType, host string }

func (c *Call) deadly() deadly { return deadly{c.Type, c.Host.Name} }

// deathError is the end of a call by the end of its process.
type deathError struct{ error }

func (e *deathError) Unwrap() error { return e.error }

// attempts calls the job type until the end is the call's own. A process that dies takes all its
// calls along, and nobody knows which of them killed it: those that may be repeated are called
// again, each alone in a process, until one kills its process again.
func (s *Supervisor) attempts(ctx context.Context, t jobType, c *Call) (Outcome, error) {
	touched := false
	for {
		tried := s.once(ctx, t, c, touched)
		if tried.touched {
			touched = true
		}
		if touched && tried.out.Effects == EffectsNone {
			tried.out.Effects = EffectsUnknown // of an earlier try
		}
		if !tried.victim || tried.unsaved && !t.repeatable() || ctx.Err() != nil {
			return tried.out, tried.err
		}
		if tried.saved != nil {
			again := *c
			c, again.State = &again, tried.saved
		}
		if c.Sink != nil {
			c.Sink(Event{Level: slog.LevelWarn, Log: fmt.Sprintf("the process of plugin %s died under %s and other calls; this call is repeated in a process of its own",
				t.pool.plugin.Name, c.Type)})
		}
	}
}

func (t jobType) repeatable() bool { return t.Idempotent || t.OnLost == "retry" }

// try is one call of a job type.
type try struct {
	out     Outcome
	err     error
	victim  bool   // its process died, and other calls were in it
	touched bool   // it was allowed something that may change its host
	unsaved bool   // it was so after its last checkpoint, or without one
	saved   *State // of its last checkpoint
}

// blame notes what the death of q means for a call of it. Call it before the call frees its slot.
func (p *pool) blame(q *process, c *Call) (victim bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return false // it was killed, and nothing is repeated
	}
	if q.calls > 1 {
		q.crowded = true
	}
	if q.crowded {
		p.suspects[c.deadly()] = true
		return true
	}
	now := p.timing.now()
	if _, known := p.poison[c.deadly()]; !known {
		p.log.Error("plugin process dies of one host: its calls run alone from now on", "plugin", p.plugin.Name, "type", c.Type, "host", c.Host.Name, "for", breakerWindow)
		maps.DeleteFunc(p.poison, func(_ deadly, since time.Time) bool { return now.Sub(since) > breakerWindow })
		if len(p.poison) >= maxPoison {
			clear(p.poison)
		}
		clear(p.suspects) // whose death is explained
		for _, w := range p.waiting {
			w.alone = false
		}
	}
	p.poison[c.deadly()] = now
	p.serveLocked()
	return false
}

// aloneLocked reports whether a call must have a process to itself.
func (p *pool) aloneLocked(c *Call) bool {
	since, known := p.poison[c.deadly()]
	return known && p.timing.now().Sub(since) <= breakerWindow || p.suspects[c.deadly()]
}

// worked notes a call that came to an end of its own.
func (p *pool) worked(c *Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.healthy = true
	delete(p.suspects, c.deadly())
	delete(p.poison, c.deadly())
}

// diedLocked counts a death, how it came about is in p.last. One that follows calls which completed
// is a host's and not the plugin's: it delays no call.
func (p *pool) diedLocked() {
	p.deaths++
	if !p.healthy {
		now := p.timing.now()
		_, before := p.restart.wait(now)
		p.restart.died(now)
		if d, refuse := p.restart.wait(now); refuse && !before {
			p.log.Error("plugin is suspended: its calls are refused", "plugin", p.plugin.Name, "version", p.plugin.Version, "for", d.Round(time.Second), "last_death", p.last)
		}
	}
	p.healthy = false
}

// once calls the job type in a process that has room for it. again is for a call that has touched
// its host.
func (s *Supervisor) once(ctx context.Context, t jobType, c *Call, again bool) try {
	pool := t.pool
	p, err := pool.acquire(ctx, c)
	if err == nil {
		defer pool.release(p)
	}
	if ctxErr := ctx.Err(); ctxErr != nil { // acquire does not check it if a process has room
		return try{out: ended(ctxErr, " before it began", EffectsNone)}
	}
	if err != nil && again {
		out, err := crashed(fmt.Errorf("%w: its process died, and it could not be repeated: %w", core.ErrPluginFailed, err))
		return try{out: out, err: err}
	}
	if err != nil {
		return try{out: unbegun(err), err: err}
	}
	if err := pool.hide(p, c.Hidden); err != nil {
		return try{out: unbegun(err), err: err}
	}
	if c.MayBegin != nil {
		if why := c.MayBegin(ctx); why != "" {
			return try{out: unready(c, why)}
		}
	}
	if err := c.live(); err != nil {
		return try{out: Outcome{Cancelled: true, Reason: "cancelled before it began: " + err.Error(), Effects: EffectsNone}}
	}
	lease := p.services.grant(c)
	out, err := pool.call(ctx, p, lease)
	if err == nil {
		out = lease.refused(out)
		pool.worked(c)
		if bad := t.outputs.check(out.Outputs); bad != nil && !out.Failed && !out.Cancelled && !out.Suspended {
			out = Outcome{Failed: true, Reason: bad.Error(), Effects: EffectsUnknown, Misfit: true}
		}
	}
	grace := s.timing.grace
	if at, _ := ctx.Deadline(); errors.Is(ctx.Err(), context.DeadlineExceeded) { // a retry may follow
		grace = max(grace, 2*grace-time.Since(at))
	}
	lease.end(grace) // before the slot is given back
	if err == nil {
		out = lease.mayRun(out, t.repeatable())
	}
	tried := lease.tried()
	tried.out, tried.err = out, err
	tried.out.Barred = lease.barred()
	if lost := lease.lost(); lost != nil {
		tried.out, tried.err = Outcome{Cancelled: true, Reason: lost.Error(), Effects: EffectsUnknown}, lost
	}
	if _, died := err.(*deathError); died { //nolint:errorlint // it is never wrapped
		tried.victim = pool.blame(p, c)
	}
	return tried
}
