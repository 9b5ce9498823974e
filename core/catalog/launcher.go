package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/tracing"
)

// payload is what a schedule launches.
type payload struct {
	Playbook string `json:"playbook"`
	All      bool   `json:"all,omitempty"` // hosts of all tenants; else those of the schedule's own
}

func (p payload) encode() []byte {
	data, _ := json.Marshal(p) // a string and a truth value
	return data
}

// launchedBy begins what runs of schedules say of who launched them.
const launchedBy = "schedule:"

// launcher launches fires by what is current.
type launcher struct{ c *Catalog }

// Launch accepts the run of a fire. What cannot succeed later either is core.ErrInvalid: the fire is skipped.
func (l *launcher) Launch(ctx context.Context, f schedule.Fire) error {
	_, err := l.c.launch(ctx, f)
	return err
}

func (c *Catalog) launch(ctx context.Context, f schedule.Fire) (run ledger.Run, err error) {
	run, err = c.cfg.Ledger.Run(ctx, ledger.AllTenants(), f.RunID)
	switch {
	case err == nil && run.LaunchedBy == launchedBy+f.Schedule.String():
		return run, nil
	case err == nil:
		return run, fmt.Errorf("run %s was launched by %s: %w", f.RunID, run.LaunchedBy, core.ErrConflict)
	case !errors.Is(err, core.ErrNotFound):
		return run, err
	}
	var p payload
	if err := json.Unmarshal(f.Payload, &p); err != nil {
		return run, fmt.Errorf("what schedule %s launches cannot be read: %w: %w", f.Schedule, core.ErrInvalid, err)
	}
	ctx, span := tracing.Begin(ctx, c.cfg.Traces, tracing.Launch, trace.WithAttributes(tracing.Run.String(f.RunID)))
	defer func() { tracing.End(span, err) }()
	prepared, err := c.prepare(f, p, tracing.Traceparent(ctx))
	if err != nil {
		return run, err
	}
	span.SetAttributes(tracing.Tenant.String(prepared.Run.Tenant))
	for _, u := range prepared.Unfit {
		c.cfg.Log.Warn("a host is left out of a scheduled run", "run", f.RunID, "host", u.Host, "window_set", u.Set, "reason", u.Reason)
	}
	run, _, err = c.cfg.Controller.Accept(ctx, controller.Acceptance{
		Launch: prepared, By: launchedBy + f.Schedule.String(), Request: []byte("schedule " + f.Schedule.String() + " " + f.RunID),
	})
	return run, err
}

// prepare makes a launch of the playbook as it is now. Hosts that no window fits are left out, unless all are.
func (c *Catalog) prepare(f schedule.Fire, p payload, trace string) (*launch.Launch, error) {
	now := c.Current()
	if now.Set == nil {
		return nil, fmt.Errorf("the server has no definitions yet: %w", core.ErrUnavailable)
	}
	book, ok := now.Set.Playbook(p.Playbook)
	if !ok {
		return nil, fmt.Errorf("playbook %q is not in the definitions any more: %w", p.Playbook, core.ErrInvalid)
	}
	hosts := now.Set.Inventory.Hosts
	if !p.All {
		hosts = slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool { return h.Customer != f.Schedule.Tenant })
	}
	l, err := launch.Prepare(book, hosts, launch.Options{
		RunID: f.RunID, Revision: now.Set.Revision.Commit, LaunchedBy: launchedBy + f.Schedule.String(), Files: c.FilesOf(now.Set, book),
		Types: c.cfg.Playbooks.Types, Place: "the server", Windows: now.book, Board: BoardName, SkipUnfit: true, Pool: c.cfg.Pool,
		Secrets: now.Set.SecretRefs(), FourEyes: now.Set.FourEyes, Trace: trace,
	})
	if errors.Is(err, core.ErrNotFound) { // no host selected
		return nil, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	return l, err
}

// Running returns those that are not complete.
func (l *launcher) Running(ctx context.Context, runs []string) ([]string, error) {
	var running []string
	for _, id := range runs {
		run, err := l.c.cfg.Ledger.Run(ctx, ledger.AllTenants(), id)
		switch {
		case errors.Is(err, core.ErrNotFound):
		case err != nil:
			return nil, err
		case !run.Complete():
			running = append(running, id)
		}
	}
	return running, nil
}

// Cancel ends a run.
func (l *launcher) Cancel(ctx context.Context, run, reason string) error {
	_, _, err := l.c.cfg.Controller.Cancel(ctx, ledger.AllTenants(), "", run, reason)
	if errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrNotFound) {
		return nil
	}
	return err
}

// Ended tells that a run is complete: for controller.Config.Events. A schedule that waits for it goes on at once. It does not block.
func (c *Catalog) Ended(run string) {
	select {
	case c.ended <- run:
	default: // it is looked at within half a minute anyway
	}
}

// recheck has the schedules of ended runs looked at.
func (c *Catalog) recheck(ctx context.Context, first string) {
	var ids []schedule.ID
	for run := first; ; {
		if id, ok := schedule.IDOf(run); ok && id.Validate() == nil && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		select {
		case run = <-c.ended:
			if len(ids) < schedule.MaxBatch {
				continue
			}
		default:
		}
		break
	}
	if len(ids) > 0 {
		c.trouble(ctx, "a schedule could not be told that its run has ended", c.control.Recheck(ctx, ids...))
	}
}
