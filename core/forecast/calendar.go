package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

const (
	// MaxCalendarRange is the longest range: 92 days of which one may have an hour more.
	MaxCalendarRange = 92*24*time.Hour + time.Hour
	// MaxLanes is how many lanes list their windows. More lanes have counts and a density.
	MaxLanes = 200
	// mostLanes bounds the work of one calendar.
	mostLanes = 10_000
	// mostItems is how many windows, denials and fire times all lanes list, of each kind.
	mostItems = 20_000
	// mostOfLane and mostFires bound a lane, and the fire times of a schedule.
	mostOfLane = 1000
	mostFires  = 1000
)

// LaneKey names a lane.
type LaneKey struct{ Tenant, Set string }

// CalendarInput holds all values of a calendar. Everybody who sees the calendar may see all of
// them.
type CalendarInput struct {
	At       time.Time // fire times before it are left out
	From, To time.Time // at most MaxCalendarRange
	Windows  *windows.Definitions
	Hosts    map[LaneKey]int // lanes that are there also where nothing happens, with their hosts
	// Schedules without those that are paused.
	Schedules []CalendarSchedule
	Runs      []CalendarRun
}

// CalendarSchedule is a schedule, and where the hosts of its playbook are.
type CalendarSchedule struct {
	Name, Playbook string
	Next           func(after time.Time, n int) ([]time.Time, error)
	Lanes          []LaneKey
}

// CalendarRun is a run that is not over, and what it does in each lane. A planned launch has no ID,
// and is created when its schedule launches it.
type CalendarRun struct {
	api.Run
	Parts map[LaneKey]LanePart
}

// LanePart holds the times of a run in a lane: the first host begins, the last one ends, P50 and
// P90. Times are zero where there is no forecast.
type LanePart struct {
	Hosts               int // that have not ended
	Begin, Finish, Late time.Time
}

// MakeCalendar makes the calendar of a service or of window files: what may happen when, a lane for
// each customer and window set. The error is core.ErrInvalid: the range is wrong.
func MakeCalendar(in CalendarInput) (api.Calendar, error) {
	if err := CheckCalendarRange(in.From, in.To); err != nil {
		return api.Calendar{}, err
	}
	m := calendarMaker{CalendarInput: in, lanes: map[LaneKey]*lane{}}
	for key := range in.Hosts {
		m.lane(key)
	}
	for i := range in.Schedules {
		m.schedule(&in.Schedules[i])
	}
	for i := range in.Runs {
		for key := range in.Runs[i].Parts {
			l := m.lane(key)
			l.runs = append(l.runs, &in.Runs[i])
		}
	}
	return m.calendar(), nil
}

// CheckCalendarRange refuses ranges that no calendar has. The error is core.ErrInvalid.
func CheckCalendarRange(from, to time.Time) error {
	switch length := to.Sub(from); {
	case from.Year() < 1971 || to.Year() > 2150:
		return fmt.Errorf("range %s to %s: expected years from 1971 to 2150: %w", from.Format(time.RFC3339), to.Format(time.RFC3339), core.ErrInvalid)
	case length <= 0:
		return fmt.Errorf("range %s to %s: expected an end after its begin: %w", from.Format(time.RFC3339), to.Format(time.RFC3339), core.ErrInvalid)
	case length > MaxCalendarRange:
		return fmt.Errorf("range %s to %s: expected at most 92 days: %w", from.Format(time.RFC3339), to.Format(time.RFC3339), core.ErrInvalid)
	}
	return nil
}

// calendarMaker collects the lanes of a calendar.
type calendarMaker struct {
	CalendarInput
	lanes map[LaneKey]*lane
}

// lane is a lane before it is worked out.
type lane struct {
	LaneKey
	fires []fires
	runs  []*CalendarRun
	more  int // fire times that were left out
}

// fires are the fire times of a schedule. Its lanes share the list: there may be thousands of both.
type fires struct {
	schedule *CalendarSchedule
	at       []time.Time
}

type fire struct {
	schedule *CalendarSchedule
	at       time.Time
}

func (m *calendarMaker) lane(key LaneKey) *lane {
	if m.lanes[key] == nil {
		m.lanes[key] = &lane{LaneKey: key}
	}
	return m.lanes[key]
}

// schedule puts the fire times of a schedule into its lanes.
func (m *calendarMaker) schedule(s *CalendarSchedule) {
	after := m.From
	if m.At.After(after) {
		after = m.At
	}
	var times []time.Time
	more := 0
	for after = after.Add(-1); more == 0; {
		const some = 32
		next, err := s.Next(after, some)
		for _, at := range next {
			if at.Before(m.To) {
				times = append(times, at)
			}
		}
		if err != nil || len(next) < some || !next[some-1].Before(m.To) { // one that was kept is valid
			break
		}
		if after = next[some-1]; len(times) >= mostFires {
			more = 1
		}
	}
	for _, key := range s.Lanes {
		l := m.lane(key)
		l.more += more
		l.fires = append(l.fires, fires{s, times})
	}
}

// calendar works out all lanes.
func (m *calendarMaker) calendar() api.Calendar {
	out := api.Calendar{At: m.At.UTC(), From: m.From.UTC(), To: m.To.UTC(), Zones: []api.CalendarZone{}, Lanes: []api.CalendarLane{}}
	keys := slices.SortedFunc(maps.Keys(m.lanes), func(a, b LaneKey) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Set, b.Set))
	})
	if len(keys) > mostLanes {
		out.LanesLeftOut, keys = len(keys)-mostLanes, keys[:mostLanes]
	}
	sets := map[string]bool{}
	for _, key := range keys {
		if key.Set != "" {
			sets[key.Set] = true
		}
	}
	compiled := m.Windows.CompileFor(windows.Horizon{From: m.From, To: m.To}, windows.Work{}, slices.Sorted(maps.Keys(sets))...)
	many := len(keys) > MaxLanes
	if many {
		out.Density = parts(m.From, m.To)
	}
	zones := map[string]*time.Location{}
	limit := min(max(mostItems/max(len(keys), 1), 100), mostOfLane)
	for _, key := range keys {
		v := view{calendarMaker: m, set: compiled[key.Set], zone: time.UTC, limit: limit}
		if v.set != nil {
			v.zone = v.set.Zone
		}
		zones[v.zone.String()] = v.zone
		shown := v.show(m.lanes[key])
		if many {
			v.density(out.Density, &shown)
			shown.Windows, shown.Denied, shown.FireTimes, shown.Runs, shown.Conflicts = nil, nil, nil, nil, nil
		}
		out.Lanes = append(out.Lanes, filled(shown))
	}
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		out.Zones = append(out.Zones, zoneOf(zones[name], m.From, m.To))
	}
	return out
}

// filled has lists where JSON would have null.
func filled(l api.CalendarLane) api.CalendarLane {
	if l.Windows == nil {
		l.Windows = []api.CalendarWindow{}
	}
	if l.Denied == nil {
		l.Denied = []api.CalendarDenied{}
	}
	if l.FireTimes == nil {
		l.FireTimes = []api.CalendarFire{}
	}
	if l.Runs == nil {
		l.Runs = []api.CalendarRun{}
	}
	if l.Conflicts == nil {
		l.Conflicts = []api.CalendarConflict{}
	}
	return l
}

// zoneOf lists the clock changes of a zone.
func zoneOf(zone *time.Location, from, to time.Time) api.CalendarZone {
	z := api.CalendarZone{Name: zone.String(), Changes: []api.ClockChange{}}
	for _, c := range civil.Changes(zone, from, to) {
		z.Changes = append(z.Changes, api.ClockChange{
			At: c.At.UTC(), By: core.InSeconds(c.By), Before: c.Before.Format("15:04"), After: c.Before.Add(c.By).Format("15:04"),
		})
	}
	return z
}
