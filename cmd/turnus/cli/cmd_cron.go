package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/planview"
	"github.com/turnus/turnus/windows/civil"
)

func (a *app) cronCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "cron",
		Short: "Cron expressions: their fire times, and what they mean",
		Example: `  turnus cron next "30 2 * * 1-5" --timezone Europe/Berlin
  turnus cron describe "17 3 1 */3 *"`,
	}
	c.AddCommand(a.cronNextCmd(), a.cronDescribeCmd())
	return c
}

type scheduleNextDoc struct {
	Cron      string   `json:"cron"`
	Timezone  string   `json:"timezone"`
	Next      []string `json:"next"`
	NextLocal []string `json:"next_local"`
	Warnings  []string `json:"warnings"`
}

func (a *app) cronNextCmd() *cobra.Command {
	var zoneName, from string
	var n int
	c := &cobra.Command{
		Use:   "next CRON --timezone Z",
		Short: "List the next fire times of a cron expression, in local time and UTC",
		Example: `  turnus cron next "30 2 * * 1-5" --timezone Europe/Berlin
  turnus cron next "*/15 * * * *" --timezone UTC --from 2026-03-29T00:00:00Z -n 4 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n < 1 || n > planview.MaxWindows {
				return console.Invalid("-n %d: expected 1 to %d", n, planview.MaxWindows)
			}
			cron, err := civil.ParseCron(args[0])
			if err != nil {
				return console.Invalid("%w\nhint: %s \"30 2 * * 1-5\" is 02:30 from Monday to Friday", err, cmd.CommandPath())
			}
			zone, err := civil.LoadZone(zoneName)
			if err != nil {
				return console.Invalid("--timezone: %w\nhint: timedatectl list-timezones lists them", err)
			}
			at, err := instantFlag("--from", from, zone)
			if err != nil {
				return err
			}
			doc := scheduleNextDoc{Cron: cron.String(), Timezone: zoneName, Next: []string{}, NextLocal: []string{}, Warnings: append([]string{}, cron.WarningsIn(zone, at, at.AddDate(0, 0, 400))...)}
			for range n {
				next, ok := cron.Next(at, zone)
				if !ok {
					break
				}
				doc.Next, doc.NextLocal = append(doc.Next, console.UTC(next)), append(doc.NextLocal, next.In(zone).Format(time.RFC3339))
				at = next
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, doc)
			}
			for _, text := range doc.Next {
				next, _ := time.Parse(time.RFC3339, text)
				fmt.Fprintln(a.Out, console.LocalAndUTC(next, zone))
			}
			a.Warn(doc.Warnings)
			return nil
		},
	}
	c.Flags().StringVar(&zoneName, "timezone", "UTC", "IANA time zone in which the expression is meant")
	c.Flags().StringVar(&from, "from", "", "strictly after when: RFC 3339, or local time of the zone (default: now)")
	c.Flags().IntVarP(&n, "count", "n", 10, "how many")
	return c
}

type describeDoc struct {
	Cron         string   `json:"cron"`
	Description  string   `json:"description"`
	Warnings     []string `json:"warnings"`
	Timezone     string   `json:"timezone,omitempty"`
	ClockChanges []string `json:"clock_changes,omitempty"`
}

func (a *app) cronDescribeCmd() *cobra.Command {
	var zoneName, from string
	c := &cobra.Command{
		Use:   "describe CRON",
		Short: "Explain a cron expression in a sentence, and warn of common mistakes",
		Example: `  turnus cron describe "17 3 1 */3 *"
  turnus cron describe "30 2 * * *" --timezone Europe/Berlin`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cron, err := civil.ParseCron(args[0])
			if err != nil {
				return console.Invalid("%w\nhint: %s \"30 2 * * 1-5\" is 02:30 from Monday to Friday", err, cmd.CommandPath())
			}
			doc := describeDoc{Cron: cron.String(), Description: cron.Describe(), Warnings: append([]string{}, cron.Warnings()...), Timezone: zoneName}
			if zoneName != "" {
				zone, err := civil.LoadZone(zoneName)
				if err != nil {
					return console.Invalid("--timezone: %w\nhint: timedatectl list-timezones lists them", err)
				}
				at, err := instantFlag("--from", from, zone)
				if err != nil {
					return err
				}
				doc.Warnings = append([]string{}, cron.WarningsIn(zone, at, at.AddDate(0, 0, 400))...)
				doc.ClockChanges = cron.ClockChanges(zone, at, at.AddDate(0, 0, 400))
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, doc)
			}
			fmt.Fprintln(a.Out, doc.Description)
			a.Warn(append(doc.Warnings, doc.ClockChanges...))
			return nil
		},
	}
	c.Flags().StringVar(&zoneName, "timezone", "", "also show what the clock changes of this zone do within 400 days")
	c.Flags().StringVar(&from, "from", "", "with --timezone: from when on (default: now)")
	return c
}
