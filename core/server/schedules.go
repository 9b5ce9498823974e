package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/windows/civil"
)

func (s *Server) schedules() {
	r := func(id, method, path, summary, detail string, role Role) route {
		return route{id: id, method: method, path: "/v1/schedules" + path, summary: summary, detail: detail, role: role, status: http.StatusOK}
	}
	const managed = "One of the project is changed there."
	handle(s, r("list-schedules", http.MethodGet, "", "List schedules, by tenant and name", "", Viewer), s.listSchedules)
	handle(s, r("get-schedule", http.MethodGet, "/{schedule}", "Show a schedule", "", Viewer), s.getSchedule)
	handle(s, r("put-schedule", http.MethodPut, "/{schedule}", "Make or replace a schedule",
		"By cron, or once with at. Replacing needs If-Match; the same definition again is left as it is. It is of the playbook's tenant. "+managed, Operator), s.putSchedule)
	handle(s, r("delete-schedule", http.MethodDelete, "/{schedule}", "Remove a schedule", "Its runs continue. "+managed, Operator), s.deleteSchedule)
	handle(s, r("pause-schedule", http.MethodPost, "/{schedule}/pause", "Suspend a schedule until it is resumed", "", Operator), s.setPaused(true))
	handle(s, r("resume-schedule", http.MethodPost, "/{schedule}/resume", "Resume a schedule", "It continues with its next fire time; what it missed is not caught up.", Operator), s.setPaused(false))
	handle(s, r("plan-schedule", http.MethodPost, "/{schedule}/plan", "Show what a trigger of a schedule would launch, and launch nothing", "Of a pinned schedule it is the project that it pinned.", Operator), s.planSchedule)
	handle(s, r("trigger-schedule", http.MethodPost, "/{schedule}/trigger", "Launch a schedule now", "Paused or not.", Operator), s.triggerSchedule)
	handle(s, r("backfill-schedule", http.MethodPost, "/{schedule}/backfill", "Launch a schedule for the fire times of a past range", "One after the other; those that were launched before are not repeated.", Operator), s.backfillSchedule)
}

// SchedulePath names a schedule.
type SchedulePath struct {
	Schedule string `path:"schedule" maxLength:"128" doc:"NAME, or TENANT:NAME where the token is of all tenants and the name is not one tenant's only"`
}

// scheduleID returns the schedule that is meant. A bare name is one of the token's tenant; of
// tokens of all tenants it is the only one that has it.
func (s *Server) scheduleID(ctx context.Context, by caller, name string) (schedule.ID, error) {
	if tenant, rest, ok := strings.Cut(name, ":"); ok {
		return schedule.ID{Tenant: tenant, Name: rest}, nil
	}
	if !by.scope.All() {
		return schedule.ID{Tenant: by.token.Tenant, Name: name}, nil
	}
	var found []schedule.ID
	list := func(ctx context.Context, p ledger.Page) ([]catalog.Schedule, string, error) {
		return s.cfg.Catalog.Schedules(ctx, by.scope, p.Cursor, p.Limit)
	}
	for one, err := range ledger.Each(ctx, ledger.MaxPage, list) {
		if err != nil {
			return schedule.ID{}, err
		}
		if id := one.Definition.ID; id.Name == name {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return schedule.ID{Name: name}, fmt.Errorf("there is no schedule %q: %w", clip(name, 128), core.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return schedule.ID{}, fmt.Errorf("%d tenants have a schedule %q: name it as %s: %w", len(found), name, found[0], core.ErrConflict)
}

// schedule finds one that the caller may see.
func (s *Server) schedule(ctx context.Context, by caller, name string) (catalog.Schedule, error) {
	id, err := s.scheduleID(ctx, by, name)
	if err != nil {
		return catalog.Schedule{}, err
	}
	return s.cfg.Catalog.Schedule(ctx, by.scope, id)
}

func (s *Server) listSchedules(ctx context.Context, by caller, in *struct{ Page }) (*list[api.Schedule], error) {
	all, next, err := s.cfg.Catalog.Schedules(ctx, by.scope, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	items := make([]api.Schedule, len(all))
	for i := range all {
		items[i] = scheduleOf(by, &all[i])
	}
	return listOf(items, next), nil
}

func (s *Server) getSchedule(ctx context.Context, by caller, in *SchedulePath) (*versioned[api.Schedule], error) {
	found, err := s.schedule(ctx, by, in.Schedule)
	if err != nil {
		return nil, err
	}
	shown := shownSchedule(by, &found)
	shown.Body.Upcoming = upcomingOf(&found)
	return shown, nil
}

// upcomingShown is how many fire times the view of a schedule has.
const upcomingShown = 5

// upcomingOf lists the fire times of a schedule that come next.
func upcomingOf(s *catalog.Schedule) []api.FireTime {
	if s.Next.IsZero() { // never, or paused
		return nil
	}
	times, err := s.Definition.Next(s.Next.Add(-time.Nanosecond), upcomingShown)
	zone, zoneErr := time.LoadLocation(s.Definition.Timezone)
	if err != nil || zoneErr != nil { // it was valid when it was kept
		return nil
	}
	all := make([]api.FireTime, len(times))
	for i, at := range times {
		all[i] = api.FireTime{At: at.UTC(), Local: at.In(zone).Format(localTime)}
	}
	return all
}

func shownSchedule(by caller, s *catalog.Schedule) *versioned[api.Schedule] {
	shown := scheduleOf(by, s)
	return &versioned[api.Schedule]{shown.ETag, shown}
}

func (s *Server) putSchedule(ctx context.Context, by caller, in *struct {
	SchedulePath
	IfMatch
	Body api.NewSchedule
},
) (*versioned[api.Schedule], error) {
	_, playbook, err := s.playbook(by, in.Body.Playbook)
	if err != nil {
		return nil, err
	}
	id := schedule.ID{Tenant: playbook.Tenant, Name: in.Schedule}
	if tenant, rest, ok := strings.Cut(in.Schedule, ":"); ok {
		id = schedule.ID{Tenant: tenant, Name: rest}
	}
	n, err := newSchedule(id, in.Body)
	if err != nil {
		return nil, err
	}
	version := int64(0)
	before, err := s.cfg.Catalog.Schedule(ctx, by.scope, id)
	switch {
	case errors.Is(err, core.ErrNotFound):
		if in.Match != "" && in.Match != "*" {
			return nil, huma.Error412PreconditionFailed("schedule " + id.String() + " is not there any more")
		}
	case err != nil:
		return nil, err
	case before.Managed: // the error of PutSchedule names where it is changed
	case in.Match != "":
		version = before.Version
		if err := in.matches(etagOf(version)); err != nil {
			return nil, err
		}
	}
	put, err := s.cfg.Catalog.PutSchedule(ctx, by.scope, by.name, n, version)
	if before.Version > 0 && in.Match == "" && errors.Is(err, core.ErrConflict) {
		return nil, huma.NewError(http.StatusPreconditionRequired, "schedule "+id.String()+" is there: to replace it, send its ETag as If-Match")
	}
	if err != nil {
		return nil, err
	}
	return shownSchedule(by, &put), nil
}

// newSchedule reads what was asked for. A cron that is no expression is left to the catalog to
// refuse.
func newSchedule(id schedule.ID, b api.NewSchedule) (catalog.NewSchedule, error) {
	n := catalog.NewSchedule{Pin: b.Pin, Launches: requestOf(b.Playbook, b.LaunchOptions), Definition: schedule.Definition{
		ID: id, Cron: b.Cron, At: b.At, Timezone: b.Timezone, CatchUp: schedule.CatchUp(b.CatchUp), Overlap: schedule.Overlap(b.Overlap), Paused: b.Paused,
	}}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"jitter", b.Jitter, &n.Definition.Jitter}, {"start_within", b.StartWithin, &n.Definition.StartWithin}} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.to, err = time.ParseDuration(d.text); err != nil || *d.to < 0 {
			return n, fmt.Errorf("%s %q: expected a duration as 30m: %w", d.name, d.text, core.ErrInvalid)
		}
	}
	if cron, err := civil.ParseCron(b.Cron); err == nil {
		if _, ever := cron.NextWall(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); !ever { // a leap year
			return n, fmt.Errorf("cron %q: there is no such day: %w", b.Cron, core.ErrInvalid)
		}
	}
	return n, nil
}

func (s *Server) deleteSchedule(ctx context.Context, by caller, in *struct {
	SchedulePath
	IfMatch
},
) (*versioned[api.Schedule], error) {
	found, err := s.schedule(ctx, by, in.Schedule)
	if err != nil {
		return nil, err
	}
	if !found.Managed {
		if err := in.matches(etagOf(found.Version)); err != nil {
			return nil, err
		}
	}
	if err := s.cfg.Catalog.DeleteSchedule(ctx, by.scope, by.name, found.Definition.ID, found.Version); err != nil {
		return nil, err
	}
	return shownSchedule(by, &found), nil
}

type pauseInput struct {
	SchedulePath
	Body api.Why
}

// setPaused pauses a schedule, or resumes it.
func (s *Server) setPaused(paused bool) func(context.Context, caller, *pauseInput) (*versioned[api.Schedule], error) {
	return func(ctx context.Context, by caller, in *pauseInput) (*versioned[api.Schedule], error) {
		found, err := s.schedule(ctx, by, in.Schedule)
		if err != nil {
			return nil, err
		}
		if err := s.cfg.Catalog.SetPaused(ctx, by.scope, by.name, found.Definition.ID, paused, in.Body.Reason); err != nil {
			return nil, err
		}
		if found, err = s.cfg.Catalog.Schedule(ctx, by.scope, found.Definition.ID); err != nil {
			return nil, err
		}
		return shownSchedule(by, &found), nil
	}
}

func (s *Server) triggerSchedule(ctx context.Context, by caller, in *struct {
	SchedulePath
	Idempotent
	Body api.Why
},
) (*body[api.Launched], error) {
	found, err := s.schedule(ctx, by, in.Schedule)
	if err != nil {
		return nil, err
	}
	key := in.of(by, "trigger-schedule")
	if key == "" {
		key = rand.Text()
	}
	run, err := s.cfg.Catalog.TriggerSchedule(ctx, by.scope, by.name, found.Definition.ID, key, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	return &body[api.Launched]{api.Launched{Run: run.ID}}, nil
}

func (s *Server) backfillSchedule(ctx context.Context, by caller, in *struct {
	SchedulePath
	Body api.Backfill
},
) (*body[api.Backfilled], error) {
	found, err := s.schedule(ctx, by, in.Schedule)
	if err != nil {
		return nil, err
	}
	id, b := found.Definition.ID, in.Body
	if b.DryRun {
		launches, before, err := s.cfg.Catalog.PlanBackfill(ctx, by.scope, id, b.From, b.To)
		if err != nil {
			return nil, err
		}
		return &body[api.Backfilled]{api.Backfilled{Triggers: launches, Before: before}}, nil
	}
	n, err := s.cfg.Catalog.Backfill(ctx, by.scope, by.name, id, b.From, b.To, b.Reason)
	if err != nil {
		return nil, err
	}
	return &body[api.Backfilled]{api.Backfilled{Triggers: n}}, nil
}

// scheduleOf shows a schedule to a caller. If it launches on hosts of all tenants, the reason of a
// refused launch may name hosts of others: a tenant does not see it.
func scheduleOf(by caller, s *catalog.Schedule) api.Schedule {
	d, st, foreign := s.Definition, s.State, s.Scope.All() && !by.scope.All()
	shown := api.Schedule{
		Name: d.ID.Name, Tenant: d.ID.Tenant, Playbook: s.Launches.Playbook, Cron: d.Cron, At: d.At, Timezone: d.Timezone, CatchUp: string(d.CatchUp), Overlap: string(d.Overlap),
		Managed: s.Managed, ETag: etagOf(s.Version),
	}
	if shown.Timezone == "" {
		shown.Timezone = "UTC"
	}
	if s.Damaged != nil {
		shown.Damaged = core.ErrorText(s.Damaged)
	}
	shown.Revision, shown.Pinned = s.Pinned()
	if d.Jitter > 0 {
		shown.Jitter = d.Jitter.String()
	}
	if d.StartWithin > 0 {
		shown.StartWithin = d.StartWithin.String()
	}
	q := s.Launches
	shown.LaunchOptions = api.LaunchOptions{Limit: q.Limit, Vars: q.Vars, Tags: q.Tags, SkipTags: q.SkipTags, Check: q.Check, Diff: q.Diff, MaxInFlight: q.MaxInFlight, Reason: q.Reason}
	zone, err := time.LoadLocation(shown.Timezone)
	if err != nil {
		zone = time.UTC
	}
	if cron, err := civil.ParseCron(d.Cron); err == nil {
		shown.Sentence = cron.Describe()
	} else if !d.At.IsZero() {
		shown.Sentence = "Once, on " + d.At.In(zone).Format("2 January 2006 at 15:04") + "."
	}
	shown.Paused, shown.PauseReason, shown.Triggers = st.Paused, st.Reason, st.Triggered
	if !s.Next.IsZero() {
		shown.Next = s.Next.UTC()
		shown.NextLocal = s.Next.In(zone).Format(localTime)
	}
	for _, r := range st.Last { // newest last
		if r.Triggered {
			shown.LastRun, shown.LastTrigger = r.RunID, r.Nominal
		} else {
			shown.LastSkip, shown.LastSkipAt = r.Reason.Text(), r.Nominal.UTC()
			if foreign && catalog.NamesHosts(r.Reason) {
				shown.LastSkip = catalog.ForeignSkip
			}
		}
	}
	if foreign && !s.Managed { // of one of the project the tenant reads all this in its playbook
		withhold(&shown)
	}
	return shown
}

// withhold takes out what only people of all tenants see of a schedule that one of them made: the
// limit, which may name hosts of others, and values whose names mark a secret. Views of runs do the
// same.
func withhold(s *api.Schedule) {
	if len(s.Limit) > 0 {
		s.Limit, s.LeftOut = nil, []string{"limit"}
	}
	s.Vars = maps.Clone(s.Vars)
	for _, name := range slices.Sorted(maps.Keys(s.Vars)) {
		if launch.MarksSecret(name, s.Vars[name]) {
			delete(s.Vars, name)
			s.LeftOut = append(s.LeftOut, "vars."+name)
		}
	}
}
