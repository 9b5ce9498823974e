package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/playbooks"
)

// retryRun launches today's playbook, with the vars and tags of the earlier run, on those of its
// hosts that did not succeed and that still belong to the same tenant. Nothing of the earlier run's
// snapshot reaches a host: neither its steps, nor an address, an SSH setting or a reference to a
// secret.
func (s *Server) retryRun(ctx context.Context, by caller, in *struct {
	RunPath
	Idempotent
	Body api.Retry
},
) (_ *versioned[api.Run], err error) {
	ctx, span := telemetry.StartSpan(ctx, telemetry.SpanLaunch)
	defer func() { telemetry.EndSpan(span, err) }()
	run, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	key, request := in.of(by, "retry-run"), fmt.Append(nil, "retry ", run.ID, in.Body.Outcomes)
	in.Body.SkipNoWindow = in.Body.SkipNoWindow || in.Body.SkipUnfit
	if in.Body.SkipNoWindow {
		request = append(request, " skip_no_window"...)
	}
	if in.Body.From != "" {
		request = fmt.Append(request, " from ", in.Body.From, " else ", in.Body.Else)
	}
	if in.Body.Reason != "" {
		request = fmt.Append(request, " reason ", in.Body.Reason)
	}
	if answer, found, err := s.repeated(ctx, by, key, request); found || err != nil {
		return answer, err
	}
	again, err := s.prepareRetry(ctx, by, run, in.Body)
	if err == nil {
		err = asPlanned(again.launch, in.Body.Plan)
	}
	if err != nil {
		return nil, err
	}
	a := controller.Acceptance{By: by.name, Key: key, Criticality: &run.Criticality, Approvals: run.Approvals, Request: request, Launch: again.launch, Exec: again.exec}
	answer, err := s.accept(ctx, a)
	if err != nil {
		return nil, err
	}
	answer.Body.Retried = again.differs
	return answer, nil
}

// retry is a run that tries hosts of another one again.
type retry struct {
	launch  *launch.Launch
	exec    *ledger.Exec // nil: of a playbook
	differs *api.Retried
}

// prepareRetry makes the launch of a retry, and accepts nothing.
func (s *Server) prepareRetry(ctx context.Context, by caller, run ledger.Run, asked api.Retry) (retry, error) {
	if !run.Complete() {
		return retry{}, fmt.Errorf("run %s is %s: wait for its end, or cancel it, before it is tried again: %w", run.ID, run.Phase, core.ErrConflict)
	}
	material, err := s.cfg.Ledger.Material(ctx, run.ID)
	if err != nil {
		return retry{}, err
	}
	if err := refuseForeignHosts(by, run.ID, material); err != nil {
		return retry{}, err
	}
	before, err := (&launch.Restorer{Types: s.cfg.Types}).Restore(material.Snapshot, material.Queue)
	if err != nil {
		return retry{}, err
	}
	if launch.ScansKeys(before) {
		return retry{}, fmt.Errorf("retry run %s: it collected host keys: scan the hosts again with turnus hostkeys scan: %w", run.ID, core.ErrInvalid)
	}
	command, isCommand, err := launch.CommandOf(&before.Snapshot)
	if err != nil {
		return retry{}, err
	}
	if err := refuseFrom(asked, isCommand); err != nil {
		return retry{}, err
	}
	if isCommand {
		if err := s.need(by, api.PermitExec); err != nil {
			return retry{}, err
		}
		if becomes(command.Become) {
			if err := s.need(by, api.PermitBecome); err != nil {
				return retry{}, err
			}
		}
	}
	tenants, err := s.hostsToRetry(ctx, run.ID, material.Jobs, asked.Outcomes)
	if err != nil {
		return retry{}, err
	}
	still := func(h core.Host) bool {
		tenant, ok := tenants[h.Name]
		return ok && h.Customer == tenant
	}
	if set, err := s.set(); err == nil && !slices.ContainsFunc(set.Inventory.Hosts, still) {
		names := sortedKeys(tenants)
		return retry{}, fmt.Errorf("retry run %s: none of its %d hosts that did not succeed is in the inventory with the same tenant any more: %s: %w",
			run.ID, len(names), strings.Join(names[:min(3, len(names))], ", "), core.ErrConflict)
	}
	var again retry
	var at controller.Resumption
	as := catalog.Launching{Only: still, Asked: snapshot.Asked{Retry: run.ID}}
	reason := cmp.Or(asked.Reason, oneLine(before.Snapshot.Reason))
	if isCommand {
		again.exec = execOf(command)
		again.exec.Retry = run.ID
		again.launch, err = s.prepareCommand(ctx, by, command, api.NewExec{MaxInFlight: before.Run.MaxInFlight, SkipNoWindow: asked.SkipNoWindow, Reason: reason}, as)
	} else {
		n := againOf(before)
		n.SkipNoWindow, n.Reason = asked.SkipNoWindow, reason
		if asked.From != "" {
			as.Kept = func(now *playbooks.Playbook, hosts []core.Host) (map[string]int, error) {
				var err error
				at, err = controller.ResumeHosts(ctx, s.cfg.Ledger, by.scope, &run, before, material.Jobs, now, hosts)
				return at.Kept(), err
			}
		}
		again.launch, err = s.prepare(ctx, by, n, as)
	}
	if isCommand && command.Needs == 0 && errors.Is(err, launch.ErrNeeds) {
		return retry{}, fmt.Errorf("retry run %s: it ran outside of windows, or before its hosts had window sets, and a retry keeps to them: run the command again with turnus exec: %w", run.ID, core.ErrInvalid)
	}
	if err != nil {
		return retry{}, fmt.Errorf("retry run %s with the project as it is now: %w", run.ID, err)
	}
	if l := again.launch; l.Run.Tenant != run.Tenant {
		return retry{}, fmt.Errorf("run %s is of tenant %q, but playbook %q is now of %q: launch the playbook instead: %w",
			run.ID, run.Tenant, run.Playbook, l.Run.Tenant, core.ErrConflict)
	}
	again.differs = retried(before, again.launch, tenants)
	again.differs.PlaybookChanged = !isCommand && again.differs.PlaybookChanged // that of a command follows the window sets of its hosts
	if err := controller.KeepOnceResults(ctx, s.cfg.Ledger, &run, before, again.launch); err != nil {
		return retry{}, err
	}
	if asked.From != "" {
		err = again.resume(&at, asked.Else == api.ElseRestart)
	}
	return again, err
}

// planRetry returns what a retry would do.
func (s *Server) planRetry(ctx context.Context, by caller, in *struct {
	RunPath
	Body api.Retry
},
) (*body[api.Plan], error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	asked := in.Body
	asked.SkipNoWindow = true
	again, err := s.prepareRetry(ctx, by, run, asked)
	if none, ok := errors.AsType[*launch.NoWindowError](err); ok {
		return &body[api.Plan]{planOfNone(none)}, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := s.planShown(ctx, again.launch)
	if err != nil {
		return nil, err
	}
	p.Retried = again.differs
	return &body[api.Plan]{p}, nil
}

// againOf is the request of an earlier launch, as far as the launch shows it.
func againOf(l *launch.Launch) api.NewRun {
	snap := l.Snapshot
	return api.NewRun{Playbook: l.Playbook.Name, LaunchOptions: api.LaunchOptions{
		Vars: snap.Vars, Tags: snap.Tags, SkipTags: snap.SkipTags, Check: snap.Check, Diff: snap.Diff, MaxInFlight: l.OwnMaxInFlight(),
	}}
}

// hostsToRetry returns the hosts of a run that ended with one of the outcomes, or without success
// where none is given, each with the tenant that it belonged to. No such host is core.ErrNotFound.
func (s *Server) hostsToRetry(ctx context.Context, run string, jobs []ledger.JobHost, outcomes []core.Outcome) (map[string]string, error) {
	tenants, err := controller.HostsOf(ctx, s.cfg.Ledger, run, jobs, func(o core.Outcome) bool {
		return len(outcomes) == 0 && !o.Good() || slices.Contains(outcomes, o)
	})
	if err != nil {
		return nil, err
	}
	if len(tenants) == 0 {
		why := "every host that has an outcome succeeded"
		if len(outcomes) > 0 {
			why = "none has such an outcome"
		}
		return nil, fmt.Errorf("run %s has no host to retry: %s: %w", run, why, core.ErrNotFound)
	}
	return tenants, nil
}

// retried returns the differences of the new run from the earlier one.
func retried(before, now *launch.Launch, wanted map[string]string) *api.Retried {
	r := &api.Retried{Run: before.Run.ID, Revision: before.Snapshot.Revision, PlaybookChanged: !bytes.Equal(before.Playbook.Whole(), now.Playbook.Whole())}
	taken := make(map[string]bool, len(now.Hosts))
	for _, h := range now.Hosts {
		taken[h.Name] = true
	}
	for host := range wanted {
		if !taken[host] {
			r.LeftOut = append(r.LeftOut, host)
		}
	}
	slices.SortFunc(r.LeftOut, strings.Compare)
	return r
}

// refuseForeignHosts refuses a retry on hosts of other tenants: the provider may have launched a
// tenant's playbook on them.
func refuseForeignHosts(by caller, run string, m ledger.Material) error {
	if slices.ContainsFunc(m.Jobs, func(j ledger.JobHost) bool { return !by.scope.Allows(j.Tenant) }) {
		return forbidden("run " + run + " has hosts of other tenants")
	}
	return nil
}

// oneLine makes one line of what a former version took in several; "" if the text is none today.
func oneLine(text string) string {
	line, err := core.CheckReason(strings.Join(strings.Fields(text), " "))
	if err != nil {
		return ""
	}
	return line
}
