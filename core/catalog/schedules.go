package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/playbooks"
)

// kindSchedule is the kind of schedules in the audit log.
const kindSchedule = "schedule"

// NewSchedule is a schedule as a person asks for it. People do not set Definition.Payload.
type NewSchedule struct {
	Definition schedule.Definition
	Launches   Request
	Pin        bool // with At: launch the project and its hosts as they are now, not as they are then
}

// Schedule is a schedule as operators see it.
type Schedule struct {
	schedule.Status
	Launches Request
	Scope    ledger.Scope // tenants on whose hosts it launches
	Managed  bool         // it is in the definitions, and is changed there
	Version  int64        // of the definition, for ifVersion; 0 of a managed one
	pin      *pin         // nil: it launches the project as it is at the fire time
}

func shown(s schedule.Status) Schedule {
	var p payload
	if s.Damaged == nil {
		if err := json.Unmarshal(s.Definition.Payload, &p); err != nil {
			s.Damaged, s.Next = schedule.Damaged(s.Definition.ID, s.By, unreadable(s.Definition.ID, err)), time.Time{}
		}
	}
	out := Schedule{Status: s, Launches: p.Request, Scope: p.scope(s.Definition.ID), Managed: s.By == "", pin: p.Pin}
	if !out.Managed {
		out.Version = s.Edition
	}
	return out
}

// Pinned reports whether it launches the project as it was when somebody asked for it. It returns
// the commit, "" of a project without one.
func (s *Schedule) Pinned() (revision string, ok bool) {
	if s.pin == nil {
		return "", false
	}
	return s.pin.Revision, true
}

// Schedules lists the schedules of tenants in scope by tenant and name, a page of them. next is ""
// at the end.
func (c *Catalog) Schedules(ctx context.Context, scope ledger.Scope, cursor string, limit int) (all []Schedule, next string, err error) {
	some, next, err := c.control.List(ctx, scope, ledger.Page{Cursor: cursor, Limit: limit})
	return core.Map(some, shown), next, err
}

// Schedule reads one, also a damaged one.
func (c *Catalog) Schedule(ctx context.Context, scope ledger.Scope, id schedule.ID) (Schedule, error) {
	s, err := c.control.Get(ctx, scope, id)
	if err != nil {
		return Schedule{}, err
	}
	return shown(s), nil
}

// sound reads one that is not damaged.
func (c *Catalog) sound(ctx context.Context, scope ledger.Scope, id schedule.ID) (Schedule, error) {
	s, err := c.Schedule(ctx, scope, id)
	if err == nil {
		err = s.Damaged
	}
	return s, err
}

// PutSchedule makes a schedule, or replaces version ifVersion of one (0: none exists). A scope that
// does not allow all tenants schedules hosts of the schedule's own tenant only. A schedule of the
// definitions is core.ErrConflict: it is changed there.
func (c *Catalog) PutSchedule(ctx context.Context, scope ledger.Scope, who string, n NewSchedule, ifVersion int64) (Schedule, error) {
	d := n.Definition
	now := c.Current()
	if now.Set == nil {
		return Schedule{}, ErrNoProject
	}
	playbook, ok := now.Set.Playbook(n.Launches.Playbook)
	if !ok || !scope.Allows(playbook.Tenant) {
		return Schedule{}, fmt.Errorf("playbook %q is not in the project: %w", n.Launches.Playbook, core.ErrNotFound)
	}
	if d.ID.Tenant != playbook.Tenant {
		return Schedule{}, fmt.Errorf("schedule %s: expected the tenant of playbook %s, %q: %w", d.ID, playbook.Name, playbook.Tenant, core.ErrInvalid)
	}
	if now.defines(d.ID) {
		return Schedule{}, fmt.Errorf("schedule %s is in %s: change it there: %w", d.ID, playbook.File, core.ErrConflict)
	}
	p := payload{Request: n.Launches, All: scope.All()}
	before, err := c.Schedule(ctx, ledger.AllTenants(), d.ID)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return Schedule{}, err
	}
	if p.Reason, err = core.CheckReason(p.Reason); err != nil {
		return Schedule{}, err
	}
	var kept ledger.Document
	if n.Pin {
		if p.Pin, kept, err = pinFor(now, playbook, n, p, &before); err != nil {
			return Schedule{}, err
		}
	}
	d.Payload = p.encode()
	if err := d.Validate(); err != nil {
		return Schedule{}, err
	}
	if err := d.CheckRecurrence(playbook.WorstRetries(), time.Now()); err != nil {
		return Schedule{}, err
	}
	if err := c.launches(ctx, now, playbook, p, d.ID); err != nil {
		return Schedule{}, fmt.Errorf("schedule %s: %w", d.ID, err)
	}
	if kept.Name != "" {
		if err := c.keepPin(ctx, kept); err != nil {
			return Schedule{}, fmt.Errorf("schedule %s: %w", d.ID, err)
		}
	}
	put, err := c.control.Put(ctx, d, who, ifVersion, core.QuotaSchedules, func(before, after *schedule.Status) (e ledger.Entry, err error) {
		return entry(who, "schedule.put", d.ID, asked(before), asked(after))
	})
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %s: %w", d.ID, err)
	}
	if before.pin != nil && (p.Pin == nil || *p.Pin != *before.pin) {
		c.deletePin(ctx, &before)
	}
	c.engine.Check()
	return shown(put), nil
}

// pinFor pins a launch of now. The same request again keeps what was pinned first, and has no
// document.
func pinFor(now Current, playbook *playbooks.Playbook, n NewSchedule, p payload, before *Schedule) (*pin, ledger.Document, error) {
	if n.Definition.At.IsZero() {
		return nil, ledger.Document{}, fmt.Errorf("schedule %s: pin: only a schedule with at can pin the project: %w", n.Definition.ID, core.ErrInvalid)
	}
	if again := p; before.pin != nil {
		if again.Pin = before.pin; slices.Equal(again.encode(), before.Definition.Payload) {
			return before.pin, ledger.Document{}, nil
		}
	}
	return newPin(now, playbook, p, n.Definition.ID)
}

// launches refuses what no launch of a schedule could have: vars that the playbook does not know, a
// limit that selects no host. Windows and facts are asked when it triggers.
func (c *Catalog) launches(ctx context.Context, now Current, playbook *playbooks.Playbook, p payload, id schedule.ID) error {
	if p.bare() {
		return playbook.CheckRequired()
	}
	_, err := c.Prepare(ctx, now, playbook, p.Request, Launching{By: launchedBy + id.String(), Scope: p.scope(id), SkipNoWindow: true})
	_, noWindow := errors.AsType[*launch.NoWindowError](err)
	if _, noFacts := errors.AsType[*launch.NoFactsError](err); noWindow || noFacts { // they may be there at the fire time
		return nil
	}
	return err
}

// defines reports whether a playbook has the schedule.
func (c *Current) defines(id schedule.ID) bool {
	return slices.ContainsFunc(c.definedSchedules(), func(d schedule.Definition) bool { return d.ID == id })
}

// DeleteSchedule removes version ifVersion of a schedule that somebody made, or a damaged one of
// the definitions, which is then made again. Runs that it launched continue.
func (c *Catalog) DeleteSchedule(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, ifVersion int64) error {
	s, err := c.Schedule(ctx, scope, id)
	switch {
	case err != nil:
		return err
	case s.Managed && s.Damaged == nil:
		return fmt.Errorf("schedule %s is in the project: remove it there: %w", id, core.ErrConflict)
	case s.Managed:
		ifVersion = s.Edition
	}
	err = c.control.Delete(ctx, id, ifVersion, func(before, _ *schedule.Status) (ledger.Entry, error) {
		return entry(who, "schedule.delete", id, asked(before), nil)
	})
	if err == nil {
		c.deletePin(ctx, &s)
	}
	if err == nil && s.Damaged != nil {
		c.aligning.Lock() // an align that read the schedule before would set the version again
		c.mu.Lock()
		c.aligned.version = 0 // the definitions may have it
		c.mu.Unlock()
		c.aligning.Unlock()
	}
	return err
}

// SetPaused stops the launches of a schedule, or lets it continue with its next fire time. The
// audit log has the reason.
func (c *Catalog) SetPaused(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, paused bool, reason string) error {
	if _, err := c.sound(ctx, scope, id); err != nil {
		return err
	}
	action := "schedule.resume"
	if paused {
		action = "schedule.pause"
	}
	defer c.engine.Check()
	return c.control.SetPaused(ctx, id, paused, reason, note(who, action, id, "", reason))
}

// Backfill launches the fire times of a past range, those launched before excepted, and returns
// their number. One that would launch on hosts out of scope is core.ErrConflict.
func (c *Catalog) Backfill(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, from, to time.Time, reason string) (n int, err error) {
	if err := c.mayBackfill(ctx, scope, id); err != nil {
		return 0, err
	}
	what := from.UTC().Format(time.RFC3339) + " to " + to.UTC().Format(time.RFC3339)
	defer c.engine.Check()
	return c.control.Backfill(ctx, id, from, to, note(who, "schedule.backfill", id, what, reason))
}

// PlanBackfill returns how many fire times of a range Backfill would launch, and how many were
// launched before.
func (c *Catalog) PlanBackfill(ctx context.Context, scope ledger.Scope, id schedule.ID, from, to time.Time) (launches, before int, err error) {
	if err := c.mayBackfill(ctx, scope, id); err != nil {
		return 0, 0, err
	}
	return c.control.PlanBackfill(ctx, id, from, to)
}

func (c *Catalog) mayBackfill(ctx context.Context, scope ledger.Scope, id schedule.ID) error {
	s, err := c.sound(ctx, scope, id)
	if err != nil {
		return err
	}
	return c.onlyOwn(ctx, scope, &s)
}

// TriggerSchedule launches it once, now, paused or not, on its hosts that are in scope, and returns
// the run. The same key gives the same run. The run is in the ledger when it returns. The run and
// the audit log have the reason. The entry of the trigger comes before that of the run, because
// four eyes ask it whose run it is.
func (c *Catalog) TriggerSchedule(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, key, reason string) (ledger.Run, error) {
	s, err := c.sound(ctx, scope, id)
	if err != nil {
		return ledger.Run{}, err
	}
	launches, err := own(scope, s.Definition.Payload)
	if err != nil {
		return ledger.Run{}, err
	}
	prepare := func(f schedule.Trigger) (ledger.NewRun, error) {
		f.Payload = launches
		n, err := c.newRun(ctx, f, reason)
		return n, s.onNoHost(scope, err)
	}
	run, err := c.control.Trigger(ctx, id, key, prepare, note(who, "schedule.trigger", id, schedule.TriggerRunID(id, key), reason))
	if err == nil && run.Created {
		c.cfg.Controller.Accepted(run.Run)
	}
	return run.Run, err
}

// onNoHost returns the error of a launch on the schedule's hosts in scope, without names of others:
// its limit may have some.
func (s *Schedule) onNoHost(scope ledger.Scope, err error) error {
	if s.Scope.All() && !scope.All() && s.pin == nil && errors.Is(err, core.ErrNotFound) {
		return fmt.Errorf("schedule %s launches on no host of yours: %w", s.Definition.ID, core.ErrNotFound)
	}
	return err
}

// PlanSchedule makes the launch that TriggerSchedule would make now, and launches nothing.
func (c *Catalog) PlanSchedule(ctx context.Context, scope ledger.Scope, id schedule.ID) (*launch.Launch, error) {
	s, err := c.sound(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	launches, err := own(scope, s.Definition.Payload)
	if err != nil {
		return nil, err
	}
	var p payload
	if err := json.Unmarshal(launches, &p); err != nil {
		return nil, unreadable(id, err)
	}
	l, err := c.prepare(ctx, schedule.Trigger{Schedule: id, RunID: schedule.TriggerRunID(id, "plan"), Payload: launches}, p, "")
	return l, s.onNoHost(scope, err)
}

// scheduleState is the state of a schedule in the audit log, before and after a change.
type scheduleState struct {
	Paused    bool      `json:"paused"`
	Reason    string    `json:"reason,omitempty"` // of the pause
	Next      time.Time `json:"next,omitzero"`
	Triggered int64     `json:"triggers"`
	Backfill  int       `json:"backfills,omitempty"` // ranges that are not launched yet
	What      string    `json:"what,omitempty"`      // the run that was launched, the range
	Why       string    `json:"why,omitempty"`       // of the change, as the person wrote it
}

func stateOfSchedule(s *schedule.Status, what, why string) scheduleState {
	return scheduleState{Paused: s.State.Paused, Reason: s.State.Reason, Next: s.Next, Triggered: s.State.Triggered, Backfill: len(s.State.Backfill), What: what, Why: why}
}

// note makes the entry of a change of a schedule's state.
func note(who, action string, id schedule.ID, what, why string) schedule.Note {
	return func(before, after *schedule.Status) (ledger.Entry, error) {
		return entry(who, action, id, stateOfSchedule(before, "", ""), stateOfSchedule(after, what, why))
	}
}

func entry(who, action string, id schedule.ID, before, after any) (ledger.Entry, error) {
	return noted(ledger.Entry{Who: who, Tenant: id.Tenant, Action: action, Kind: kindSchedule, Subject: id.Name}, before, after)
}

// noted adds both sides of a change to its entry of the audit log; nil is none.
func noted(e ledger.Entry, before, after any) (_ ledger.Entry, err error) {
	if before != nil {
		e.Before, err = json.Marshal(before)
	}
	if after != nil && err == nil {
		e.After, err = json.Marshal(after)
	}
	if err != nil {
		return e, fmt.Errorf("note the change of %s %s: %w", e.Kind, e.Subject, err)
	}
	return e, nil
}

// askedSchedule is the definition of a schedule in the audit log.
type askedSchedule struct {
	payload
	Cron        string       `json:"cron,omitempty"`
	At          time.Time    `json:"at,omitzero"`
	Timezone    string       `json:"timezone,omitempty"`
	CatchUp     string       `json:"catch_up,omitempty"`
	Overlap     string       `json:"overlap,omitempty"`
	StartWithin core.Seconds `json:"start_within_seconds,omitempty"`
	Jitter      core.Seconds `json:"jitter_seconds,omitempty"`
	Paused      bool         `json:"paused,omitempty"`
}

// asked returns the form of a definition in the audit log; nil: there is none.
func asked(s *schedule.Status) any {
	if s == nil {
		return nil
	}
	d := s.Definition
	var p payload
	_ = json.Unmarshal(d.Payload, &p) // what cannot be read is launched by nobody
	return askedSchedule{
		payload: p, Cron: d.Cron, At: d.At, Timezone: d.Timezone, CatchUp: string(d.CatchUp), Overlap: string(d.Overlap),
		StartWithin: core.InSeconds(d.StartWithin), Jitter: core.InSeconds(d.Jitter), Paused: d.Paused,
	}
}
