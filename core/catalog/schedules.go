package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// kindSchedule is the kind of the ledger's documents of schedules that people made.
const kindSchedule = "schedule"

// NewSchedule is what a person asks for. Definition.Payload is not theirs to say.
type NewSchedule struct {
	Definition schedule.Definition
	Playbook   string
}

// storedSchedule is the data of a document.
type storedSchedule struct {
	Playbook    string        `json:"playbook"`
	All         bool          `json:"all,omitempty"` // see payload
	Cron        string        `json:"cron"`
	Timezone    string        `json:"timezone,omitempty"`
	CatchUp     string        `json:"catch_up,omitempty"`
	Overlap     string        `json:"overlap,omitempty"`
	StartWithin time.Duration `json:"start_within_ns,omitempty"`
	Jitter      time.Duration `json:"jitter_ns,omitempty"`
	Paused      bool          `json:"paused,omitempty"`
}

// Schedule is a schedule as operators see it.
type Schedule struct {
	schedule.Status
	Playbook string
	Managed  bool   // it stands in the definitions, and is changed there
	Version  int64  // of the document, for ifVersion; 0 of a managed one
	By       string // who put it; "" of a managed one
	Away     bool   // its store does not answer, or has not got it yet: State and Next are not known
}

func definitionOf(id schedule.ID, s storedSchedule) schedule.Definition {
	return schedule.Definition{
		ID: id, Cron: s.Cron, Timezone: s.Timezone, CatchUp: schedule.CatchUp(s.CatchUp), Overlap: schedule.Overlap(s.Overlap),
		StartWithin: s.StartWithin, Jitter: s.Jitter, Paused: s.Paused, Payload: payload{s.Playbook, s.All}.encode(),
	}
}

func decodeSchedule(doc ledger.Document) (schedule.Definition, storedSchedule, error) {
	var s storedSchedule
	id := schedule.ID{Tenant: doc.Tenant, Name: doc.Name}
	if err := json.Unmarshal(doc.Data, &s); err != nil {
		return schedule.Definition{}, s, fmt.Errorf("schedule %s in the ledger: %w: %w", id, core.ErrInvalid, err)
	}
	return definitionOf(id, s), s, nil
}

// managed finds the schedule of a playbook of the current definitions.
func (c *Current) managed(id schedule.ID) (schedule.Definition, bool) {
	if c.Set == nil {
		return schedule.Definition{}, false
	}
	for _, s := range c.Set.Schedules {
		if s.Playbook != id.Name {
			continue
		}
		d, ok := managed(c.Set, s)
		return d, ok && d.ID == id
	}
	return schedule.Definition{}, false
}

func noSchedule(id schedule.ID) error {
	return fmt.Errorf("schedule %s: %w", id, core.ErrNotFound)
}

// Schedules lists the schedules of tenants in scope by tenant and name, at most limit after the one that cursor names
// ("" is the beginning). next is "" at the end. While their store is away they are listed without their state.
func (c *Catalog) Schedules(ctx context.Context, scope ledger.Scope, cursor string, limit int) (all []Schedule, next string, err error) {
	wanted, err := c.wanted(ctx, scope)
	if err != nil {
		return nil, "", err
	}
	key := func(s Schedule) string { return s.Definition.ID.Tenant + "\x00" + s.Definition.ID.Name }
	slices.SortFunc(wanted, func(a, b Schedule) int { return strings.Compare(key(a), key(b)) })
	after, err := cursorOf(cursor)
	if err != nil {
		return nil, "", err
	}
	from, found := slices.BinarySearchFunc(wanted, after, func(s Schedule, k string) int { return strings.Compare(key(s), k) })
	if found {
		from++
	}
	if limit < 1 || limit > ledger.MaxPage {
		limit = ledger.DefaultPage
	}
	all = wanted[from:min(from+limit, len(wanted))]
	if from+limit < len(wanted) {
		last := all[len(all)-1].Definition.ID
		next = last.Tenant + "/" + last.Name // neither has a slash
	}
	for i := range all {
		if err := c.fill(ctx, &all[i]); err != nil {
			return nil, "", err
		}
	}
	return all, next, nil
}

func cursorOf(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	tenant, name, ok := strings.Cut(cursor, "/")
	if !ok {
		return "", fmt.Errorf("cursor %.40q was not given out: %w", cursor, core.ErrInvalid)
	}
	return tenant + "\x00" + name, nil
}

// wanted lists what should be in the store, without its state.
func (c *Catalog) wanted(ctx context.Context, scope ledger.Scope) ([]Schedule, error) {
	var all []Schedule
	seen := map[schedule.ID]bool{}
	if now := c.Current(); now.Set != nil {
		for _, s := range now.Set.Schedules {
			if d, ok := managed(now.Set, s); ok && scope.Allows(d.ID.Tenant) {
				seen[d.ID] = true
				all = append(all, Schedule{Status: schedule.Status{Definition: d}, Playbook: s.Playbook, Managed: true})
			}
		}
	}
	for page := (ledger.Page{Limit: ledger.MaxPage}); ; {
		docs, next, err := c.cfg.Ledger.Documents(ctx, scope, kindSchedule, page)
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			d, s, err := decodeSchedule(doc)
			if err != nil {
				return nil, err
			}
			if !seen[d.ID] { // a playbook of the name got a schedule of its own later: that one holds
				all = append(all, Schedule{Status: schedule.Status{Definition: d}, Playbook: s.Playbook, Version: doc.Version, By: doc.By})
			}
		}
		if next == "" {
			return all, nil
		}
		page.Cursor = next
	}
}

// fill adds the state.
func (c *Catalog) fill(ctx context.Context, s *Schedule) error {
	status, err := c.control.Get(ctx, s.Definition.ID)
	switch {
	case err == nil:
		s.Status = status
	case errors.Is(err, core.ErrNotFound), errors.Is(err, core.ErrUnavailable):
		s.Away = true
	default:
		return err
	}
	return nil
}

// Schedule reads one.
func (c *Catalog) Schedule(ctx context.Context, scope ledger.Scope, id schedule.ID) (Schedule, error) {
	if !scope.Allows(id.Tenant) {
		return Schedule{}, noSchedule(id)
	}
	now := c.Current()
	out := Schedule{Playbook: id.Name, Managed: true}
	var ok bool
	if out.Definition, ok = now.managed(id); !ok {
		doc, err := c.cfg.Ledger.Document(ctx, scope, kindSchedule, id.Tenant, id.Name)
		if err != nil {
			return Schedule{}, err
		}
		d, s, err := decodeSchedule(doc)
		if err != nil {
			return Schedule{}, err
		}
		out = Schedule{Status: schedule.Status{Definition: d}, Playbook: s.Playbook, Version: doc.Version, By: doc.By}
	}
	return out, c.fill(ctx, &out)
}

// PutSchedule makes a schedule, or replaces version ifVersion of one (0: there must be none). It holds once it is in
// the ledger, also while the store of schedules is away. Whoever may not act for all tenants schedules hosts of the
// schedule's own tenant only. One of the definitions is core.ErrConflict: it is changed there.
func (c *Catalog) PutSchedule(ctx context.Context, scope ledger.Scope, who string, n NewSchedule, ifVersion int64) (Schedule, error) {
	d := n.Definition
	now := c.Current()
	if now.Set == nil {
		return Schedule{}, fmt.Errorf("the server has no definitions yet: %w", core.ErrUnavailable)
	}
	book, ok := now.Set.Playbook(n.Playbook)
	if !ok || !scope.Allows(book.Tenant) {
		return Schedule{}, fmt.Errorf("playbook %q is not in the definitions: %w", n.Playbook, core.ErrNotFound)
	}
	if d.ID.Tenant != book.Tenant {
		return Schedule{}, fmt.Errorf("schedule %s: expected the tenant of playbook %s, %q: %w", d.ID, book.Name, book.Tenant, core.ErrInvalid)
	}
	if _, ok := now.managed(d.ID); ok {
		return Schedule{}, fmt.Errorf("schedule %s stands in %s: change it there: %w", d.ID, book.File, core.ErrConflict)
	}
	stored := storedSchedule{
		Playbook: n.Playbook, All: scope.All(), Cron: d.Cron, Timezone: d.Timezone, CatchUp: string(d.CatchUp), Overlap: string(d.Overlap),
		StartWithin: d.StartWithin, Jitter: d.Jitter, Paused: d.Paused,
	}
	d = definitionOf(d.ID, stored)
	if err := d.Validate(); err != nil {
		return Schedule{}, err
	}
	if err := d.CheckRecurrence(book.WorstRetries(), time.Now()); err != nil {
		return Schedule{}, err
	}
	data, err := json.Marshal(stored)
	if err != nil {
		return Schedule{}, fmt.Errorf("write schedule %s: %w", d.ID, err)
	}
	note := ledger.Entry{Who: who, Tenant: d.ID.Tenant, Action: "schedule.put", Kind: kindSchedule, Subject: d.ID.Name, After: data}
	if note.Before, err = c.storedText(ctx, scope, d.ID); err != nil {
		return Schedule{}, err
	}
	if note.Before == nil && d.ID.Tenant != "" {
		_, more, err := c.cfg.Ledger.Documents(ctx, ledger.Tenants(d.ID.Tenant), kindSchedule, ledger.Page{Limit: core.QuotaSchedules.Max - 1})
		if err != nil {
			return Schedule{}, err
		}
		if more != "" {
			return Schedule{}, core.QuotaSchedules.Over("tenant " + d.ID.Tenant)
		}
	}
	doc, err := c.cfg.Ledger.PutDocumentNoted(ctx, scope, ledger.Document{Kind: kindSchedule, Tenant: d.ID.Tenant, Name: d.ID.Name, Data: data}, ifVersion, note)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %s: %w", d.ID, err)
	}
	if _, err := c.control.Put(ctx, d); err != nil {
		c.trouble(ctx, "a schedule is not in the store for now", err)
		nudge(c.stir)
	}
	out := Schedule{Status: schedule.Status{Definition: d}, Playbook: n.Playbook, Version: doc.Version, By: doc.By}
	return out, c.fill(ctx, &out)
}

// DeleteSchedule removes version ifVersion of a schedule that somebody made. What it launched goes on.
func (c *Catalog) DeleteSchedule(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, ifVersion int64) error {
	now := c.Current()
	if d, ok := now.managed(id); ok && scope.Allows(d.ID.Tenant) {
		return fmt.Errorf("schedule %s stands in the definitions: remove it there: %w", id, core.ErrConflict)
	}
	before, err := c.storedText(ctx, scope, id)
	if err != nil {
		return err
	}
	note := ledger.Entry{Who: who, Tenant: id.Tenant, Action: "schedule.delete", Kind: kindSchedule, Subject: id.Name, Before: before}
	if err := c.cfg.Ledger.DeleteDocumentNoted(ctx, scope, kindSchedule, id.Tenant, id.Name, ifVersion, note); err != nil {
		return err
	}
	if err := c.control.Delete(ctx, id); err != nil {
		c.trouble(ctx, "a deleted schedule is still in the store", err)
		nudge(c.stir)
	}
	return nil
}

// storedText is what the ledger has of a schedule that somebody made, nil where it has none. Compare-and-set says whether it is what
// a change takes the place of.
func (c *Catalog) storedText(ctx context.Context, scope ledger.Scope, id schedule.ID) (json.RawMessage, error) {
	doc, err := c.cfg.Ledger.Document(ctx, scope, kindSchedule, id.Tenant, id.Name)
	if errors.Is(err, core.ErrNotFound) {
		return nil, nil
	}
	return doc.Data, err
}

// PauseSchedule stops its fires until it is resumed.
func (c *Catalog) PauseSchedule(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, reason string) error {
	return c.change(ctx, scope, who, "schedule.pause", id, "", reason, func() error { return c.control.Pause(ctx, reason, id) })
}

// ResumeSchedule lets it go on with its next fire. The audit log has the reason.
func (c *Catalog) ResumeSchedule(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, reason string) error {
	return c.change(ctx, scope, who, "schedule.resume", id, "", reason, func() error { return c.control.Resume(ctx, id) })
}

// Backfill launches the fires of a past range, those launched before excepted, and returns their number. One that would launch
// on hosts out of scope is core.ErrConflict.
func (c *Catalog) Backfill(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, from, to time.Time) (n int, err error) {
	s, err := c.Schedule(ctx, scope, id)
	if err == nil {
		err = c.onlyOwn(scope, &s)
	}
	if err != nil {
		return 0, err
	}
	what := from.UTC().Format(time.RFC3339) + " to " + to.UTC().Format(time.RFC3339)
	if err := c.audit(ctx, who, "schedule.backfill", &s, what, ""); err != nil { // first, as of a trigger
		return 0, err
	}
	return n, c.act(ctx, id, func() (err error) {
		n, err = c.control.Backfill(ctx, id, from, to)
		return err
	})
}

// TriggerSchedule launches it once, now, paused or not, on its hosts that are in scope, and returns the run. The same key gives
// the same run. The run is in the ledger when it returns; the store of schedules may be away. The audit log has the reason.
func (c *Catalog) TriggerSchedule(ctx context.Context, scope ledger.Scope, who string, id schedule.ID, key, reason string) (ledger.Run, error) {
	s, err := c.Schedule(ctx, scope, id)
	if err != nil {
		return ledger.Run{}, err
	}
	if key == "" || len(key) > schedule.MaxKey {
		return ledger.Run{}, fmt.Errorf("trigger of schedule %s: its key is %d bytes, expected 1 to %d: %w", id, len(key), schedule.MaxKey, core.ErrInvalid)
	}
	launches, err := own(scope, s.Definition.Payload)
	if err != nil {
		return ledger.Run{}, err
	}
	f := schedule.Fire{Schedule: id, RunID: schedule.TriggerRunID(id, key), Nominal: time.Now(), Cause: schedule.ByTrigger, Payload: launches}
	// First: four eyes ask the audit log whose run it is, and who leaves in between must not be able to approve it.
	if err := c.audit(ctx, who, "schedule.trigger", &s, f.RunID, reason); err != nil {
		return ledger.Run{}, err
	}
	run, err := c.launch(ctx, f)
	if err != nil {
		return ledger.Run{}, err
	}
	// Now the schedule knows of the run, for its overlap. The engine finds it launched.
	if _, err := c.control.Trigger(ctx, id, key); err != nil {
		c.trouble(ctx, "a schedule does not know of the run that it was triggered to launch", err)
	}
	return run, nil
}

// change is what all changes of a schedule's state have in common: scope, audit, and that the ledger has it before it is answered.
func (c *Catalog) change(ctx context.Context, scope ledger.Scope, who, action string, id schedule.ID, what, why string, do func() error) error {
	before, err := c.Schedule(ctx, scope, id)
	if err != nil {
		return err
	}
	if err := c.act(ctx, id, do); err != nil {
		return err
	}
	return c.audit(ctx, who, action, &before, what, why)
}

// act changes a schedule's state, and waits until the ledger has it.
func (c *Catalog) act(ctx context.Context, id schedule.ID, do func() error) error {
	if err := do(); err != nil {
		if errors.Is(err, core.ErrNotFound) { // it stands in the ledger
			return fmt.Errorf("schedule %s is not in the store yet: try again: %w", id, core.ErrUnavailable)
		}
		return err
	}
	if err := c.keepOne(ctx, id); err != nil {
		return fmt.Errorf("schedule %s was changed, but that is not in the ledger yet: try again: %w", id, err)
	}
	return nil
}

// scheduleState is what the audit log says of a schedule before and after a change.
type scheduleState struct {
	Paused   bool      `json:"paused"`
	Reason   string    `json:"reason,omitempty"` // of the pause
	Next     time.Time `json:"next,omitzero"`
	Fired    int64     `json:"fired"`
	Backfill int       `json:"backfills,omitempty"` // ranges that are not launched yet
	What     string    `json:"what,omitempty"`      // the run that was launched, the range
	Why      string    `json:"why,omitempty"`       // of the change, as the person said
	Away     bool      `json:"away,omitempty"`      // the store did not answer: the rest is not known
}

func stateOfSchedule(s *Schedule, what, why string) scheduleState {
	return scheduleState{Paused: s.State.Paused, Reason: s.State.Reason, Next: s.Next, Fired: s.State.Fired, Backfill: len(s.State.Backfill), What: what, Why: why, Away: s.Away}
}

// audit writes what was done to a schedule, and how it stands now.
func (c *Catalog) audit(ctx context.Context, who, action string, before *Schedule, what, why string) error {
	id := before.Definition.ID
	now := *before
	if err := c.fill(ctx, &now); err != nil {
		now.Away = true // what was done is told nevertheless
	}
	e := ledger.Entry{Who: who, Tenant: id.Tenant, Action: action, Kind: kindSchedule, Subject: id.Name}
	var err error
	if e.Before, err = json.Marshal(stateOfSchedule(before, "", "")); err != nil {
		return err
	}
	if e.After, err = json.Marshal(stateOfSchedule(&now, what, why)); err != nil {
		return err
	}
	_, err = c.cfg.Ledger.AppendAudit(ctx, e)
	return err
}
