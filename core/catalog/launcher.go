package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/core/telemetry"
)

// payload is the launch of a schedule.
type payload struct {
	Request
	All bool `json:"all,omitempty"` // hosts of all tenants; else those of the schedule's own
	// Foreign: All was true, and a person of one tenant triggers it.
	Foreign bool `json:"foreign,omitempty"`
	Pin     *pin `json:"pin,omitempty"` // nil: the project as it is at the fire time
}

func (p payload) encode() []byte {
	data, _ := json.Marshal(p) // vars came as JSON or YAML
	return data
}

// scope is the tenants on whose hosts a schedule launches.
func (p payload) scope(id schedule.ID) ledger.Scope {
	if p.All {
		return ledger.AllTenants()
	}
	return ledger.Tenants(id.Tenant)
}

func unreadable(id schedule.ID, err error) error {
	return fmt.Errorf("what schedule %s launches cannot be read: %w: %w", id, core.ErrInvalid, err)
}

// launchedBy begins the launcher's name in runs of schedules.
const launchedBy = "schedule:"

// launcher launches triggers by the present definitions.
type launcher struct{ c *Catalog }

// Prepare makes the run of a trigger. If the trigger can never succeed the error wraps
// core.ErrInvalid: it is skipped.
func (l *launcher) Prepare(ctx context.Context, f schedule.Trigger) (ledger.NewRun, error) {
	return l.c.newRun(ctx, f, "")
}

// Accepted hands runs to the controller.
func (l *launcher) Accepted(runs []ledger.Run) { l.c.cfg.Controller.Accepted(runs...) }

// Cancelled ends a run in its queue.
func (l *launcher) Cancelled(ctx context.Context, run, reason string) error {
	_, _, err := l.c.cfg.Controller.Cancel(ctx, ledger.AllTenants(), "", run, reason)
	if errors.Is(err, core.ErrConflict) || errors.Is(err, core.ErrNotFound) {
		return nil
	}
	return err
}

// newRun makes the run of a trigger. reason is that of the person who triggers it; "": the
// schedule's.
func (c *Catalog) newRun(ctx context.Context, f schedule.Trigger, reason string) (n ledger.NewRun, err error) {
	var p payload
	if err := json.Unmarshal(f.Payload, &p); err != nil {
		return n, unreadable(f.Schedule, err)
	}
	if p.Reason, err = core.CheckReason(cmp.Or(reason, p.Reason)); err != nil { // a template has no check
		return n, err
	}
	ctx, span := telemetry.BeginSpan(ctx, c.cfg.Traces, telemetry.SpanLaunch, trace.WithAttributes(telemetry.AttributeRun.String(f.RunID)))
	defer func() { telemetry.EndSpan(span, err) }()
	prepared, err := c.prepare(ctx, f, p, telemetry.Traceparent(ctx))
	if err != nil {
		return n, err
	}
	span.SetAttributes(telemetry.AttributeTenant.String(prepared.Run.Tenant))
	for _, u := range prepared.NoWindow {
		c.cfg.Log.Warn("a host is left out of a scheduled run", "run", f.RunID, "host", u.Host, "window_set", u.Set, "reason", u.Reason)
	}
	for _, text := range prepared.Warnings() {
		c.cfg.Log.Warn("a scheduled run may lack hosts", "run", f.RunID, "reason", text)
	}
	a := controller.Acceptance{Launch: prepared, By: launchedBy + f.Schedule.String(), Request: []byte("schedule " + f.Schedule.String() + " " + f.RunID)}
	return a.Record()
}

// prepare makes a launch of the playbook as it is now, or as it was pinned. Hosts that no window
// fits are left out, unless all are.
func (c *Catalog) prepare(ctx context.Context, f schedule.Trigger, p payload, trace string) (*launch.Launch, error) {
	l, err := c.prepareAny(ctx, f, p, trace)
	if err == nil && l.Run.Tenant != f.Schedule.Tenant { // since an edit of the project
		err = fmt.Errorf("schedule %s: playbook %q is not of the schedule's tenant %q any more: make a schedule of another playbook: %w", f.Schedule, p.Playbook, f.Schedule.Tenant, core.ErrInvalid)
	}
	return l, err
}

// prepareAny is prepare of a playbook of any tenant.
func (c *Catalog) prepareAny(ctx context.Context, f schedule.Trigger, p payload, trace string) (*launch.Launch, error) {
	now := c.Current()
	if now.Set == nil {
		return nil, ErrNoProject
	}
	key := templateKey{payload: string(f.Payload)}
	if !p.All {
		key.tenant = f.Schedule.Tenant
	}
	by := launchedBy + f.Schedule.String()
	launching := Launching{RunID: f.RunID, By: by, Trace: trace, Scope: p.scope(f.Schedule), SkipNoWindow: true, Asked: snapshot.Asked{All: p.Foreign}}
	if p.Pin != nil {
		return c.preparePinned(ctx, now, p, f.Schedule, launching)
	}
	if t := c.templates.get(now, key); t != nil {
		if err := c.fresh(&now, t, p.scope(f.Schedule)); err != nil {
			return nil, err
		}
		return t.Again(f.RunID, by, p.Reason, trace, time.Now(), c.sourceOf(&now))
	}
	playbook, ok := now.Set.Playbook(p.Playbook)
	if !ok {
		return nil, fmt.Errorf("playbook %q is not in the project any more: %w", p.Playbook, core.ErrInvalid)
	}
	l, err := c.Prepare(ctx, now, playbook, p.Request, launching)
	if err == nil && l.Repeatable() {
		c.templates.put(now, key, l)
	}
	return l, noHost(err)
}

// preparePinned is prepare of what a schedule has pinned.
func (c *Catalog) preparePinned(ctx context.Context, now Current, p payload, id schedule.ID, l Launching) (*launch.Launch, error) {
	now, playbook, only, err := c.unpinned(ctx, now, p, id)
	if err != nil {
		return nil, err
	}
	q := p.Request
	q.Limit, l.Only, l.Asked = nil, only, snapshot.Asked{Limit: q.Limit, Pinned: true, All: p.Foreign}
	made, err := c.Prepare(ctx, now, playbook, q, l)
	return made, noHost(err)
}

// noHost has a trigger skipped that selects no host.
func noHost(err error) error {
	if errors.Is(err, core.ErrNotFound) {
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	return err
}

// templates are launches that others are made of, as long as the definitions stay.
type templates struct {
	mu      sync.Mutex
	version [3]int64 // of the definitions, of the approvals of windows, and of the hosts of sources
	all     map[templateKey]*launch.Launch
}

// templateKey identifies a payload, and the tenant on whose hosts it is launched; "" where it is on
// hosts of all tenants.
type templateKey struct{ payload, tenant string }

func (c *Current) versions() [3]int64 { return [3]int64{c.Version, c.given, c.hosts.serial} }

// mostTemplates bounds the memory: each holds its hosts.
const mostTemplates = 1000

func (t *templates) get(now Current, key templateKey) *launch.Launch {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.version != now.versions() {
		return nil
	}
	return t.all[key]
}

func (t *templates) put(now Current, key templateKey, l *launch.Launch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at := now.versions(); t.version != at || len(t.all) >= mostTemplates {
		t.version, t.all = at, map[templateKey]*launch.Launch{}
	}
	t.all[key] = l
}
