package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/windows"
)

// view works out one lane.
type view struct {
	*calendarMaker
	set   *windows.Compiled // nil: its work waits for no window
	zone  *time.Location
	limit int // items of each kind

	open       []windows.Window // approved, by opening
	unapproved []windows.Window
	denied     []windows.Denied
}

// show works out what a lane lists, by time.
func (v *view) show(l *lane) api.CalendarLane {
	out := api.CalendarLane{Tenant: l.Tenant, Set: l.Set, Timezone: v.zone.String(), Hosts: v.Hosts[l.LaneKey], LeftOut: l.more}
	if v.set != nil {
		out.Reason = v.set.Reason()
		for _, w := range v.set.Occurrences(v.From, v.To) {
			if w.Unapproved == "" {
				v.open = append(v.open, w)
			} else {
				v.unapproved = append(v.unapproved, w)
			}
			out.Windows = append(out.Windows, v.window(w))
		}
		v.denied = v.set.Denials(v.From, v.To)
		for _, d := range v.denied {
			out.Denied = append(out.Denied, v.deny(d))
		}
	}
	for _, f := range l.all() {
		out.FireTimes = append(out.FireTimes, v.fire(f))
	}
	for _, run := range l.runs {
		r := v.run(run, run.Parts[l.LaneKey])
		if begin, end := taken(&r, v.At); begin.Before(v.To) && end.After(v.From) {
			out.Runs = append(out.Runs, r)
		}
	}
	slices.SortStableFunc(out.Runs, func(a, b api.CalendarRun) int {
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Run, b.Run))
	})
	out.Conflicts = v.conflicts(&out)
	out.Counts = api.CalendarCount{
		Open: len(v.open), Unapproved: len(v.unapproved), Denied: len(out.Denied), FireTimes: len(out.FireTimes), Runs: len(out.Runs), Conflicts: len(out.Conflicts),
	}
	out.Windows = cut(out.Windows, v.limit, &out.LeftOut)
	out.Denied = cut(out.Denied, v.limit, &out.LeftOut)
	out.FireTimes = cut(out.FireTimes, v.limit, &out.LeftOut)
	out.Conflicts = cut(out.Conflicts, v.limit, &out.LeftOut)
	return out
}

// all returns the fire times of the lane, by time.
func (l *lane) all() (list []fire) {
	for _, f := range l.fires {
		for _, at := range f.at {
			list = append(list, fire{f.schedule, at})
		}
	}
	slices.SortStableFunc(list, func(a, b fire) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.schedule.Name, b.schedule.Name))
	})
	return list
}

// cut copies the first items, so that the others need no memory, and counts those.
func cut[T any](all []T, most int, left *int) []T {
	if len(all) <= most {
		return all
	}
	*left += len(all) - most
	return slices.Clone(all[:most])
}

func (v *view) local(t time.Time) string { return t.In(v.zone).Format("Mon 2006-01-02 15:04 MST") }

func (v *view) window(w windows.Window) api.CalendarWindow {
	notes := w.Notes
	if notes == nil {
		notes = []string{}
	}
	return api.CalendarWindow{Unapproved: w.Unapproved, Occurrence: api.Occurrence{
		Open: w.Open.UTC(), Close: w.Close.UTC(), OpenLocal: v.local(w.Open), CloseLocal: v.local(w.Close), Notes: notes,
	}}
}

func (v *view) deny(d windows.Denied) api.CalendarDenied {
	out := api.CalendarDenied{Kind: "rule", Name: d.Use, From: d.From, To: d.To, FromLocal: v.local(d.From), ToLocal: v.local(d.To), Cancels: d.Cancels}
	if kind, name, ok := strings.Cut(d.Use, "/"); ok && (kind == "freeze" || kind == "holidays") {
		out.Kind, out.Name = kind, name
	}
	if f := v.Windows.Freezes[out.Name]; out.Kind == "freeze" && f != nil {
		out.Owner, out.Reason = f.Owner, f.Reason
	}
	return out
}

func (v *view) fire(f fire) api.CalendarFire {
	out := api.CalendarFire{Schedule: f.schedule.Name, Playbook: f.schedule.Playbook, At: f.at.UTC(), Local: v.local(f.at)}
	out.Open = v.set == nil
	if v.set == nil {
		return out
	}
	if w, ok := from(v.open, f.at); ok && w.Open.After(f.at) {
		out.Opens = w.Open.UTC()
	} else {
		out.Open = ok
	}
	return out
}

// from is the first of sorted windows that closes after t.
func from(list []windows.Window, t time.Time) (windows.Window, bool) {
	i := sort.Search(len(list), func(i int) bool { return list[i].Close.After(t) })
	if i == len(list) {
		return windows.Window{}, false
	}
	return list[i], true
}

// within is the window that holds t. Windows that nobody approved may overlap.
func within(list []windows.Window, t time.Time) (windows.Window, bool) {
	for _, w := range list {
		if !t.Before(w.Open) && t.Before(w.Close) {
			return w, true
		}
	}
	return windows.Window{}, false
}

func (v *view) run(run *CalendarRun, p LanePart) api.CalendarRun {
	out := api.CalendarRun{
		Run: run.ID, Schedule: run.Schedule, Playbook: run.Playbook, Phase: run.Phase, Hosts: p.Hosts, Begin: run.Created.UTC(),
		FinishP50: p.Finish.UTC(), FinishP90: p.Late.UTC(),
	}
	if !p.Begin.IsZero() {
		out.Begin = p.Begin.UTC()
	}
	out.BeginLocal = v.local(out.Begin)
	if p.Late.IsZero() {
		out.FinishP50, out.FinishP90 = time.Time{}, time.Time{}
		return out
	}
	out.LateLocal = v.local(p.Late)
	return out
}

// conflicts lists what somebody should check: fire times and runs that meet a freeze, a window that
// nobody approved, the end of a window, or each other.
func (v *view) conflicts(l *api.CalendarLane) []api.CalendarConflict {
	var out []api.CalendarConflict
	add := func(kind string, at time.Time, format string, args ...any) {
		out = append(out, api.CalendarConflict{Kind: kind, At: at, Local: v.local(at), Text: fmt.Sprintf(format, args...)})
	}
	if l.Reason != "" && len(l.FireTimes)+len(l.Runs)+l.Hosts > 0 {
		add("closed", v.From.UTC(), "window set %s is closed: %s", l.Set, l.Reason)
	}
	if v.set != nil && l.Reason == "" {
		for i := range l.FireTimes {
			if kind, why := v.meets(&l.FireTimes[i]); kind != "" {
				add(kind, l.FireTimes[i].At, "schedule %s launches %s %s", l.FireTimes[i].Schedule, l.FireTimes[i].Playbook, why)
			}
		}
	}
	for i := range l.Runs {
		r := &l.Runs[i]
		if r.FinishP90.IsZero() {
			continue
		}
		if w, open := within(v.open, r.FinishP50); open && r.FinishP90.After(w.Close) {
			if _, later := within(v.open, r.FinishP90); !later {
				add("overrun", w.Close.UTC(), "%s may still run when the window closes: its P90 end is %s", subject(r), r.LateLocal)
			}
		}
		for j := range l.Runs[:i] {
			if before := &l.Runs[j]; before.FinishP90.After(r.Begin) && r.Begin.Before(v.To) && r.FinishP90.After(v.From) {
				add("overlap", r.Begin, "%s begins before the P90 end of %s: hosts of both wait for each other", subject(r), subject(before))
				break
			}
		}
	}
	slices.SortStableFunc(out, func(a, b api.CalendarConflict) int { return a.At.Compare(b.At) })
	return out
}

// subject names a run.
func subject(r *api.CalendarRun) string {
	if r.Run == "" {
		return "the next launch of schedule " + r.Schedule
	}
	return "run " + r.Run
}

// meets returns what a fire time meets that its launcher may not expect.
func (v *view) meets(f *api.CalendarFire) (kind, why string) {
	if f.Open {
		return "", ""
	}
	waits := "its hosts find no window before " + v.local(v.To)
	if !f.Opens.IsZero() {
		waits = "its hosts wait until " + v.local(f.Opens)
	}
	for _, d := range v.denied {
		if !f.At.Before(d.From) && f.At.Before(d.To) {
			return "frozen", "within " + d.Use + ": " + waits
		}
	}
	if w, ok := within(v.unapproved, f.At); ok {
		return "unapproved", "in a window that is not open (" + w.Unapproved + "): " + waits
	}
	return "", ""
}
