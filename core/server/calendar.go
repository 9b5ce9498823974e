package server

import (
	"context"
	"net/http"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/calendar"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
)

// calendarRoute registers what may happen when.
func (s *Server) calendarRoute() {
	handle(s, route{
		id: "get-calendar", method: http.MethodGet, path: "/v1/calendar", summary: "Show what may happen when, by customer and window set", role: Viewer,
		detail: "Windows, freezes, fire times of schedules, and runs that are not over. A tenant's token sees the lanes of its hosts, its schedules and its runs. " +
			"Approvals that are bound to certain work are taken as not given. The newest runs have a forecast.",
	}, s.getCalendar)
}

const (
	calendarDays      = 14     // without to
	calendarSchedules = 2000   // that are read
	calendarRuns      = 200    // of each phase
	calendarForecasts = 10     // runs that get one
	calendarHosts     = 20_000 // of runs that get one
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
	if err := calendar.CheckRange(in.From, in.To); err != nil {
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
	w := &lanes{Server: s, by: by, set: set, cal: cal, tenant: in.Tenant, places: map[string]map[calendar.Key]int{}}
	input := calendar.Input{At: now, From: in.From, To: in.To, Windows: cal.Definitions(), Hosts: w.hosts(sets)}
	if input.Schedules, err = w.schedules(ctx); err != nil {
		return nil, err
	}
	if input.Runs, err = w.runs(ctx); err != nil {
		return nil, err
	}
	made, err := calendar.Make(input)
	if err != nil {
		return nil, err
	}
	return &body[api.Calendar]{made}, nil
}

// lanes finds where hosts, schedules and runs stand in a caller's calendar.
type lanes struct {
	*Server
	by     caller
	set    *definitions.Set
	cal    *admission.Calendar
	tenant string // of the lanes; "" is all
	places map[string]map[calendar.Key]int
}

// shows reports whether things of a customer are in the calendar.
func (l *lanes) shows(customer string) bool {
	return l.by.scope.Allows(customer) && (l.tenant == "" || l.tenant == customer)
}

// hosts counts the hosts of each lane. A set without hosts, which only a playbook names, has a lane.
func (l *lanes) hosts(sets map[string]int) map[calendar.Key]int {
	count := map[calendar.Key]int{}
	for _, h := range l.Server.hosts(l.by, l.set) {
		if h.WindowSet != "" && l.shows(h.Customer) {
			count[calendar.Key{Tenant: h.Customer, Set: h.WindowSet}]++
		}
	}
	owner := "" // of all tenants
	if !l.by.scope.All() {
		owner = l.by.token.Tenant
	}
	for name, hosts := range sets {
		if hosts == 0 && l.shows(owner) {
			count[calendar.Key{Tenant: owner, Set: name}] = 0
		}
	}
	return count
}

// of counts the hosts that a playbook selects by their lanes, of each host those whose windows its
// steps wait for.
func (l *lanes) of(playbook, tenant string) map[calendar.Key]int {
	if known := l.places[playbook]; known != nil {
		return known
	}
	count := map[calendar.Key]int{}
	if p, ok := l.set.Playbook(playbook); ok {
		steps := admission.NewSteps(p, admission.Options{Disruptive: func(uses string) bool {
			t, known := l.typeOf(uses)
			return !known || t.Disruptive
		}})
		for _, name := range l.set.Selected(playbook) {
			h, ok := l.set.Inventory.Host(name)
			if !ok || !l.shows(h.Customer) {
				continue
			}
			used := steps.Hosts([]core.Host{h})
			for name := range used {
				count[calendar.Key{Tenant: h.Customer, Set: name}]++
			}
			if len(used) == 0 {
				count[calendar.Key{Tenant: h.Customer}]++
			}
		}
	}
	if len(count) == 0 && l.shows(tenant) {
		count[calendar.Key{Tenant: tenant}] = 0
	}
	l.places[playbook] = count
	return count
}

func (l *lanes) schedules(ctx context.Context) ([]calendar.Schedule, error) {
	var out []calendar.Schedule
	for cursor, read := "", 0; read < calendarSchedules; {
		some, next, err := l.cfg.Catalog.Schedules(ctx, l.by.scope, cursor, ledger.MaxPage)
		if err != nil {
			return nil, err
		}
		for i := range some {
			one := &some[i]
			if one.Next.IsZero() { // paused, or over
				continue
			}
			fires := calendar.Schedule{Name: one.Definition.ID.String(), Playbook: one.Launches.Playbook, Next: one.Definition.Next}
			for key := range l.of(one.Launches.Playbook, one.Definition.ID.Tenant) {
				fires.Lanes = append(fires.Lanes, key)
			}
			out = append(out, fires)
		}
		if cursor, read = next, read+len(some); next == "" {
			break
		}
	}
	return out, nil
}

// runs lists runs that are not over. A run without a forecast stands in the lanes of its playbook.
func (l *lanes) runs(ctx context.Context) ([]calendar.Run, error) {
	var out []calendar.Run
	forecasts, hosts := 0, 0
	for _, phase := range []ledger.Phase{ledger.PhaseActive, ledger.PhaseQueued, ledger.PhasePaused, ledger.PhaseAwaiting} {
		some, _, err := l.cfg.Ledger.Runs(ctx, l.by.scope, ledger.RunFilter{Phase: phase}, ledger.Page{Limit: calendarRuns})
		if err != nil {
			return nil, err
		}
		for i := range some {
			run := calendar.Run{Run: runOf(some[i])}
			if run.Phase.Over() || some[i].Complete() {
				continue
			}
			if forecasts < calendarForecasts && hosts+run.Total <= calendarHosts {
				forecasts, hosts = forecasts+1, hosts+run.Total
				if e, err := l.estimate(ctx, &some[i]); err == nil { // else it has none
					run.Parts = l.parts(e)
				}
			}
			if run.Parts == nil {
				run.Parts = map[calendar.Key]calendar.Part{}
				for key := range l.of(run.Playbook, run.Tenant) {
					run.Parts[key] = calendar.Part{Hosts: run.Total}
				}
			}
			out = append(out, run)
		}
	}
	return out, nil
}

// parts says what a run does in each lane.
func (l *lanes) parts(e *estimate) map[calendar.Key]calendar.Part {
	parts := map[calendar.Key]calendar.Part{}
	for i, h := range e.launch.Hosts {
		at := e.Hosts[i]
		if !l.shows(h.Customer) || at.Begin.IsZero() { // it has ended, or does not begin
			continue
		}
		key := calendar.Key{Tenant: h.Customer}
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
