package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/snapshot"
)

// once reads what the ledger has of the steps with once of a run. A result never changes, so
// results are read only as long as something is missing.
func (c *Controller) once(ctx context.Context, l *poll) error {
	h := l.held
	missing := false
	for _, step := range h.steps {
		missing = missing || !h.once[step].Known
	}
	if !missing {
		return nil
	}
	rows, err := c.cfg.Ledger.Once(ctx, &l.run)
	if err != nil {
		return err
	}
	for _, r := range rows {
		h.once[r.Step] = engine.Once{Step: r.Step, Job: r.Job, Known: r.Known}
	}
	return nil
}

// elect writes down which host calls a step with once: the first that came there, and has not ended
// since.
func (c *Controller) elect(ctx context.Context, l *poll, step int) error {
	first, err := c.onceNote(ctx, l, step, snapshot.OnceFirst)
	if errors.Is(err, core.ErrNotFound) { // they post it again
		return c.signalOnce(ctx, l, step, snapshot.AwaitElect)
	}
	if err != nil {
		return err
	}
	if ended, err := c.endedOnce(ctx, l, first.Job); err != nil {
		return err
	} else if ended {
		return c.passOver(ctx, l, step)
	}
	job, added, err := c.cfg.Ledger.ElectOnce(ctx, &l.run, step, first.Job)
	if err != nil {
		return err
	}
	if added { // it may have ended since then: no worker knows of the election unless the board has it
		ended, err := c.endedOnce(ctx, l, job)
		if err != nil {
			return err
		}
		if ended {
			_, err := c.onceNote(ctx, l, step, snapshot.OnceElected)
			if errors.Is(err, core.ErrNotFound) {
				err = c.cfg.Ledger.UnelectOnce(ctx, &l.run, step, job)
				if err == nil {
					return c.passOver(ctx, l, step)
				}
			}
			if err != nil {
				return err
			}
		}
	}
	l.held.once[step] = engine.Once{Step: step, Job: job}
	if err := c.shareOnce(ctx, l, step); err != nil {
		return err
	}
	return c.signalOnce(ctx, l, step, snapshot.AwaitElect)
}

// endedOnce reports whether a job has ended, and calls nothing any more.
func (c *Controller) endedOnce(ctx context.Context, l *poll, job int) (bool, error) {
	why, err := c.cfg.Queue.Explain(ctx, core.JobID{Run: l.run.ID, Index: job})
	return why.State == core.Done, err
}

// passOver withdraws the host that came first at a step with once: the others post again.
func (c *Controller) passOver(ctx context.Context, l *poll, step int) error {
	if _, err := c.cfg.Board.Post(ctx, snapshot.OnceFirst.Document(l.run.ID, step), nil, time.Second); err != nil {
		return err
	}
	return c.signalOnce(ctx, l, step, snapshot.AwaitElect)
}

// keepOnce writes down the result of a step with once.
func (c *Controller) keepOnce(ctx context.Context, l *poll, step int) error {
	called, err := c.onceNote(ctx, l, step, snapshot.OnceCalled)
	if errors.Is(err, core.ErrNotFound) { // its host posts it again
		return c.signalOnce(ctx, l, step, snapshot.AwaitKeep)
	}
	if err != nil {
		return err
	}
	data, err := called.Encode()
	if err != nil {
		return err
	}
	// A ledger in the place of a record that broke does not have the host.
	if _, _, err := c.cfg.Ledger.ElectOnce(ctx, &l.run, step, called.Job); err != nil {
		return err
	}
	if err := c.cfg.Ledger.KeepOnce(ctx, &l.run, step, called.Job, data); err != nil {
		return err
	}
	l.held.once[step] = engine.Once{Step: step, Job: called.Job, Known: true}
	if err := c.shareOnce(ctx, l, step); err != nil {
		return err
	}
	return errors.Join(c.signalOnce(ctx, l, step, snapshot.AwaitKeep), c.signalOnce(ctx, l, step, snapshot.AwaitResult))
}

// shareOnce posts for the workers what the ledger has of a step with once.
func (c *Controller) shareOnce(ctx context.Context, l *poll, step int) error {
	o := l.held.once[step]
	note := snapshot.OnceElected
	var data []byte
	var err error
	if o.Known {
		note = snapshot.OnceResult
		data, err = c.cfg.Ledger.OnceResult(ctx, &l.run, step)
	} else {
		data, err = snapshot.Once{Job: o.Job, Host: l.held.launch.Hosts[o.Job].Name}.Encode()
	}
	if err != nil {
		return err
	}
	_, err = c.cfg.Board.Post(ctx, note.Document(l.run.ID, step), data, snapshot.OnceKeep)
	return err
}

func (c *Controller) signalOnce(ctx context.Context, l *poll, step int, phase snapshot.OncePhase) error {
	_, err := c.cfg.Queue.Signal(ctx, l.run.ID, snapshot.OnceEvent(step, phase))
	if errors.Is(err, core.ErrNotFound) {
		return nil // the run has ended
	}
	return err
}

// onceNote reads what a worker posted about a step with once.
func (c *Controller) onceNote(ctx context.Context, l *poll, step int, note snapshot.OnceNote) (o snapshot.Once, err error) {
	data, _, err := c.cfg.Board.Posted(ctx, note.Document(l.run.ID, step), 0)
	if err == nil && len(data) == 0 {
		err = core.ErrNotFound
	}
	if err != nil {
		return o, err
	}
	if o, err = snapshot.DecodeOnce(data); err != nil {
		return o, err
	}
	if o.Job < 0 || o.Job >= len(l.held.launch.Hosts) {
		return o, fmt.Errorf("a worker reports that job %d of %d calls step %d: %w", o.Job, len(l.held.launch.Hosts), step, core.ErrInvalid)
	}
	return o, nil
}

// endOnce writes down results of steps with once that a run which ends has not on record yet, as
// that of a step that ended just before the run was cancelled, and takes the documents off the
// board.
func (c *Controller) endOnce(ctx context.Context, l *poll) error {
	if err := c.once(ctx, l); err != nil {
		return err
	}
	for _, step := range l.held.steps {
		o, elected := l.held.once[step]
		if elected && !o.Known {
			err := c.keepOnce(ctx, l, step)
			if errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrConflict) { // it must not keep the run from ending
				c.cfg.Log.Warn("the result of a step with once is not kept", "run", l.run.ID, "step", step, "error", err)
			} else if err != nil {
				return err
			}
		}
		for _, note := range snapshot.OnceNotes() {
			if _, err := c.cfg.Board.Post(ctx, note.Document(l.run.ID, step), nil, time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}
