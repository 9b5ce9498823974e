package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/worker"
)

func (a *app) workerCmd() *cobra.Command {
	var f nodeFlags
	var q queueFlags
	var files string
	var sources []string
	var name string
	c := &cobra.Command{
		Use:   "worker --redis URL",
		Short: "Work on the runs of a Redis queue until told to stop",
		Long: `Work on the runs of a Redis queue until told to stop. Any number of workers share
a queue. SIGTERM or Ctrl-C drains: nothing new is taken, steps that run finish, and
other workers go on with the rest; a second signal cancels what runs.`,
		Example: `  turnus worker --redis redis://queue:6379/0 -f 200
  turnus worker --redis redis-sentinel://s1,s2,s3/mymaster --files /srv/playbooks`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.url == "" {
				return invalid("worker needs a queue\nhint: --redis redis://HOST:6379/0")
			}
			if err := f.check(); err != nil { // before Redis is asked: wrong usage contacts nothing
				return err
			}
			return a.work(cmd.Context(), &f, &q, name, files, sources)
		},
	}
	f.add(c)
	q.add(c)
	c.Flags().StringArrayVarP(&sources, "inventory", "i", inventoryFromEnv(), "inventory with the jump hosts and passwords, which do not travel with a job (repeatable; TURNUS_INVENTORY)")
	c.Flags().StringVar(&name, "name", "", "name of the worker, by which it is cordoned and drained (default: HOST-PID)")
	c.Flags().StringVar(&files, "files", "", "folder with the files that playbooks send to hosts; without it such steps fail")
	return c
}

func (a *app) work(ctx context.Context, f *nodeFlags, qf *queueFlags, name, files string, sources []string) (err error) {
	log := a.logger(f.verbose)
	var inv *inventory.Inventory
	if len(sources) > 0 {
		if inv, err = inventory.Load(ctx, sources); err != nil {
			return err
		}
	}
	q, closeQueue, err := qf.open(ctx, a)
	if err != nil {
		return err
	}
	n, err := f.reach(ctx, inv, log)
	if err != nil {
		return errors.Join(err, closeQueue())
	}
	stop := sync.OnceValue(n.stop)
	defer func() { err = errors.Join(err, stop(), closeQueue()) }()
	if files != "" {
		if files, err = filepath.Abs(files); err != nil {
			return err
		}
	}
	events := func(e worker.Event) {
		switch e.Kind {
		case worker.QueueAway, worker.QueueBack, worker.SessionLost, worker.Overloaded, worker.Eased, worker.Draining:
			a.message(string(e.Kind) + ": " + e.Text)
		}
	}
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	ctx, _, release := a.signals(ctx, drainingSteps, a.message, n.kill)
	defer release()
	o := workerOf{queue: q, name: name, pool: qf.pool, files: func(string, string) string { return files }, events: events, report: true, drain: func() {
		a.message("an order came to drain: " + drainingSteps)
		drain()
	}}
	if err := n.work(f, o, log); err != nil {
		return err
	}
	a.message(fmt.Sprintf("working as %s with %d slots on pool %s", n.worker.Name(), f.slots, cmp.Or(qf.pool, defaultPool)))
	select {
	case <-ctx.Done():
		return stop()
	case err := <-n.done:
		n.done <- err // for stop
		return err
	}
}
