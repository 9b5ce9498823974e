package planview

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/pictures"
	"github.com/turnus/turnus/windows"
)

// CalendarOfFiles has a lane for each window set.
func CalendarOfFiles(files []string, from, to time.Time) (api.Calendar, error) {
	defs, err := windows.Load(files...)
	if err != nil {
		return api.Calendar{}, err
	}
	sets := map[forecast.LaneKey]int{}
	for name := range defs.Sets {
		sets[forecast.LaneKey{Set: name}] = 0
	}
	return forecast.MakeCalendar(forecast.CalendarInput{At: time.Now(), From: from, To: to, Windows: defs, Hosts: sets})
}

// ShowCalendar prints conflicts, then what happens by time; of too many lanes their counts.
func ShowCalendar(con *console.Console, c api.Calendar, zone *time.Location) error {
	switch con.Output {
	case "json":
		return console.PrintJSON(con.Out, c)
	case "svg":
		return con.Out.Picture(pictures.CalendarDocument(&c, pictures.CalendarLook{Zone: zone}))
	}
	if len(c.Density) > 0 {
		printLanes(con, c.Lanes)
		return nil
	}
	cells := [][]string{{"LOCAL", "UTC", "CUSTOMER", "WINDOW SET", "WHAT", "DETAILS"}}
	for _, row := range pictures.Agenda(&c) {
		if row.Kind == pictures.Conflict {
			fmt.Fprintf(con.Out, "%s %s, %s / %s: %s\n", con.Paint(console.Red, "conflict"), row.FromLocal, pictures.Named(row.Tenant), pictures.Named(row.Set), row.Text)
			continue
		}
		local, utc := row.FromLocal, console.UTC(row.From)
		if !row.To.IsZero() {
			local, utc = local+" to "+row.ToLocal, utc+" to "+console.UTC(row.To)
		}
		cells = append(cells, []string{local, utc, pictures.Named(row.Tenant), pictures.Named(row.Set), row.What(), row.Text})
	}
	console.Table(con.Out, cells)
	if len(cells) == 1 {
		fmt.Fprintln(con.Out, "nothing happens in this range")
	}
	return nil
}

// printLanes prints what lanes have in numbers.
func printLanes(con *console.Console, lanes []api.CalendarLane) {
	cells := [][]string{{"CUSTOMER", "WINDOW SET", "HOSTS", "CONFLICTS", "NOT APPROVED", "WINDOWS", "FREEZES", "LAUNCHES", "RUNS"}}
	for _, l := range lanes {
		n := l.Counts
		row := []string{pictures.Named(l.Tenant), pictures.Named(l.Set)}
		for _, count := range []int{l.Hosts, n.Conflicts, n.Unapproved, n.Open, n.Denied, n.FireTimes, n.Runs} {
			row = append(row, fmt.Sprint(count))
		}
		cells = append(cells, row)
	}
	console.Table(con.Out, cells)
	fmt.Fprintln(con.Out, "more than 200 lanes are shown as numbers; --tenant CUSTOMER shows the times of a customer")
}
