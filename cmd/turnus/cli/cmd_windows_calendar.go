package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/planview"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/forecast"
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
					return planview.ShowCalendar(a.Console, made, zone)
				})(cmd, args)
			}
			if r != (remote.Flags{}) || q.tenant != "" {
				return console.Invalid("-f reads files: --server, --context, --token-file, --ca-file and --tenant are for asking a server, without -f")
			}
			made, err := planview.CalendarOfFiles(f.files, from, to)
			if err != nil {
				return err
			}
			return planview.ShowCalendar(a.Console, made, zone)
		},
	}
	f.addFiles(c)
	r.Add(c)
	q.add(c)
	return c
}
