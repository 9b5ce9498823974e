package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) serverCmd() *cobra.Command { return a.serverService().cmd }

func (a *app) serverService() longRunning {
	var f serviceFlags
	var plugins pluginFlags
	var known secretFlags
	var logs logFlags
	c := &cobra.Command{
		Use:   "server --redis URL",
		Short: "Run the service without a worker: API, ledger and schedules, over a shared queue",
		Long: `Run the service without a worker: API, ledger and schedules, over a queue in Redis that
turnus worker processes share. Any number of servers may run over one Redis and one
PostgreSQL; none of them leads, and any may be stopped.`,
		Example: `  turnus server --redis rediss://queue:6379/0 --ledger postgres://turnus@db/turnus --repo https://git.example.net/ops.git
  turnus server --redis rediss://queue:6379/0 --definitions ./ops --listen 0.0.0.0:8470 --tls-cert tls.crt --tls-key tls.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.server(cmd.Context(), &f, &plugins, &known, &logs)
		},
	}
	f.add(c)
	plugins.add(c)
	known.add(c)
	c.Flags().StringVar(&f.definitions, "definitions", "", "folder with playbooks, inventory and windows, whose edits are taken over")
	logs.add(c)
	c.Flags().BoolVarP(&logs.verbose, "verbose", "v", false, "log what the server does")
	check := func() error {
		if f.queue.url == "" {
			return invalid("server needs a queue that workers share\nhint: --redis rediss://HOST:6379/0; turnus up has a queue and a worker of its own")
		}
		return errors.Join(f.check(), logs.check())
	}
	return longRunning{cmd: c, check: check, queue: &f.queue, keeps: &f}.settable()
}

// server runs until it is told to stop.
func (a *app) server(ctx context.Context, f *serviceFlags, plugins *pluginFlags, known *secretFlags, logs *logFlags) (err error) {
	log, err := a.serviceLog(logs)
	if err != nil {
		return err
	}
	sup, err := plugins.supervisor(log)
	if err != nil {
		return err
	}
	store, err := known.open(log)
	if err != nil {
		return err
	}
	defer store.Close()
	s := &service{a: a, f: f, log: log, secrets: store}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx, sup); err != nil {
		return err
	}
	ctx, _, release := a.signals(ctx, "stopping: other servers go on", a.message, func() {})
	defer release()
	a.message("listening on " + s.url())
	return s.run(ctx, func() error { return nil })
}
