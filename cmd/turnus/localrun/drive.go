package localrun

import (
	"context"
	"errors"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

// Begin starts what drives runs, until end is called, after the last Drive. end closes the record.
func (c *Conductor) Begin(ctx context.Context, types func(string) (playbooks.Type, bool)) (end func() error, err error) {
	record := c.record
	if record == nil {
		if record, err = memoryRecord(ctx); err != nil {
			return nil, err
		}
	}
	c.types = types
	ctl, err := c.controller(record)
	if err != nil {
		return nil, errors.Join(err, record.Close(ctx))
	}
	c.mu.Lock()
	c.record, c.ctl = record, ctl
	c.mu.Unlock()
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // runs outlive ctx: what runs must finish, and the rest be cancelled
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }()
	return func() error {
		stop()
		err := <-done
		c.asking.Wait()
		return errors.Join(err, record.Close(ctx), c.record.Close(ctx))
	}, nil
}

func (c *Conductor) controller(record *Record) (*controller.Controller, error) {
	return controller.New(controller.Config{
		Name: controllerName(c.shared), Ledger: record.Ledger, Queue: c.Q, Board: c.Q, Alone: true, Types: c.types, Windows: c.windows, Status: c.looked,
		Events: c.event, Measure: controller.Measure{Recorded: c.recorded},
	})
}

// run runs the controller, and another one when the record breaks.
func (c *Conductor) run(ctx context.Context) error {
	for {
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- c.ctl.Run(running) }()
		select {
		case err := <-done:
			stop()
			return err
		case why := <-c.record.broken:
			stop()
			if err := errors.Join(<-done, c.goOn(ctx, why)); err != nil {
				return err
			}
		}
	}
}

// goOn has the runs driven without the record that broke: a controller over an empty ledger in
// memory is given them again. To the queue that is the same as once, and what has ended is read
// from its records again.
func (c *Conductor) goOn(ctx context.Context, why error) error {
	record, err := memoryRecord(ctx)
	if err != nil {
		return err
	}
	c.con.Report(c.con.Paint(console.Yellow, "warning: ") + unrecorded(why))
	ctl, err := c.controller(record)
	if err != nil {
		return errors.Join(err, record.Close(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.parts {
		if !p.accepted {
			continue
		}
		if _, _, err := ctl.Accept(ctx, controller.Acceptance{Launch: p.Launch, By: p.by, Paused: p.ending}); err != nil {
			return errors.Join(err, record.Close(ctx))
		}
	}
	c.record, c.ctl = record, ctl
	close(c.instead)
	c.instead = make(chan struct{})
	return nil
}

// steady calls do, and again with what takes the place of a record that breaks meanwhile.
func (c *Conductor) steady(ctx context.Context, do func(*controller.Controller, *Record) error) error {
	for {
		c.mu.Lock()
		ctl, record, instead := c.ctl, c.record, c.instead
		c.mu.Unlock()
		err := do(ctl, record)
		if err == nil || !record.failed.Load() {
			return err
		}
		select {
		case <-instead:
		case <-ctx.Done():
			return err
		}
	}
}

// accept has a run accepted by the controller that drives the runs from now on.
func (c *Conductor) accept(ctx context.Context, p *Part, by string) error {
	p.by = by
	for {
		var used *controller.Controller
		err := c.steady(ctx, func(ctl *controller.Controller, record *Record) error {
			used = ctl
			if err := record.hold(p.Launch.Run.ID); err != nil {
				record.breaks(err)
				return err
			}
			_, _, err := ctl.Accept(ctx, controller.Acceptance{Launch: p.Launch, By: by})
			return err
		})
		if err != nil {
			return err
		}
		c.mu.Lock()
		p.accepted = used == c.ctl
		c.mu.Unlock()
		if p.accepted {
			return nil
		}
	}
}

// replaceHandlers records what a job has saved of its handlers.
func (c *Conductor) replaceHandlers(ctx context.Context, run ledger.Run, host string, h core.Handlers) error {
	return c.steady(ctx, func(_ *controller.Controller, record *Record) error {
		return record.Ledger.ReplaceHandlers(ctx, run, host, h)
	})
}
