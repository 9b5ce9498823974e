package controller

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/tracing"
)

// Again asks for a new run of what an earlier one was made of, on the hosts that it did not do well.
type Again struct {
	Run      string         // the earlier one
	Outcomes []core.Outcome // hosts with one of these; none: all that are not good
	By       string
	Key      string // as Acceptance.Key
	// Windows are the present ones, and the name under which workers find them: the new run waits for them, where
	// the earlier one waited for any.
	Windows   *gate.Book
	Board     string
	SkipUnfit bool
}

// Retry accepts it: the playbook, the vars and the hosts' data are those of the earlier run, whatever the definitions say by now. No
// such host is core.ErrNotFound.
func (c *Controller) Retry(ctx context.Context, s ledger.Scope, a Again) (run ledger.Run, created bool, err error) {
	ctx, span := tracing.Start(ctx, tracing.Launch)
	defer func() { tracing.End(span, err) }()
	earlier, err := c.cfg.Ledger.Run(ctx, s, a.Run)
	if err != nil {
		return ledger.Run{}, false, err
	}
	l, err := c.restore(ctx, a.Run)
	if err != nil {
		return ledger.Run{}, false, err
	}
	hosts, err := c.again(ctx, l, a)
	if err != nil {
		return ledger.Run{}, false, err
	}
	snap := l.Snapshot
	next, err := launch.Prepare(l.Playbook, hosts, launch.Options{
		Vars: snap.Vars, Tags: snap.Tags, SkipTags: snap.SkipTags, Check: snap.Check, Diff: snap.Diff, MaxInFlight: l.Run.MaxInFlight,
		Revision: snap.Revision, LaunchedBy: a.By, Files: snap.Files, Types: c.cfg.Types, Windows: a.Windows, Board: a.Board, SkipUnfit: a.SkipUnfit,
		Secrets: snap.Secrets, Trace: tracing.Traceparent(ctx),
	})
	if err != nil {
		return ledger.Run{}, false, fmt.Errorf("launch run %s again: %w", a.Run, err)
	}
	span.SetAttributes(tracing.Run.String(next.Run.ID), tracing.Tenant.String(next.Run.Tenant))
	return c.Accept(ctx, Acceptance{
		Launch: next, By: a.By, Key: a.Key, Criticality: &earlier.Criticality, Approvals: earlier.Approvals,
		Request: fmt.Append(nil, "retry ", a.Run, a.Outcomes, a.SkipUnfit),
	})
}

// again lists the hosts.
func (c *Controller) again(ctx context.Context, l *launch.Launch, a Again) ([]core.Host, error) {
	ended, err := c.cfg.Ledger.Ended(ctx, a.Run)
	if err != nil {
		return nil, err
	}
	var hosts []core.Host
	for _, e := range ended {
		if len(a.Outcomes) == 0 && e.Outcome.Good() || len(a.Outcomes) > 0 && !slices.Contains(a.Outcomes, e.Outcome) {
			continue
		}
		hosts = append(hosts, l.Hosts[e.Index:min(e.Index+e.Count, len(l.Hosts))]...)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("run %s has no host to try again: %w", a.Run, core.ErrNotFound)
	}
	return hosts, nil
}
