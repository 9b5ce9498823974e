package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/planview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
	"github.com/turnus/turnus/windows/ics"
)

func (a *app) windowsICSCmd() *cobra.Command {
	var f windowFlags
	var days, sequence int
	c := &cobra.Command{
		Use:     "ics -f FILE SET",
		Short:   "Write a set's windows as iCalendar, to subscribe to",
		Example: `  turnus windows ics -f windows.yaml acme-fra > acme-fra.ics`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: f.complete,
		RunE: func(_ *cobra.Command, args []string) error {
			if days < 1 || days > 3*366 {
				return console.Invalid("--days %d: expected 1 to %d", days, 3*366)
			}
			defs, zone, err := f.load(args[0])
			if err != nil {
				return err
			}
			from, err := instantFlag("--from", f.from, zone)
			if err != nil {
				return err
			}
			stamp, err := newest(f.files)
			if err != nil {
				return err
			}
			if sequence < 0 {
				sequence = max(0, int(stamp.Sub(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)).Minutes()))
			}
			compiled := defs.Compile(args[0], windows.Ahead(from, days))
			if compiled.Reason() != "" {
				return console.Invalid("window set %s is closed: %s", args[0], compiled.Reason())
			}
			feed := ics.Feed{Set: args[0], Zone: zone, Windows: compiled.Occurrences(from, compiled.Horizon.To)}
			if a.Output == "json" {
				docs := core.Map(feed.Windows, func(w windows.Window) planview.Window { return planview.WindowOf(w, zone) })
				return console.PrintJSON(a.Out, map[string]any{"set": args[0], "sequence": sequence, "occurrences": docs})
			}
			var text strings.Builder
			if err := ics.Write(&text, ics.Calendar{Name: "Maintenance windows " + feed.Set, Feeds: []ics.Feed{feed}, Stamp: stamp, Sequence: sequence}); err != nil {
				return err
			}
			// Lines of iCalendar end in CR LF, which the screen would not let pass.
			lines := console.Clean(strings.ReplaceAll(text.String(), "\r\n", "\n"), false)
			_, err = io.WriteString(a.Out.Raw(), strings.ReplaceAll(lines, "\n", "\r\n"))
			return err
		},
	}
	f.addFiles(c)
	c.Flags().StringVar(&f.from, "from", "", "from when on: RFC 3339, or local time of the set (default: now)")
	c.Flags().IntVar(&days, "days", windows.DefaultDays, "how many days ahead")
	c.Flags().IntVar(&sequence, "sequence", -1, "SEQUENCE of the events (default: minutes since 2020 of the file's last change)")
	return c
}

// newest is when the files were last changed.
func newest(files []string) (time.Time, error) {
	var at time.Time
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return at, console.Invalid("-f: %w", err)
		}
		if info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at, nil
}

func (a *app) windowsImportCmd() *cobra.Command {
	var opts ics.Import
	c := &cobra.Command{
		Use:   "import FILE.ics",
		Short: "Make a window set of the events of an iCalendar file; - reads stdin",
		Example: `  turnus windows import maintenance.ics --name acme-fra > acme-fra.yaml
  turnus windows import calendar.ics --name acme --timezone Europe/Berlin`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := a.readCalendar(args[0])
			if err != nil {
				return err
			}
			if opts.Timezone != "" {
				if _, err := civil.LoadZone(opts.Timezone); err != nil {
					return console.Invalid("--timezone: %w", err)
				}
			}
			set, err := ics.Read(data, opts)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			for _, s := range set.Skipped {
				fmt.Fprintln(a.Err, a.Paint(console.Yellow, "skipped: ")+s)
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, map[string]any{"set": opts.Name, "timezone": set.Timezone, "skipped": append([]string{}, set.Skipped...), "yaml": string(set.YAML)})
			}
			_, err = a.Out.Write(set.YAML)
			return err
		},
	}
	c.Flags().StringVar(&opts.Name, "name", "imported", "name of the window set")
	c.Flags().StringVar(&opts.Timezone, "timezone", "", "time zone of the window set (default: that of the events)")
	return c
}

func (a *app) readCalendar(path string) ([]byte, error) {
	in := a.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, console.Invalid("%w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, windows.MaxFileSize+1))
	if err != nil {
		return nil, console.Invalid("%s: %w", path, err)
	}
	return data, nil
}
