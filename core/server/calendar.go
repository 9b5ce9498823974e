package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

// calendarRoute registers what may happen when.
func (s *Server) calendarRoute() {
	handle(s, route{
		id: "get-calendar", method: http.MethodGet, path: "/v1/calendar", summary: "Show what may happen when, by customer and window set", role: Viewer,
		detail: "Windows, freezes, fire times of schedules, runs that are not over, and the next launches. A tenant's token sees the lanes of its hosts, its schedules and its runs. " +
			"Approvals that are bound to certain work are taken as not given. The newest runs and the next launches have a forecast.",
	}, s.getCalendar)
}

const (
	calendarDays      = 14     // without to
	calendarSchedules = 2000   // that are read
	calendarRuns      = 200    // of each phase
	calendarForecasts = 6      // runs that get one, and launches that are planned
	calendarHosts     = 20_000 // of runs that get one, and of launches
)

func (s *Server) getCalendar(ctx context.Context, by caller, in *struct {
	From   time.Time `query:"from" doc:"begin of the range; the begin of today in UTC when not given"`
	To     time.Time `query:"to" doc:"end of the range, at most 92 days later; 14 days later when not given"`
	Tenant string    `query:"tenant" maxLength:"200" doc:"lanes of this customer only"`
},
) (*body[api.Calendar], error) {
	now := time.Now()
	if in.From.IsZero() {
		in.From = now.UTC().Truncate(24 * time.Hour)
	}
	if in.To.IsZero() {
		in.To = in.From.AddDate(0, 0, calendarDays)
	}
	if err := forecast.CheckCalendarRange(in.From, in.To); err != nil {
		return nil, err
	}
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	cal, sets, err := s.windows(by)
	if err != nil {
		return nil, err
	}
	w := &lanes{Server: s, by: by, set: set, cal: cal, tenant: in.Tenant, places: map[string]*place{}}
	input := forecast.CalendarInput{At: now, From: in.From, To: in.To, Windows: cal.Definitions(), Hosts: w.hosts(sets)}
	if err = w.schedules(ctx, &input); err != nil {
		return nil, err
	}
	if err = w.runs(ctx, &input); err != nil {
		return nil, err
	}
	w.launches(ctx, &input)
	made, err := forecast.MakeCalendar(input)
	if err != nil {
		return nil, err
	}
	return &body[api.Calendar]{made}, nil
}

// lanes finds the lanes of hosts, schedules and runs in a caller's calendar.
type lanes struct {
	*Server
	by     caller
	set    *definitions.Set
	cal    *admission.Calendar
	tenant string // of the lanes; "" is all
	places map[string]*place
	next   []catalog.Schedule // that launch something
	hosted int                // hosts of runs and launches that have a forecast
}

// place is where the hosts of a playbook are. Its schedules and runs share what is in it: there may
// be thousands of them and of lanes.
type place struct {
	lanes []forecast.LaneKey
	parts map[int]map[forecast.LaneKey]forecast.LanePart // of runs without a forecast, by their hosts
}

// of returns what a run without a forecast does in each lane.
func (p *place) of(hosts int) map[forecast.LaneKey]forecast.LanePart {
	if p.parts[hosts] == nil {
		all := make(map[forecast.LaneKey]forecast.LanePart, len(p.lanes))
		for _, key := range p.lanes {
			all[key] = forecast.LanePart{Hosts: hosts}
		}
		p.parts[hosts] = all
	}
	return p.parts[hosts]
}

// shows reports whether things of a customer are in the calendar.
func (l *lanes) shows(customer string) bool {
	return l.by.scope.Allows(customer) && (l.tenant == "" || l.tenant == customer)
}

// hosts counts the hosts of each lane. A set without hosts has a lane for each tenant whose
// playbooks name it.
func (l *lanes) hosts(sets map[string]int) map[forecast.LaneKey]int {
	count := map[forecast.LaneKey]int{}
	for _, h := range l.Server.hosts(l.by, l.set) {
		if h.WindowSet != "" && l.shows(h.Customer) {
			count[forecast.LaneKey{Tenant: h.Customer, Set: h.WindowSet}]++
		}
	}
	named := l.named()
	for name, hosts := range sets {
		if hosts > 0 {
			continue
		}
		for owner := range named[name] {
			if l.shows(owner) {
				count[forecast.LaneKey{Tenant: owner, Set: name}] = 0
			}
		}
		if len(named[name]) == 0 && l.shows("") {
			count[forecast.LaneKey{Set: name}] = 0
		}
	}
	return count
}

// named are the tenants whose playbooks name a set, by set.
func (l *lanes) named() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	note := func(set, tenant string) {
		if out[set] == nil {
			out[set] = map[string]bool{}
		}
		out[set][tenant] = true
	}
	for _, b := range l.set.Playbooks {
		note(b.Window, b.Tenant)
		for _, step := range b.Calls() {
			note(step.Window, b.Tenant)
		}
	}
	return out
}

// of returns the lanes of the hosts that a playbook selects, of each host those whose windows its
// steps wait for.
func (l *lanes) of(playbook, tenant string) *place {
	if known := l.places[playbook]; known != nil {
		return known
	}
	seen := map[forecast.LaneKey]bool{}
	if p, ok := l.set.Playbook(playbook); ok {
		steps := admission.NewSteps(p, admission.Options{Disruptive: playbooks.Disruptive(l.typeOf)})
		for _, name := range l.set.Selected(playbook) {
			h, ok := l.set.Inventory.Host(name)
			if !ok || !l.shows(h.Customer) {
				continue
			}
			used := steps.Hosts([]core.Host{h})
			for name := range used {
				seen[forecast.LaneKey{Tenant: h.Customer, Set: name}] = true
			}
			if len(used) == 0 {
				seen[forecast.LaneKey{Tenant: h.Customer}] = true
			}
		}
	}
	if len(seen) == 0 && l.shows(tenant) {
		seen[forecast.LaneKey{Tenant: tenant}] = true
	}
	l.places[playbook] = &place{lanes: slices.Collect(maps.Keys(seen)), parts: map[int]map[forecast.LaneKey]forecast.LanePart{}}
	return l.places[playbook]
}

func (l *lanes) schedules(ctx context.Context, in *forecast.CalendarInput) error {
	for cursor, read := "", 0; read < calendarSchedules; {
		some, next, err := l.cfg.Catalog.Schedules(ctx, l.by.scope, cursor, ledger.MaxPage)
		if err != nil {
			return err
		}
		for i := range some {
			one := &some[i]
			if one.Next.IsZero() { // paused, or over
				continue
			}
			hosts := l.of(one.Launches.Playbook, one.Definition.ID.Tenant)
			fires := forecast.CalendarSchedule{Name: one.Definition.ID.String(), Playbook: one.Launches.Playbook, Next: one.Definition.Next, Lanes: hosts.lanes}
			in.Schedules, l.next = append(in.Schedules, fires), append(l.next, *one)
		}
		if cursor, read = next, read+len(some); next == "" {
			break
		}
	}
	return nil
}

// runs lists runs that have not ended. A run without a forecast is in the lanes of its playbook.
func (l *lanes) runs(ctx context.Context, in *forecast.CalendarInput) error {
	forecasts := 0
	for _, phase := range []ledger.Phase{ledger.PhaseActive, ledger.PhaseQueued, ledger.PhasePaused, ledger.PhaseAwaiting} {
		list := func(ctx context.Context, p ledger.Page) ([]ledger.Run, string, error) {
			return l.cfg.Ledger.Runs(ctx, l.by.scope, ledger.RunFilter{Phase: phase}, p)
		}
		some, err := ledger.First(ctx, calendarRuns, list)
		if err != nil {
			return err
		}
		for i := range some {
			run := forecast.CalendarRun{Run: runOf(some[i])}
			if run.Phase.Over() || some[i].Complete() {
				continue
			}
			if forecasts < calendarForecasts && l.hosted+run.Total <= calendarHosts {
				forecasts, l.hosted = forecasts+1, l.hosted+run.Total
				if e, err := l.estimate(ctx, &some[i]); err == nil { // else it has none
					run.Parts = l.parts(e)
				}
			}
			if run.Parts == nil {
				run.Parts = l.of(run.Playbook, run.Tenant).of(run.Total)
			}
			in.Runs = append(in.Runs, run)
		}
	}
	return nil
}

// launches adds the next launches of schedules, each with its forecast. One that cannot be
// estimated, as its playbook selects no host, is a fire time only.
func (l *lanes) launches(ctx context.Context, in *forecast.CalendarInput) {
	slices.SortStableFunc(l.next, func(a, b catalog.Schedule) int { return a.Next.Compare(b.Next) })
	forecasts := 0
	for i := range l.next {
		one := &l.next[i]
		if forecasts == calendarForecasts || !one.Next.Before(in.To) {
			return
		}
		playbook, ok := l.set.Playbook(one.Launches.Playbook)
		hosts := len(l.set.Selected(one.Launches.Playbook))
		if !ok || one.Next.Before(in.From) || l.hosted+hosts > calendarHosts {
			continue
		}
		forecasts, l.hosted = forecasts+1, l.hosted+hosts
		id := one.Definition.ID
		planned := ledger.Run{ID: "schedule " + id.String() + " " + one.Next.Format(time.RFC3339), Tenant: id.Tenant, Playbook: playbook.Name}
		e, err := l.estimates.of(&planned, func(e *estimate) (err error) {
			e.launch, err = l.cfg.Catalog.Prepare(ctx, l.cfg.Catalog.Current(), playbook, one.Launches, catalog.Launching{By: l.by.name, Scope: one.Scope, SkipNoWindow: true})
			if err != nil {
				return err
			}
			e.hosts = len(e.launch.Hosts)
			return l.forecastAt(ctx, e, one.Next)
		})
		if err == nil { // else it has none
			run := api.Run{Schedule: id.String(), Playbook: playbook.Name, Tenant: id.Tenant, Created: one.Next}
			in.Runs = append(in.Runs, forecast.CalendarRun{Run: run, Parts: l.parts(e)})
		}
	}
}

// forecastAt estimates a launch at a time.
func (s *Server) forecastAt(ctx context.Context, e *estimate, at time.Time) error {
	past, err := controller.Learned(ctx, s.cfg.Ledger, ledger.Tenants(e.launch.Run.Tenant), e.launch.Playbook.Name)
	if err != nil {
		return err
	}
	cal, _ := s.cfg.Catalog.Windows()
	o := launch.Outlook{At: at, Calendar: cal, Types: s.typeOf, Past: past.Step, Samples: max(min(planSamples/max(e.hosts, 1), 100), 1)}
	o.Concurrency, e.shared, e.unworked = s.share(ctx)
	e.Estimate, err = e.launch.Forecast(o)
	return err
}

// parts returns what a run does in each lane.
func (l *lanes) parts(e *estimate) map[forecast.LaneKey]forecast.LanePart {
	parts := map[forecast.LaneKey]forecast.LanePart{}
	for i, h := range e.launch.Hosts {
		at := e.Hosts[i]
		if !l.shows(h.Customer) || at.Begin.IsZero() { // it has ended, or does not begin
			continue
		}
		key := forecast.LaneKey{Tenant: h.Customer}
		if w := e.Windows[i].Set; w != nil {
			key.Set = w.Name
		}
		p, known := parts[key]
		p.Hosts++
		if !known || at.Begin.Before(p.Begin) {
			p.Begin = at.Begin
		}
		if at.Finish.After(p.Finish) {
			p.Finish = at.Finish
		}
		if at.Late.After(p.Late) {
			p.Late = at.Late
		}
		parts[key] = p
	}
	return parts
}
