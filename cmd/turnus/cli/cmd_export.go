package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
)

func (a *app) exportCmd() *cobra.Command {
	var r remote.Flags
	var f client.ExportFilter
	var since, until, file string
	c := &cobra.Command{
		Use:   "export runs|jobs|audit",
		Short: "Write the history of a server as NDJSON or CSV, newest first",
		Long: `Write the history of a server as NDJSON (-o ndjson, or json) or CSV (-o csv), newest first:
runs, their jobs, or who changed what. A tenant's token exports what it can see. Columns are
those of docs/api.md, and stay. With --file nothing is there before all of it is.`,
		Example: `  turnus admin export runs --since 2026-11-01 -o csv > runs.csv
  turnus admin export jobs --since 2026-11-01 --until 2026-12-01 --tenant acme --file jobs.ndjson`,
		Args:        cobra.ExactArgs(1),
		ValidArgs:   []string{"runs", "jobs", "audit"},
		Annotations: map[string]string{"export": "yes"},
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) (err error) {
			if args[0] != "runs" && args[0] != "jobs" && args[0] != "audit" {
				return console.Invalid("export %s: expected runs, jobs or audit", args[0])
			}
			if f.Since, err = dayFlag("--since", since); err != nil {
				return err
			}
			if f.Until, err = dayFlag("--until", until); err != nil {
				return err
			}
			f.Format = "ndjson"
			if a.Output == "csv" {
				f.Format = "csv"
			}
			return a.export(ctx, c, args[0], f, file)
		}),
	}
	r.Add(c)
	fl := c.Flags()
	fl.StringVar(&since, "since", "", "from this time on: RFC 3339, or a day as 2026-11-01; jobs go by when their run was created")
	fl.StringVar(&until, "until", "", "before this time")
	fl.StringVar(&f.Tenant, "tenant", "", "only this tenant's")
	fl.StringVar(&file, "file", "", "file to write, instead of stdout")
	return c
}

// dayFlag reads an instant, or a day, which begins by this machine's clock.
func dayFlag(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return day, nil
	}
	return instantFlag(flag, text, time.Local)
}

func (a *app) export(ctx context.Context, c *client.Client, what string, f client.ExportFilter, file string) (err error) {
	body, err := c.Export(ctx, what, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if file == "" {
		to := a.Out.Raw() // a file, or another program
		if a.Out.OnTerminal() {
			to = a.Out
		}
		_, err = io.Copy(to, body)
		return brokeOff(err)
	}
	part, err := os.CreateTemp(filepath.Dir(file), ".part-*")
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	defer func() { _ = os.Remove(part.Name()) }() // gone after the rename
	_, err = io.Copy(part, body)
	if err = errors.Join(brokeOff(err), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}

func brokeOff(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the export broke off, and is not whole: %w: %w", core.ErrUnavailable, err)
	}
	return err
}
