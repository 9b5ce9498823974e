package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

func (a *app) serverCmd() *cobra.Command { return a.serverService().cmd }

// serverFlags say what a server is made of.
type serverFlags struct {
	service serviceFlags
	plugins node.PluginFlags
	secrets node.SecretFlags
	logs    logFlags
	trace   traceFlags
}

func (a *app) serverService() longRunning {
	var f serverFlags
	c := &cobra.Command{
		Use:   "server --redis URL",
		Short: "Run the service without a worker: API, ledger and schedules, over a shared queue",
		Long: `Run the service without a worker: API, ledger and schedules, over a queue in Redis that
turnus worker processes share. Any number of servers may run over one Redis and one
PostgreSQL; none of them leads, and any may be stopped.`,
		Example: `  turnus server --redis rediss://queue:6379/0 --ledger postgres://turnus@db/turnus --repo https://git.example.net/ops.git
  turnus server --redis rediss://queue:6379/0 --definitions ./ops --listen 0.0.0.0:8470 --tls-cert tls.crt --tls-key tls.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.server(cmd.Context(), &f) },
	}
	f.service.add(c)
	f.plugins.Add(c)
	f.secrets.Add(c)
	f.trace.add(c)
	c.Flags().StringVar(&f.service.definitions, "definitions", "", "folder with playbooks, inventory and windows, whose edits are taken over")
	f.logs.add(c)
	c.Flags().BoolVarP(&f.logs.verbose, "verbose", "v", false, "log what the server does")
	check := func() error {
		if f.service.queue.url == "" {
			return console.Invalid("server needs a queue that workers share\nhint: --redis rediss://HOST:6379/0; turnus up has a queue and a worker of its own")
		}
		return errors.Join(f.service.check(), f.logs.check(), f.trace.check())
	}
	return longRunning{cmd: c, check: check, queue: &f.service.queue, keeps: &f.service}.settable()
}

// server runs until it is told to stop.
func (a *app) server(ctx context.Context, f *serverFlags) (err error) {
	if err := sandbox.Harden(); err != nil { // it holds keys, and what relays of mail and tenants' receivers are told with
		return err
	}
	log, err := f.logs.open(a.Console)
	if err != nil {
		return err
	}
	sup, err := f.plugins.Supervisor(log)
	if err != nil {
		return err
	}
	traces, err := f.trace.open(ctx, "server", log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.Close()) }()
	store, err := f.secrets.Open(log)
	if err != nil {
		return err
	}
	defer store.Close()
	s := &service{a: a, f: &f.service, log: log, traces: traces.Spans(), secrets: store}
	if s.manager, err = supervised(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(), s.manager.Close()) }()
	if err := s.open(ctx, sup); err != nil {
		return err
	}
	ctx, _, release := a.Signals(ctx, "stopping: other servers go on", a.Message, func() {})
	defer release()
	a.Message("listening on " + s.url())
	return s.run(ctx, func() error { return nil })
}
