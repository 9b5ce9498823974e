package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

// save makes s what the job's next lease begins with, should this node die. It returns once that is
// durable, and continues trying while the queue is away, until ctx ends: the beat stops the job in
// time. Not for concurrent use.
func (j *job) save(ctx context.Context, s *state) error {
	data, err := s.encode()
	if err != nil {
		return err
	}
	j.saves++
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err = j.w.cfg.Queue.Save(call, queue.Save{Session: j.session.id, Job: j.lease.Job, Token: j.lease.Token, Seq: j.saves, State: data})
		late := call.Err() != nil
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !late && !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrUnknown) {
			return fmt.Errorf("the state of the job was not saved: %w", err)
		}
		if cause := core.Sleep(ctx, turnRetry); cause != nil {
			return fmt.Errorf("the state of the job was not saved: %w: %w", cause, err)
		}
	}
}

// checkpoint makes the plugin's state durable, with all that came before it. The job's goroutine is
// in the call meanwhile, and changes nothing of the machine's.
func (a *attempts) checkpoint(ctx context.Context, plugin host.State) error {
	m := a.m
	if err := a.keepSecret(&plugin); err != nil {
		return err
	}
	s := *m.state
	s.Took += time.Since(m.job.started)
	s.Current.Plugin, s.Current.Resumed, s.Current.Held = &plugin, true, false
	m.job.ahead = true // even when no answer comes
	return m.job.save(ctx, &s)
}

// tryCatchUp is catchUp where the work continues all the same: what was done is repeated at worst,
// from its last checkpoint.
func (m *machine) tryCatchUp(step string) {
	if err := m.catchUp(); err != nil {
		m.job.w.cfg.Log.Warn("that a step is done is not on record yet", "job", m.job.lease.Job.String(), "step", step, "err", err)
	}
}

// catchUp brings what the queue keeps of the job up to date, where it knows of a checkpoint that
// lies behind: of a step, an item or an attempt that has ended. Without it a worker's death would
// let that continue.
func (m *machine) catchUp() error {
	if !m.job.ahead {
		return nil
	}
	s := *m.state
	s.Took += time.Since(m.job.started)
	if err := m.job.save(m.job.ctx, &s); err != nil {
		return err
	}
	m.job.ahead = false
	return nil
}
