package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// windowSets registers window sets. They are changed in the definitions; approvals has the routes
// of approving them.
func (s *Server) windowSets() {
	const seen = "A tenant's token sees those that its hosts have, or its playbooks name."
	handle(s, route{id: "list-windows", method: http.MethodGet, path: "/v1/windows", summary: "List window sets, by name", detail: seen, role: Viewer}, s.listWindows)
	handle(s, route{id: "get-window", method: http.MethodGet, path: "/v1/windows/{set}", summary: "Show a window set with what it opens next", detail: seen, role: Viewer}, s.getWindow)
	handle(s, route{
		id: "explain-window", method: http.MethodGet, path: "/v1/windows/{set}/explain", summary: "Explain whether work may start in a window set, and why not", role: Viewer,
		detail: "Approvals that are bound to certain work are taken as not given.",
	}, s.explainWindow)
}

// WindowPath names a window set.
type WindowPath struct {
	Set string `path:"set" maxLength:"200"`
}

// windowDays is how far ahead occurrences are looked for.
const windowDays = 60

// window finds a set that the caller may see, with how many of their hosts have it.
func (s *Server) windows(by caller) (cal *admission.Calendar, hosts map[string]int, err error) {
	set, err := s.set()
	if err != nil {
		return nil, nil, err
	}
	cal, _ = s.cfg.Catalog.Windows()
	if cal == nil {
		cal = admission.FromDefinitions(set.Windows)
	}
	hosts = map[string]int{}
	for _, h := range s.hosts(by, set) {
		if h.WindowSet != "" {
			hosts[h.WindowSet]++
		}
	}
	for name := range windowsNamed(by, set) {
		hosts[name] += 0
	}
	defs := cal.Definitions()
	maps.DeleteFunc(hosts, func(name string, _ int) bool { return defs.Sets[name] == nil })
	return cal, hosts, nil
}

// windowsNamed are the sets that the caller's playbooks name; of callers of all tenants all sets.
func windowsNamed(by caller, set *definitions.Set) map[string]bool {
	named := map[string]bool{}
	if by.scope.All() {
		for name := range set.Windows.Sets {
			named[name] = true
		}
	}
	note := func(b *playbooks.Playbook) {
		named[b.Window] = true
		for _, step := range b.Calls() {
			named[step.Window] = true
		}
	}
	for _, b := range set.Playbooks {
		if by.scope.Allows(b.Tenant) {
			note(b)
		}
	}
	return named
}

func (s *Server) listWindows(ctx context.Context, by caller, in *struct{ Page }) (*list[api.WindowSet], error) {
	cal, hosts, err := s.windows(by)
	if err != nil {
		return nil, err
	}
	work, err := s.work(by, cal)
	if err != nil {
		return nil, err
	}
	names, next := pageOf(sortedKeys(hosts), strings.Clone, in.Page)
	items := make([]api.WindowSet, len(names))
	now := time.Now()
	cal.Warm(now, names...)
	reads := tookReads
	for i, name := range names {
		items[i] = windowOf(cal, name, hosts[name], shownWork(work[name]), now, 1)
		s.addTook(ctx, items[i].Work, work[name], &reads)
	}
	return listOf(items, next), nil
}

func (s *Server) getWindow(ctx context.Context, by caller, in *struct {
	WindowPath
	Count int `query:"count" minimum:"1" maximum:"100" default:"10" doc:"occurrences"`
},
) (*body[api.WindowSet], error) {
	cal, hosts, err := s.windows(by)
	if err != nil {
		return nil, err
	}
	n, ok := hosts[in.Set]
	if !ok {
		return nil, noWindow(in.Set)
	}
	work, err := s.work(by, cal)
	if err != nil {
		return nil, err
	}
	shown, reads := windowOf(cal, in.Set, n, shownWork(work[in.Set]), time.Now(), in.Count), tookReads
	s.addTook(ctx, shown.Work, work[in.Set], &reads)
	return &body[api.WindowSet]{shown}, nil
}

func (s *Server) explainWindow(_ context.Context, by caller, in *struct {
	WindowPath
	At   time.Time `query:"at" doc:"now when not given; at most a year ahead"`
	Need float64   `query:"need_seconds" default:"1" doc:"how long the work takes, rollback included"`
},
) (*body[api.WindowAnswer], error) {
	cal, hosts, err := s.windows(by)
	if err != nil {
		return nil, err
	}
	if _, ok := hosts[in.Set]; !ok {
		return nil, noWindow(in.Set)
	}
	now := time.Now()
	need := core.Seconds(in.Need).Duration()
	if need <= 0 {
		return nil, fmt.Errorf("need_seconds %v: expected more than 0: %w", in.Need, core.ErrInvalid)
	}
	if in.At.IsZero() {
		in.At = now
	}
	if in.At.Before(now.AddDate(-1, 0, 0)) || in.At.After(now.AddDate(1, 0, 0)) {
		return nil, fmt.Errorf("at %s: expected a time within a year of now: %w", in.At.Format(time.RFC3339), core.ErrInvalid)
	}
	why, err := cal.Compiled(in.At, in.Set, windows.Work{}).Explain(in.At, need)
	if err != nil {
		return nil, fmt.Errorf("need_seconds %v: %w: %w", in.Need, core.ErrInvalid, err)
	}
	return &body[api.WindowAnswer]{api.WindowAnswer{
		Set: in.Set, At: in.At, Need: core.InSeconds(need), Fits: why.Fits, Open: why.Open, Cause: string(why.Cause), By: why.By,
		Reason: why.Reason, Next: why.Next, NoNext: why.NoNext,
	}}, nil
}

func noWindow(name string) error {
	return fmt.Errorf("window set %q is not in the project: %w", clip(name, 200), core.ErrNotFound)
}

// windowOf shows a set with its next occurrences.
func windowOf(cal *admission.Calendar, name string, hosts int, work []api.WindowWork, now time.Time, count int) api.WindowSet {
	set := cal.Definitions().Sets[name]
	c := cal.Compiled(now, name, windows.Work{})
	w := api.WindowSet{Name: name, Timezone: set.Timezone, Hosts: hosts, Hash: cal.Definitions().HashOf(set), Next: []api.Occurrence{}, Work: work}
	if why, err := c.Explain(now, time.Second); err == nil {
		w.Open, w.Reason = why.Open, why.Reason
	} else {
		w.Reason = err.Error()
	}
	if all, err := cal.Definitions().Standings(name, now); err == nil && len(all) > 0 && all[0].Rule == "" {
		w.Approval = approvalState(&all[0], now)
		if holds := heldBy(&all[0], now); holds != nil {
			w.ApprovedBy, w.ApprovedFor = holds.By, holds.Until
		}
	}
	for _, o := range c.Occurrences(now, now.AddDate(0, 0, windowDays)) {
		if len(w.Next) == count {
			break
		}
		w.Next = append(w.Next, occurrenceOf(o, c.Zone))
	}
	return w
}

func occurrenceOf(o windows.Window, zone *time.Location) api.Occurrence {
	notes := slices.Clone(o.Notes)
	if o.Unapproved != "" {
		notes = append(notes, o.Unapproved)
	}
	if notes == nil {
		notes = []string{}
	}
	return api.Occurrence{
		Open: o.Open.UTC(), Close: o.Close.UTC(), OpenLocal: o.Open.In(zone).Format(localTime), CloseLocal: o.Close.In(zone).Format(localTime), Notes: notes,
	}
}

// localTime is how times are shown in a customer's zone.
const localTime = "Mon 2006-01-02 15:04 MST"
