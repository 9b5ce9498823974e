package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/telemetry"
)

// Acceptance asks for a run to be made durable.
type Acceptance struct {
	Launch      *launch.Launch
	By          string       // who launched it
	Key         string       // makes it idempotent within the tenant; "" for none
	Request     []byte       // what was asked for; see ledger.NewRun
	Exec        *ledger.Exec // of a run of one command, for the audit log
	Criticality *int         // instead of the playbook's
	Approvals   int          // of other people, before it starts
	Paused      bool         // starts nothing before it is resumed; not together with Approvals
}

// Record returns the ledger's record of the run.
func (a *Acceptance) Record() (ledger.NewRun, error) {
	l := a.Launch
	encoded, err := launch.EncodeRun(l.Run)
	if err != nil {
		return ledger.NewRun{}, err
	}
	jobs := core.Map(l.Hosts, func(h core.Host) ledger.JobHost { return ledger.JobHost{Host: h.Name, Tenant: h.Customer} })
	n := ledger.NewRun{
		ID: l.Run.ID, Tenant: l.Run.Tenant, Playbook: l.Playbook.Name, Revision: l.Snapshot.Revision, LaunchedBy: a.By,
		Created: l.Snapshot.Launched, Criticality: l.Playbook.Criticality, Approvals: a.Approvals, Paused: a.Paused, Check: l.Snapshot.Check, Key: a.Key, Request: a.Request, Exec: a.Exec, Reason: l.Snapshot.Reason,
		Sources: l.Snapshot.Sources, Jobs: jobs, Snapshot: l.Run.Payload, Queue: encoded,
	}
	if l.FourEyes != "" {
		n.Approvals = max(n.Approvals, 1)
	}
	if a.Criticality != nil {
		n.Criticality = *a.Criticality
	}
	return n, nil
}

// Accept makes a run durable. When it returns without an error, the run happens, also if processes
// die; it need not be in the queue yet, which may be away. created is false for the same request
// again.
func (c *Controller) Accept(ctx context.Context, a Acceptance) (run ledger.Run, created bool, err error) {
	one := c.AcceptAll(ctx, a)[0]
	return one.Run, one.Created, one.Err
}

// AcceptAll is Accept of several runs, in as few transactions as possible. Each has its own answer.
func (c *Controller) AcceptAll(ctx context.Context, all ...Acceptance) []ledger.Accepted {
	out := make([]ledger.Accepted, len(all))
	var records []ledger.NewRun
	var of []int // index of each record's acceptance
	for i := range all {
		n, err := all[i].Record()
		if err != nil {
			out[i].Err = err
			continue
		}
		records, of = append(records, n), append(of, i)
	}
	if c.cfg.Alone {
		c.mu.Lock()
		for i := range records {
			c.own[records[i].ID] = true
		}
		c.mu.Unlock()
	}
	spans := make([]trace.Span, len(records))
	for i := range records {
		_, spans[i] = telemetry.StartSpan(ctx, telemetry.SpanAccept, telemetry.AttributeRun.String(records[i].ID), telemetry.AttributeTenant.String(records[i].Tenant))
	}
	var fresh []ledger.Run
	for i, written := range c.creates.do(ctx, records...) {
		one := written.out
		if written.err != nil {
			one.Err = written.err
		}
		telemetry.EndSpan(spans[i], one.Err)
		if one.Err != nil {
			one = ledger.Accepted{Err: fmt.Errorf("accept run %s of %s: %w", records[i].ID, records[i].Playbook, one.Err)}
		}
		if one.Created {
			c.launches.put(newHeld(&one.Run, all[of[i]].Launch))
			fresh = append(fresh, one.Run)
		}
		out[of[i]] = one
	}
	c.Accepted(fresh...)
	return out
}

// Accepted counts runs that are new in the ledger, and has them queued soon.
func (c *Controller) Accepted(runs ...ledger.Run) {
	if c.cfg.Measure.Accepted != nil {
		for i := range runs {
			c.cfg.Measure.Accepted(runs[i].Tenant, runs[i].Total)
		}
	}
	c.Notify()
}

// Amend replaces what a run is, before any queue has had it: version is the one that the caller
// read. Approvals that it had are void. A run that was queued already is core.ErrConflict.
func (c *Controller) Amend(ctx context.Context, s ledger.Scope, who, id string, version int64, a Acceptance) (ledger.Run, error) {
	n, err := a.Record()
	if err != nil {
		return ledger.Run{}, err
	}
	run, err := c.cfg.Ledger.Amend(ctx, s, who, id, ledger.Amendment{Version: version, New: n})
	if err != nil {
		return ledger.Run{}, err
	}
	c.Notify()
	return run, nil
}

// Cancel ends a run. When it returns, no job of it will start, unless late is true: the ledger has
// the cancel, the queue does not answer, and the first server that reaches the queue passes it on.
// Without a reason the run and its hosts name who cancelled it. seen is as of ledger.SetPhase.
func (c *Controller) Cancel(ctx context.Context, s ledger.Scope, who, id, reason string, seen ...int64) (run ledger.Run, late bool, err error) {
	if strings.TrimSpace(reason) == "" && who != "" {
		reason = "cancelled by " + who
	}
	written := c.cancels.do(ctx, ledger.Cancellation{Scope: s, Who: who, ID: id, Reason: core.Because("", reason), Seen: cmp.Or(seen...)})[0]
	if err := cmp.Or(written.err, written.out.Err); err != nil {
		return ledger.Run{}, false, err
	}
	run = written.out.Run
	if run.Incarnation != "" && !run.Complete() {
		late, err = c.inQueue(ctx, func(ctx context.Context) error { return c.cfg.Queue.Cancel(ctx, id, run.Reason) })
	}
	c.attention(id)
	return run, late, err
}

// SetShares changes what a run may use of the workers. The ledger has it first, so a queue that is
// filled again also gets it. After an error of the queue the run continues there as before: call it
// again.
func (c *Controller) SetShares(ctx context.Context, s ledger.Scope, id string, to ledger.Shares, seen ...int64) (ledger.Run, error) {
	run, err := c.cfg.Ledger.SetShares(ctx, s, id, to, seen...)
	if err != nil || run.Incarnation == "" {
		return run, err
	}
	return run, queue.AdjustOne(ctx, c.cfg.Queue, id, queue.Adjust{Weight: to.Weight, MaxInFlight: to.MaxInFlight})
}

// Pause keeps a run from starting jobs; those that run continue. late and seen are as of Cancel.
func (c *Controller) Pause(ctx context.Context, s ledger.Scope, who, id, reason string, seen ...int64) (run ledger.Run, late bool, err error) {
	return c.setPaused(ctx, s, who, id, ledger.PhasePaused, reason, seen)
}

// Resume lets a run continue. late and seen are as of Cancel.
func (c *Controller) Resume(ctx context.Context, s ledger.Scope, who, id, reason string, seen ...int64) (run ledger.Run, late bool, err error) {
	return c.setPaused(ctx, s, who, id, ledger.PhaseActive, reason, seen)
}

func (c *Controller) setPaused(ctx context.Context, s ledger.Scope, who, id string, phase ledger.Phase, reason string, seen []int64) (run ledger.Run, late bool, err error) {
	if phase == ledger.PhaseActive {
		run, err := c.cfg.Ledger.Run(ctx, s, id)
		if err != nil {
			return ledger.Run{}, false, err
		}
		switch { // of one that no queue has had
		case run.Incarnation == "" && run.Phase == ledger.PhaseQueued: // nothing holds it; active, it would be taken for one whose queue was lost
			return run, false, run.IsAt(cmp.Or(seen...))
		case run.Incarnation == "" && run.Phase == ledger.PhasePaused:
			phase = ledger.PhaseQueued
		}
	}
	run, err = c.cfg.Ledger.SetPhase(ctx, s, who, id, phase, core.Because("", reason), seen...)
	if err != nil {
		return ledger.Run{}, false, err
	}
	if run.Incarnation != "" {
		late, err = c.inQueue(ctx, func(ctx context.Context) error {
			if phase == ledger.PhasePaused {
				return c.setQueuePaused(ctx, id, true)
			}
			return c.letGo(ctx, &run)
		})
	}
	c.attention(id)
	c.Notify()
	return run, late, err
}

// Decide takes a person's word on a run that waits for it, or on its next wave. It is also the run
// of those behind it.
func (c *Controller) Decide(ctx context.Context, s ledger.Scope, id string, d ledger.Decision, behind ...string) (ledger.Run, error) {
	run, err := c.cfg.Ledger.Decide(ctx, s, id, d, behind...)
	if err != nil {
		return ledger.Run{}, err
	}
	c.attention(id)
	c.Notify()
	return run, nil
}

// AskedFor returns the wave of a run, from 0, for the approval of which a person was asked last; 0
// if nobody was asked.
func AskedFor(run *ledger.Run) int {
	progress, _ := engine.DecodeProgress(run.Progress) // zero if nobody can read it: its waves begin again, and it asks again
	return progress.Asked
}

// reportFor is how long a person waits for the queue after the ledger has what they asked for.
const reportFor = 2 * time.Second

// inQueue applies a change to the queue immediately that the ledger has and brings about anyway.
// late means that the queue does not answer; a queue without the run starts nothing of it.
func (c *Controller) inQueue(ctx context.Context, report func(context.Context) error) (late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reportFor)
	defer cancel()
	err = report(ctx)
	switch {
	case errors.Is(err, core.ErrUnavailable), errors.Is(err, core.ErrUnknown), err != nil && ctx.Err() != nil:
		c.Notify()
		return true, nil
	case errors.Is(err, core.ErrNotFound):
		c.Notify()
		return false, nil
	}
	return false, err
}
