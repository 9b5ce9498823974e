package server

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
)

func (s *Server) explainJob(ctx context.Context, by caller, in *JobPath) (*body[api.Explanation], error) {
	job, err := s.cfg.Ledger.Job(ctx, by.scope, in.id())
	if err != nil {
		return nil, err
	}
	e := api.Explanation{Run: job.Run, Index: job.Index, Host: job.Host, State: core.Done}
	if job.Outcome != "" {
		e.Reason, e.ReasonCode = queue.WhyEnded(job.Outcome, core.Reason(job.Reason)).Text(), job.ReasonCode
		return &body[api.Explanation]{e}, nil
	}
	run, err := s.cfg.Ledger.Run(ctx, ledger.AllTenants(), job.Run)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	unworked := s.unworked(asking)
	why := whyPending(s.standing(asking, by.scope, &run, in.id()), unworked)
	e.State, e.Reason, e.ReasonCode, e.Worker, e.Since, e.Until = why.State, why.Reason, why.ReasonCode, why.Worker, why.Since, why.Until
	s.explain(ctx, &run, &e, unworked)
	return &body[api.Explanation]{e}, nil
}

// explain adds what keeps a job from starting, and when it is expected to. Parts that cannot be
// read are left out.
func (s *Server) explain(ctx context.Context, run *ledger.Run, e *api.Explanation, unworked string) {
	shown := runOf(*run)
	h := held{run: &shown, index: e.Index, why: *e, unworked: unworked}
	if made, err := s.estimate(ctx, run); err == nil {
		h.window, e.Starts = made.host(e.Index)
		e.Window = h.window
	}
	if run.Incarnation != "" && s.cfg.Controller.Away() == nil {
		asking, cancel := context.WithTimeout(ctx, liveTime)
		defer cancel()
		st, err := s.cfg.Queue.Status(asking, run.ID)
		if err == nil {
			h.plan, err = s.planOf(ctx, run)
		}
		if err != nil {
			return
		}
		_, shown.Waits = s.waveOf(asking, h.plan, run, st)
		h.status, h.plan.shares = &st, h.plan.shares.of(*run)
		if e.ReasonCode == core.AwaitsOnce {
			h.once = s.callers(asking, run)
		}
		if e.State == core.Pending {
			ahead := max(st.Pending-(st.Total-e.Index), 0)
			e.Ahead = &ahead
		}
	}
	if e.Blocks = h.blocks(); len(e.Blocks) == 0 && h.why.State != core.Pending {
		e.Starts = nil // it has started
	}
}

// callers returns which hosts call the steps with once of a run that have no result yet.
func (s *Server) callers(ctx context.Context, run *ledger.Run) (texts []string) {
	steps, err := s.cfg.Ledger.Once(ctx, run)
	if err != nil {
		return nil
	}
	l, err := s.restore(ctx, run.ID)
	if err != nil {
		return nil
	}
	for _, o := range steps {
		if !o.Known && o.Step < len(l.Playbook.Steps) && o.Job < len(l.Hosts) {
			host := l.Hosts[o.Job].Name
			texts = append(texts, fmt.Sprintf("host %s calls step %s for the whole run: turnus runs explain %s %s", host, l.Playbook.Steps[o.Step].Name, run.ID, host))
		}
	}
	return texts
}

// held is the data by which blocks decides.
type held struct {
	run      *api.Run
	status   *queue.Status // nil: the run is not in the queue
	plan     plan
	index    int
	why      api.Explanation
	window   *api.HostWindow
	unworked string   // why no worker takes a job
	once     []string // which hosts call the steps with once that have no result yet
}

// blocks lists all that keeps a job from starting, by what has to happen first.
func (h held) blocks() (all []api.Block) {
	add := func(cause core.ReasonCode, format string, args ...any) {
		all = append(all, api.Block{Cause: cause, Text: fmt.Sprintf(format, args...)})
	}
	if h.run.Phase == api.Approval {
		add(core.AwaitsApproval, "its run waits for an approval: turnus runs approve %s", h.run.ID)
	}
	if h.status == nil {
		if h.run.Phase != api.Approval {
			add(core.NotQueued, "its run is not in the queue")
		}
		return all
	}
	if h.why.State != core.Pending && h.why.State != core.Blocked && h.why.State != core.Suspended {
		return nil // it runs, or begins again without a person
	}
	if h.why.ReasonCode == core.RunOver { // neither waves nor windows count any more
		add(core.RunOver, "%s", h.why.Reason)
		if h.unworked != "" {
			add(core.NoWorker, "%s", h.unworked)
		}
		return all
	}
	if h.status.Phase == queue.Paused {
		add(core.RunPaused, "its run is paused: turnus runs resume %s", h.run.ID)
	}
	if h.index >= h.status.Limit {
		wave := rollout.Wave(h.plan.limits, h.index) + 1
		if waits := h.run.Waits; waits != nil && waits.Wave == wave {
			add(core.AwaitsApproval, "wave %d of %d waits for an approval: turnus runs approve %s --wave %d", wave, h.plan.waves, h.run.ID, wave)
		} else {
			add(core.WaveClosed, "wave %d of %d is not released", wave, max(h.plan.waves, wave))
		}
	}
	if w := h.window; w != nil && !w.Opens.IsZero() {
		add(core.WindowClosed, "window set %s opens at %s", w.Set, w.OpensLocal)
	} else if w != nil && w.Reason != "" {
		add(core.WindowClosed, "window set %s: %s", w.Set, w.Reason)
	}
	for _, text := range h.once {
		add(core.AwaitsOnce, "%s", text)
	}
	if h.why.State == core.Blocked {
		add(core.LockHeld, "%s", h.why.Reason)
	}
	if most := h.plan.shares.MaxInFlight; most > 0 && h.status.InFlight >= most {
		add(core.RunFull, "its run has %d jobs in flight, max_in_flight is %d", h.status.InFlight, most)
	}
	if h.unworked != "" {
		add(core.NoWorker, "%s", h.unworked)
	}
	if len(all) == 0 && h.why.State == core.Pending {
		add(core.NoSlot, "it is due, and waits for a worker with free concurrency")
	}
	return all
}
