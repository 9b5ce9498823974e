package pictures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core/api"
)

// Kinds of rows of an agenda.
const (
	OpenWindow       = "window"
	UnapprovedWindow = "unapproved"
	DeniedTime       = "denied"
	FireTime         = "fire_times"
	PlannedRun       = "run"
	Conflict         = "conflict"
	ClocksChange     = "clocks"
)

// AgendaRow is a row of the table that has what the picture of a calendar shows.
type AgendaRow struct {
	Kind               string
	From, To           time.Time // To is zero of a moment
	FromLocal, ToLocal string    // in the zone of the lane
	Tenant, Set        string
	Text               string
	Schedule, Run      string // that a link leads to
}

// What returns in a word or two what a row is.
func (r *AgendaRow) What() string {
	return map[string]string{
		OpenWindow: "window", UnapprovedWindow: "not approved", DeniedTime: "closed", FireTime: "launch", PlannedRun: "run", Conflict: "conflict", ClocksChange: "clocks change",
	}[r.Kind]
}

// Agenda lists what a calendar shows, by time.
func Agenda(c *api.Calendar) []AgendaRow {
	var rows []AgendaRow
	for _, z := range c.Zones {
		for _, change := range z.Changes {
			rows = append(rows, AgendaRow{
				Kind: ClocksChange, From: change.At, FromLocal: change.Before + " " + z.Name, Text: fmt.Sprintf("in %s clocks go from %s to %s", z.Name, change.Before, change.After),
			})
		}
	}
	for i := range c.Lanes {
		rows = append(rows, rowsOf(&c.Lanes[i])...)
	}
	slices.SortStableFunc(rows, func(a, b AgendaRow) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Set, b.Set))
	})
	return rows
}

func rowsOf(l *api.CalendarLane) []AgendaRow {
	var rows []AgendaRow
	add := func(r AgendaRow) {
		r.Tenant, r.Set = l.Tenant, l.Set
		rows = append(rows, r)
	}
	for i := range l.Windows {
		w := &l.Windows[i]
		add(AgendaRow{Kind: windowKind(w), From: w.Open, To: w.Close, FromLocal: w.OpenLocal, ToLocal: w.CloseLocal, Text: windowText(w)})
	}
	for i := range l.Denied {
		d := &l.Denied[i]
		add(AgendaRow{Kind: DeniedTime, From: d.From, To: d.To, FromLocal: d.FromLocal, ToLocal: d.ToLocal, Text: deniedText(d)})
	}
	for i := range l.FireTimes {
		f := &l.FireTimes[i]
		add(AgendaRow{Kind: FireTime, From: f.At, FromLocal: f.Local, Schedule: f.Schedule, Text: fireText(f)})
	}
	for i := range l.Runs {
		r := &l.Runs[i]
		add(AgendaRow{Kind: PlannedRun, From: r.Begin, To: r.FinishP90, FromLocal: r.BeginLocal, ToLocal: r.LateLocal, Run: r.Run, Schedule: r.Schedule, Text: runText(r)})
	}
	for _, one := range l.Conflicts {
		add(AgendaRow{Kind: Conflict, From: one.At, FromLocal: one.Local, Text: one.Text})
	}
	return rows
}

func windowKind(w *api.CalendarWindow) string {
	if w.Unapproved != "" {
		return UnapprovedWindow
	}
	return OpenWindow
}

func windowText(w *api.CalendarWindow) string {
	text := "open"
	if w.Unapproved != "" {
		text = w.Unapproved
	}
	return strings.Join(append([]string{text}, w.Notes...), "; ")
}

func deniedText(d *api.CalendarDenied) string {
	text := d.Kind + " " + d.Name
	if d.Cancels {
		text += ", drops windows that it touches"
	}
	if d.Owner != "" {
		text += ", by " + d.Owner
	}
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

func fireText(f *api.CalendarFire) string {
	text := fmt.Sprintf("schedule %s launches %s", f.Schedule, f.Playbook)
	switch {
	case f.Open:
	case f.Opens.IsZero():
		text += "; no window follows in this range"
	default:
		text += "; the next window opens " + utc(f.Opens)
	}
	return text
}

func runText(r *api.CalendarRun) string {
	phase := string(r.Phase)
	if r.Run == "" {
		phase = "planned by schedule " + r.Schedule
	}
	text := fmt.Sprintf("%s, %s, %d hosts", r.Playbook, phase, r.Hosts)
	if r.FinishP90.IsZero() {
		return text + "; no forecast"
	}
	return text + "; ends " + utc(r.FinishP50) + " (P50), " + utc(r.FinishP90) + " (P90)"
}
