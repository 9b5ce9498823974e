package pages

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/pictures"
)

// calendarRows is how many rows of its table the page shows, and calendarConflicts how many
// conflicts above the picture.
const (
	calendarRows      = 300
	calendarAhead     = 3 // windows that come next
	calendarConflicts = 12
)

// calendarView is the calendar as a picture, and the same as a table.
type calendarView struct {
	Filter    calendarFilter
	Problem   string // of what was typed
	Calendar  api.Calendar
	Picture   template.HTML
	Legend    string
	Zones     []string
	Ahead     []pictures.AgendaRow // windows that are open or come next
	Conflicts []pictures.AgendaRow // the first of them
	More      int                  // further conflicts
	Rows      []pictures.AgendaRow
	Lanes     []api.CalendarLane // of too many for a picture of each
	Total     int                // rows of the whole table
	Next      string
}

// calendarFilter holds the choices in the address of the page.
type calendarFilter struct {
	From   string // a day in Zone; "" is now
	Days   int
	Tenant string
	Zone   string // of the upper axis; "" is that of most lanes
	Only   string // kind of rows; "" is all
	Row    int    // the first row of the table
	begin  time.Time
}

// calendarRanges are the ranges that the page offers, in days.
var calendarRanges = []int{1, 7, 14, 31, 92}

func (p *Pages) calendar(w http.ResponseWriter, r *http.Request, v visit) {
	if filter, err := calendarFilterOf(r.URL.Query(), time.Now()); err != nil {
		p.show(w, http.StatusUnprocessableEntity, "calendar", v, "Calendar", calendarView{Filter: filter, Problem: err.Error()})
		return
	}
	p.showLive(w, r, v, p.livePages["/calendar"])
}

func readCalendar(ctx context.Context, v visit, q url.Values) (any, error) {
	filter, err := calendarFilterOf(q, time.Now())
	if err != nil {
		return nil, err
	}
	made, err := v.client.Calendar(ctx, filter.begin, filter.end(), filter.Tenant)
	return calendarOf(made, filter), err
}

func calendarFilterOf(q url.Values, now time.Time) (calendarFilter, error) {
	f := calendarFilter{From: q.Get("from"), Days: 14, Tenant: q.Get("tenant"), Zone: q.Get("zone"), Only: q.Get("only")}
	zone := time.UTC
	if f.Zone != "" {
		var err error
		if zone, err = time.LoadLocation(f.Zone); err != nil || f.Zone == "Local" {
			return f, fmt.Errorf("time zone %q is not known: expected one as Europe/Berlin", f.Zone)
		}
	}
	if text := q.Get("days"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 92 {
			return f, fmt.Errorf("%q days: expected 1 to 92", text)
		}
		f.Days = n
	}
	if n, err := strconv.Atoi(q.Get("row")); err == nil && n > 0 {
		f.Row = n
	}
	switch {
	case f.From != "":
		at, err := time.ParseInLocation(time.DateOnly, f.From, zone)
		if err != nil {
			return f, fmt.Errorf("%q is not a day: expected one as 2026-12-31", f.From)
		}
		f.begin = at
	case f.Days == 1: // the next 24 hours
		f.begin = now.Truncate(time.Hour)
	default:
		year, month, day := now.In(zone).Date()
		f.begin = time.Date(year, month, day, 0, 0, 0, 0, zone)
	}
	return f, nil
}

func (f calendarFilter) end() time.Time { return f.begin.AddDate(0, 0, f.Days) }

// query is the filter as the address of a page.
func (f calendarFilter) query() string {
	q := url.Values{}
	for key, value := range map[string]string{"from": f.From, "tenant": f.Tenant, "zone": f.Zone, "only": f.Only} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if f.Days != 14 {
		q.Set("days", strconv.Itoa(f.Days))
	}
	if f.Row > 0 {
		q.Set("row", strconv.Itoa(f.Row))
	}
	return "/calendar?" + q.Encode()
}

// With is the address of the same page with another choice.
func (f calendarFilter) With(key, value string) string {
	f.Row = 0
	switch key {
	case "days":
		f.Days, _ = strconv.Atoi(value) // of calendarRanges
	case "tenant":
		f.Tenant = value
	case "only":
		f.Only = value
	}
	return f.query()
}

// Move is the address of the range before or after this one.
func (f calendarFilter) Move(ranges int) string {
	f.Row = 0
	f.From = f.begin.AddDate(0, 0, ranges*f.Days).Format(time.DateOnly)
	return f.query()
}

// Ranges are the ranges that the page offers.
func (f calendarFilter) Ranges() []int { return calendarRanges }

// Kinds returns the kinds of rows of the table, with their names.
func (f calendarFilter) Kinds() [][2]string {
	return [][2]string{
		{"", "all"}, {pictures.OpenWindow, "windows"}, {pictures.UnapprovedWindow, "not approved"}, {pictures.DeniedTime, "freezes"}, {pictures.FireTime, "launches"}, {pictures.PlannedRun, "runs"}, {pictures.Conflict, "conflicts"},
	}
}

func calendarOf(c api.Calendar, f calendarFilter) calendarView {
	view := calendarView{Filter: f, Calendar: c, Legend: pictures.CalendarLegend}
	for _, z := range c.Zones {
		view.Zones = append(view.Zones, z.Name)
	}
	if !slices.Contains(view.Zones, "UTC") {
		view.Zones = append(view.Zones, "UTC")
	}
	zone, err := time.LoadLocation(cmp.Or(f.Zone, commonZone(c.Lanes)))
	if err != nil { // the server has other zones than this machine
		zone = time.UTC
	}
	block := pictures.Calendar(&c, pictures.CalendarLook{Zone: zone, Links: calendarLink})
	view.Picture = template.HTML(block.Markup) //nolint:gosec // pictures escapes each text
	if len(c.Density) > 0 {
		view.Lanes = slices.Clone(c.Lanes)
		slices.SortStableFunc(view.Lanes, func(a, b api.CalendarLane) int {
			return cmp.Or(b.Counts.Conflicts-a.Counts.Conflicts, b.Counts.Unapproved-a.Counts.Unapproved)
		})
		view.Lanes = calendarPart(&view, view.Lanes)
		return view
	}
	var rows []pictures.AgendaRow
	for _, row := range pictures.Agenda(&c) {
		if row.Kind == pictures.Conflict {
			view.Conflicts = append(view.Conflicts, row)
		}
		isWindow := row.Kind == pictures.OpenWindow || row.Kind == pictures.UnapprovedWindow
		if isWindow && row.To.After(c.At) {
			view.Ahead = append(view.Ahead, row)
		}
		if f.Only == row.Kind || f.Only == pictures.OpenWindow && isWindow || f.Only == "" && row.Kind != pictures.Conflict {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(view.Ahead, func(a, b pictures.AgendaRow) int { return a.From.Compare(b.From) })
	view.Ahead = view.Ahead[:min(len(view.Ahead), calendarAhead)]
	shown := min(len(view.Conflicts), calendarConflicts)
	view.Conflicts, view.More = view.Conflicts[:shown], len(view.Conflicts)-shown
	view.Rows = calendarPart(&view, rows)
	return view
}

// calendarPart cuts the part of a table that is shown.
func calendarPart[T any](view *calendarView, all []T) []T {
	from := min(view.Filter.Row, len(all))
	to := min(from+calendarRows, len(all))
	if view.Total = len(all); to < len(all) {
		next := view.Filter
		next.Row = to
		view.Next = next.query()
	}
	return all[from:to]
}

// commonZone is the time zone of most lanes.
func commonZone(lanes []api.CalendarLane) string {
	count, most := map[string]int{}, "UTC"
	for _, l := range lanes {
		if l.Set == "" { // it has none of its own
			continue
		}
		if count[l.Timezone]++; count[l.Timezone] > count[most] {
			most = l.Timezone
		}
	}
	return most
}

// calendarLink is where a click on a part of the picture leads.
func calendarLink(kind, name string) string {
	switch {
	case name == "":
		return ""
	case kind == pictures.LinkSet:
		return "/windows/" + url.PathEscape(name)
	case kind == pictures.LinkSchedule:
		return "/schedules/" + url.PathEscape(name)
	}
	return "/runs/" + url.PathEscape(name)
}
