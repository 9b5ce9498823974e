package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
)

// upFlags say how the service runs in one process.
type upFlags struct {
	service serviceFlags
	node    node.Flags
	log     logFlags
	trace   traceFlags
	name    string
	context string
}

func (a *app) upCmd() *cobra.Command { return a.upService().cmd }

func (a *app) upService() longRunning {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the whole service in one process: API, ledger, queue, schedules and a worker",
		Long: `Run the whole service in one process: API, ledger, queue, schedules and a worker. What
was accepted is in the ledger, in --data: a restart goes on where it was.

The first start makes an admin token and keeps it in the data folder; each writes the
context "local", so that turnus submit and the others just work. SIGTERM or Ctrl-C
drains: steps that run finish, and the rest goes on after the next start; a second
signal cancels what runs.`,
		Example: `  turnus up --definitions ./ops
  turnus up --repo https://git.example.net/ops.git --branch main
  turnus submit ntp --follow              # from another terminal`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context(), &f) },
	}
	f.service.add(c)
	f.node.Add(c)
	f.log.add(c)
	f.trace.add(c)
	fl := c.Flags()
	fl.StringVar(&f.service.definitions, "definitions", "", "folder with playbooks, inventory and windows, whose edits are taken over")
	fl.StringVar(&f.name, "name", "", "name of the worker (default: HOST-PID)")
	fl.StringVar(&f.context, "context", "local", "context to write for the commands on this machine; empty writes none")
	check := func() error { return errors.Join(f.service.check(), f.node.Check(), f.log.check(), f.trace.check()) }
	return longRunning{cmd: c, check: check, queue: &f.service.queue, keeps: &f.service}.settable()
}

// up runs until it is told to stop.
func (a *app) up(ctx context.Context, f *upFlags) (err error) {
	f.log.verbose = f.node.Verbose
	log, err := f.log.open(a.Console)
	if err != nil {
		return err
	}
	traces, err := f.trace.open(ctx, "up", log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.Close()) }()
	s := &service{a: a, f: &f.service, log: log, traces: traces.Spans()}
	if s.manager, err = supervised(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.manager.Close()) }()
	n, err := f.node.Reach(ctx, node.ByCredentials, s.inventory, log)
	if err != nil {
		return err
	}
	s.secrets, n.Lent = n.Secrets, true
	defer n.Secrets.Close() // notifications need it when the worker has stopped
	stop := sync.OnceValue(n.Stop)
	defer func() { err = errors.Join(err, stop(), s.close()) }()
	node.Unconfined(a.Console, n)
	f.node.Plugins.TellDev(a.Console)
	node.WarnWithoutCredentials(a.Console, n)
	if err := s.open(ctx, n.Plugins); err != nil {
		return err
	}
	ctx, _, release := a.Signals(ctx, finishingSteps, a.Message, n.Kill)
	defer release()
	w := node.WorkOptions{Queue: s.queue, Name: f.name, Pool: f.service.queue.pool, Files: s.catalog.FilesDir, Report: true, Outputs: s.keepOutput, Events: node.JobLog(log, nil), Metrics: s.metrics, Scraped: true, Traces: s.traces}
	if f.service.definitions != "" { // checkouts of a branch lie in the data folder, and are all that is sent from it
		w.Data = s.data.path
	}
	if err := n.Work(&f.node, w, log); err != nil {
		return err
	}
	s.stuck = n.Worker.Stuck
	if f.context != "" {
		if err := settings.WriteContext(a.Console, f.context, settings.Context{Server: s.url(), TokenFile: s.data.tokenFile(), CAFile: f.service.tlsCert}); err != nil {
			a.Message(a.Paint(console.Yellow, "warning: ") + "the context " + f.context + " was not written: " + err.Error())
		}
	}
	a.Message("listening on " + s.url())
	return s.run(ctx, stop)
}
