package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/service"
)

func (a *app) upCmd() *cobra.Command { return a.upService().cmd }

func (a *app) upService() longRunning {
	var f service.UpFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the whole service in one process: API, ledger, queue, schedules and a worker",
		Long: `Run the whole service in one process: API, ledger, queue, schedules and a worker. The
ledger in --data has every accepted run: a restart continues from there.

The first start makes an admin token and keeps it in the data folder; each writes the
context "local", so that turnus submit and the others just work. SIGTERM or Ctrl-C
drains: steps that run finish, and the rest continues after the next start; a second
signal cancels what runs.`,
		Example: `  turnus up --project ./ops
  turnus up --repo https://git.example.net/ops.git --branch main
  turnus submit ntp --follow              # from another terminal`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return service.Up(cmd.Context(), a.Console, &f) },
	}
	f.Service.Add(c)
	f.Node.Add(c)
	f.Log.Add(c)
	f.Trace.Add(c)
	fl := c.Flags()
	fl.StringVar(&f.Service.Project, "project", "", "folder with playbooks, inventory and windows, whose edits are taken over")
	fl.StringVar(&f.Name, "name", "", "name of the worker (default: HOST-PID)")
	fl.StringVar(&f.Context, "context", "local", "context to write for the commands on this machine; empty writes none")
	check := func() error { return errors.Join(f.Service.Check(), f.Node.Check(), f.Log.Check(), f.Trace.Check()) }
	return longRunning{cmd: c, check: check, queue: &f.Service.Queue, keeps: &f.Service}.settable()
}
