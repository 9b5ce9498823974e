package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/pictures"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// calendarFlags choose the range of a calendar.
type calendarFlags struct {
	from, to, tenant, timezone string
}

func (f *calendarFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.from, "from", "", "begin: RFC 3339, or local time of --timezone (default: the begin of today)")
	c.Flags().StringVar(&f.to, "to", "", "end, at most 92 days later (default: 14 days later)")
	c.Flags().StringVar(&f.tenant, "tenant", "", "lanes of this customer of a server only")
	c.Flags().StringVar(&f.timezone, "timezone", "UTC", "time zone of --from, --to and the upper axis of -o svg")
}

// span reads the range.
func (f *calendarFlags) span() (from, to time.Time, zone *time.Location, err error) {
	if zone, err = civil.LoadZone(f.timezone); err != nil {
		return from, to, zone, console.Invalid("--timezone: %w", err)
	}
	year, month, day := time.Now().In(zone).Date()
	from = time.Date(year, month, day, 0, 0, 0, 0, zone)
	if f.from != "" {
		if from, err = instantFlag("--from", f.from, zone); err != nil {
			return from, to, zone, err
		}
	}
	to = from.AddDate(0, 0, 14)
	if f.to != "" {
		if to, err = instantFlag("--to", f.to, zone); err != nil {
			return from, to, zone, err
		}
	}
	if err := forecast.CheckCalendarRange(from, to); err != nil {
		return from, to, zone, fmt.Errorf("%w\nhint: --from 2026-12-01 --to 2026-12-15", err)
	}
	return from, to, zone, nil
}

func (a *app) windowsCalendarCmd() *cobra.Command {
	var f windowFlags
	var r remote.Flags
	var q calendarFlags
	c := &cobra.Command{
		Use:   "calendar [-f FILE]",
		Short: "Show windows, freezes, launches and runs of a range, as a table or a picture",
		Long: `Show what may happen when, by customer and window set: windows, freezes, windows that
nobody approved, launches by schedules, and runs with their forecast. Conflicts come first, then
all by time. It asks a server, or with -f it reads the windows of files. -o svg writes the picture
of the page Calendar.`,
		Example: `  turnus windows calendar --from 2026-12-01 --to 2026-12-15 --timezone Europe/Berlin
  turnus windows calendar --tenant acme -o svg > acme.svg
  turnus windows calendar -f windows.yaml -o json`,
		Args: cobra.NoArgs, Annotations: map[string]string{"svg": "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to, zone, err := q.span()
			if err != nil {
				return err
			}
			if len(f.files) == 0 {
				return remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
					made, err := c.Calendar(ctx, from, to, q.tenant)
					if err != nil {
						return err
					}
					return a.showCalendar(made, zone)
				})(cmd, args)
			}
			if r != (remote.Flags{}) || q.tenant != "" {
				return console.Invalid("-f says that files are asked: --server, --context, --token-file, --ca-file and --tenant are for asking a server, without -f")
			}
			made, err := calendarOfFiles(f.files, from, to)
			if err != nil {
				return err
			}
			return a.showCalendar(made, zone)
		},
	}
	f.addFiles(c)
	r.Add(c)
	q.add(c)
	return c
}

// calendarOfFiles has a lane for each window set.
func calendarOfFiles(files []string, from, to time.Time) (api.Calendar, error) {
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

// showCalendar prints conflicts, then what happens by time; of too many lanes their counts.
func (a *app) showCalendar(c api.Calendar, zone *time.Location) error {
	switch a.Output {
	case "json":
		return console.PrintJSON(a.Out, c)
	case "svg":
		_, err := a.Out.Raw().Write([]byte(pictures.CalendarDocument(&c, pictures.CalendarLook{Zone: zone})))
		return err
	}
	if len(c.Density) > 0 {
		a.printLanes(c.Lanes)
		return nil
	}
	cells := [][]string{{"LOCAL", "UTC", "CUSTOMER", "WINDOW SET", "WHAT", "DETAILS"}}
	for _, row := range pictures.Agenda(&c) {
		if row.Kind == pictures.Conflict {
			fmt.Fprintf(a.Out, "%s %s, %s / %s: %s\n", a.Paint(console.Red, "conflict"), row.FromLocal, pictures.Named(row.Tenant), pictures.Named(row.Set), row.Text)
			continue
		}
		local, utc := row.FromLocal, console.UTC(row.From)
		if !row.To.IsZero() {
			local, utc = local+" to "+row.ToLocal, utc+" to "+console.UTC(row.To)
		}
		cells = append(cells, []string{local, utc, pictures.Named(row.Tenant), pictures.Named(row.Set), row.What(), row.Text})
	}
	console.Table(a.Out, cells)
	if len(cells) == 1 {
		fmt.Fprintln(a.Out, "nothing happens in this range")
	}
	return nil
}

// printLanes prints what lanes have in numbers.
func (a *app) printLanes(lanes []api.CalendarLane) {
	cells := [][]string{{"CUSTOMER", "WINDOW SET", "HOSTS", "CONFLICTS", "NOT APPROVED", "WINDOWS", "FREEZES", "LAUNCHES", "RUNS"}}
	for _, l := range lanes {
		n := l.Counts
		row := []string{pictures.Named(l.Tenant), pictures.Named(l.Set)}
		for _, count := range []int{l.Hosts, n.Conflicts, n.Unapproved, n.Open, n.Denied, n.Fires, n.Runs} {
			row = append(row, fmt.Sprint(count))
		}
		cells = append(cells, row)
	}
	console.Table(a.Out, cells)
	fmt.Fprintln(a.Out, "more than 200 lanes are shown as numbers; --tenant CUSTOMER shows the times of a customer")
}
