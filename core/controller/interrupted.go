package controller

import (
	"context"
	"errors"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// EndInterrupted ends a run whose controller was alone and has died: nobody else may drive it. Its
// jobs without an outcome end as lost if they may have begun by until, the others as cancelled.
// shared means that other processes work on its queue. In that case every handler that the run can
// notify becomes pending on its hosts without an outcome. A run that has ended stays as it is.
func (c *Controller) EndInterrupted(ctx context.Context, id string, reason core.Reason, shared bool, until time.Time) error {
	run, err := c.cfg.Ledger.Run(ctx, ledger.AllTenants(), id)
	if errors.Is(err, core.ErrNotFound) || err == nil && run.Complete() {
		return nil
	}
	if err != nil {
		return err
	}
	if run.Incarnation == "" { // no queue has let it begin
		return c.cfg.Ledger.Refuse(ctx, id, 0, reason)
	}
	held, err := c.launchOf(ctx, &run)
	if errors.Is(err, core.ErrInvalid) { // nobody can read how far its waves were
		return c.cfg.Ledger.Refuse(ctx, id, run.Total, reason)
	}
	if err != nil {
		return err
	}
	defer c.launches.drop(id)
	l := *held.launch
	var recorded []queue.FinishedJobs
	if recorded, err = c.finishedJobs(ctx, id); err != nil {
		return err
	}
	if names := l.Playbook.Notifiable(); shared && !l.Snapshot.Check && len(names) > 0 {
		l.Run.FinishedJobs = recorded
		if err := c.cfg.Ledger.LeaveHandlers(ctx, run, unfinishedHosts(&l, len(l.Hosts)), names); err != nil {
			return err
		}
	}
	return c.cfg.Ledger.Refuse(ctx, id, begun(&run, &l, recorded, until), reason)
}

// KeepOnceOf is KeepOnceResults with the launch of the earlier run as the ledger has it.
func KeepOnceOf(ctx context.Context, l *ledger.Ledger, run *ledger.Run, again *launch.Launch) error {
	if again.Snapshot.Once == nil {
		return nil
	}
	m, err := l.Material(ctx, run.ID)
	if err != nil {
		return err
	}
	before, err := (&launch.Restorer{}).Restore(m.Snapshot, m.Queue)
	if err != nil {
		return err
	}
	return KeepOnceResults(ctx, l, run, before, again)
}

// LastRun returns the last run of a playbook that is complete and was no check; core.ErrNotFound if
// there is none.
func LastRun(ctx context.Context, l *ledger.Ledger, scope ledger.Scope, playbook string) (ledger.Run, error) {
	list := func(ctx context.Context, p ledger.Page) ([]ledger.Run, string, error) {
		return l.Runs(ctx, scope, ledger.RunFilter{Playbook: playbook}, p)
	}
	for r, err := range ledger.Each(ctx, ledger.DefaultPage, list) {
		if err != nil || r.Complete() && !r.Check {
			return r, err
		}
	}
	return ledger.Run{}, core.ErrNotFound
}

// HostsOf returns the hosts of a run whose outcomes want takes, each with its tenant. jobs are
// those of the run's Material.
func HostsOf(ctx context.Context, l *ledger.Ledger, run string, jobs []ledger.JobHost, want func(core.Outcome) bool) (map[string]string, error) {
	ended, err := l.Ended(ctx, run)
	if err != nil {
		return nil, err
	}
	tenants := map[string]string{}
	for _, e := range ended {
		if want(e.Outcome) {
			for _, j := range jobs[min(e.Index, len(jobs)):min(e.Index+e.Count, len(jobs))] {
				tenants[j.Host] = j.Tenant
			}
		}
	}
	return tenants, nil
}
