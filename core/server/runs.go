package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

func (s *Server) runs() {
	handle(s, route{
		id: createRun, method: http.MethodPost, path: "/v1/runs", summary: "Run a playbook", role: Operator, status: http.StatusCreated,
		detail: "The run is durable when this answers; it is put into the queue then, or as soon as the queue is there.",
	}, s.createRun)
	handle(s, createRunsRoute(), s.createRuns)
	handle(s, route{id: "list-runs", method: http.MethodGet, path: "/v1/runs", summary: "List runs, newest first", role: Viewer, detail: shortPage}, s.listRuns)
	handle(s, route{id: "get-run", method: http.MethodGet, path: "/v1/runs/{run}", summary: "Show a run", role: Viewer}, s.getRun)
	handle(s, route{
		id: "replace-run", method: http.MethodPut, path: "/v1/runs/{run}", summary: "Ask for something else before the run starts", role: Operator,
		detail: "Only of a run that was never queued: one that waits for approval, or whose queue is away. Approvals that it had are void, and it needs as many as before.",
	}, s.replaceRun)
	handle(s, route{
		id: "retry-run", method: http.MethodPost, path: "/v1/runs/{run}/retry", summary: "Launch its playbook again on the hosts that did not succeed", role: Operator, status: http.StatusCreated,
		detail: "The new run has the playbook, the hosts' data and the secret references of the project as it is now, and the vars and tags of the run before. " +
			"Hosts that left the inventory, or now belong to another tenant, are left out; the answer names them in retried, and reports whether the playbook changed.",
	}, s.retryRun)
}

// RunPath names a run.
type RunPath struct {
	Run string `path:"run" maxLength:"128"`
}

func (s *Server) listRuns(ctx context.Context, by caller, in *struct {
	Page
	Playbook string       `query:"playbook" maxLength:"200"`
	Host     string       `query:"host" maxLength:"253" doc:"with an outcome on this host"`
	Phase    api.Phase    `query:"phase" enum:"approval,queued,active,paused,stopped,cancelled,finished"`
	Outcome  core.Outcome `query:"outcome" enum:"unchanged,changed,failed,unreachable,skipped,rolled_back,lost,cancelled" doc:"with at least one job that ended so"`
	By       string       `query:"launched_by" maxLength:"300"`
	Since    time.Time    `query:"since" doc:"created then or later"`
	Until    time.Time    `query:"until" doc:"created before"`
	Live     bool         `query:"live" doc:"with live, waits and finish_p50 of runs under way: one question to the queue for all"`
},
) (*list[api.Run], error) {
	phase := ledger.Phase(in.Phase)
	if in.Phase == api.Approval {
		phase = ledger.PhaseAwaiting
	}
	runs, next, err := s.cfg.Ledger.Runs(ctx, by.scope, ledger.RunFilter{
		Playbook: in.Playbook, Host: in.Host, Phase: phase, Outcome: in.Outcome, By: in.By, Since: in.Since, Until: in.Until,
	}, in.ledger())
	if err != nil {
		return nil, err
	}
	items := make([]api.Run, len(runs))
	for i := range runs {
		items[i] = runOf(runs[i])
	}
	if in.Live {
		s.liveList(ctx, runs, items)
		s.endsOf(ctx, runs, items)
	}
	return listOf(items, next), nil
}

func (s *Server) getRun(ctx context.Context, by caller, in *RunPath) (*versioned[api.Run], error) {
	full, err := s.cfg.Ledger.FullRun(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	run := full.Run
	shown := runOf(run)
	shown.Handlers = full.Handlers
	s.showLaunch(ctx, by, &run, &shown)
	if shown.Expected = expectationOf(full.Expected); shown.Expected != nil {
		shown.Expected.P50, shown.Expected.P90 = nil, nil // the timeline has them
	}
	s.live(ctx, run, &shown)
	return &versioned[api.Run]{etagOf(run.Version), shown}, nil
}

// showLaunch adds the request of a launch to the view of its run. If it cannot be read any more,
// the run counts as disruptive.
//
// The reader of a run may see what its launcher gave: params and vars are in its steps, in outputs
// and in the schedules that the reader sees. Two things are withheld. A limit by a launcher of all
// tenants may name hosts and groups of other tenants. A value whose name marks a secret may be one;
// the value of a param of type secret is only the name of one.
func (s *Server) showLaunch(ctx context.Context, by caller, run *ledger.Run, shown *api.Run) {
	made, err := s.planOf(ctx, run)
	if err != nil {
		shown.Disruptive = !run.Check
		return
	}
	shown.Kind, shown.Disruptive, shown.Options = made.kind, made.disruptive, &made.options
	if made.foreign && !by.scope.All() {
		shown.Options.Limit = nil
		if left := shown.Options.LeftOut; !slices.Contains(left, "limit") {
			shown.Options.LeftOut = append([]string{"limit"}, left...)
		}
	}
	shown.Command, shown.LaunchReason = made.command.Line, made.reason
	if becomes(made.become) {
		shown.Become, shown.BecomeUser = true, made.become.User
	}
}

// liveTime is how long a view of a run waits for a slow queue.
const liveTime = 2 * time.Second

// live adds what the queue reports of a run that is not over. While it is away, nothing is added.
func (s *Server) live(ctx context.Context, run ledger.Run, shown *api.Run) {
	if run.Complete() || run.Incarnation == "" || s.cfg.Controller.Away() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	if st, err := s.cfg.Queue.Status(ctx, run.ID); err == nil {
		s.liveOf(ctx, run, shown, st)
	}
}

// liveList is live of many runs, by one question to the queue.
func (s *Server) liveList(ctx context.Context, runs []ledger.Run, shown []api.Run) {
	if s.cfg.Controller.Away() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	var at []int
	var asks []queue.Ask
	for i := range runs {
		if r := &runs[i]; !r.Complete() && r.Incarnation != "" {
			at, asks = append(at, i), append(asks, queue.Ask{Run: r.ID, Cursor: r.Position})
		}
	}
	for len(asks) > 0 {
		n := min(len(asks), queue.MaxPoll)
		for k, seen := range s.cfg.Queue.Poll(ctx, 1, asks[:n]...) {
			if seen.Err == nil {
				s.liveOf(ctx, runs[at[k]], &shown[at[k]], seen.Status)
			}
		}
		at, asks = at[n:], asks[n:]
	}
}

// liveOf adds what the queue reports of a run.
func (s *Server) liveOf(ctx context.Context, run ledger.Run, shown *api.Run, st queue.Status) {
	shown.Live = &api.Live{
		Pending: st.Pending, Blocked: st.Blocked, InFlight: st.InFlight, Waiting: st.Waiting, Suspended: st.Suspended,
		Deferred: st.Deferred, Released: st.Limit, Wave: 1, Waves: 1,
	}
	s.whyIdle(ctx, shown)
	if w, err := s.planOf(ctx, &run); err == nil {
		shown.Live.StopAfter, shown.Live.StopUnreachable = w.stopAfter, w.stopUnreachable
		w.shares.of(run).show(shown)
		shown.Live.Waves = max(w.waves, 1)
		shown.Live.Wave, shown.Waits = s.waveOf(ctx, w, &run, st)
	}
}

// planOf is the part of what a run was launched with that views of it need.
func (s *Server) planOf(ctx context.Context, run *ledger.Run) (plan, error) {
	return s.plans.of(run, func() (plan, error) {
		l, err := s.restore(ctx, run.ID)
		if err != nil {
			return plan{}, err
		}
		command, isCommand, err := launch.CommandOf(&l.Snapshot)
		if err != nil {
			return plan{}, err
		}
		p := plan{
			command: command, reason: l.Snapshot.Reason, become: l.Snapshot.Become, disruptive: l.Run.Disruptive, foreign: l.Snapshot.Asked != nil && l.Snapshot.Asked.All, options: optionsOf(l),
			limits: slices.Clone(l.Limits), waves: l.Waves(), shares: launchedWith(l),
			stopAfter: l.Run.StopAfter, stopUnreachable: l.Run.StopUnreachable,
		}
		switch {
		case isCommand:
			p.kind = api.KindExec
		case launch.ScansKeys(l):
			p.kind = api.KindHostKeys
		}
		return p, nil
	})
}

// optionsOf shows what a launch was asked for.
func optionsOf(l *launch.Launch) api.RunOptions {
	g := l.Given()
	o := api.RunOptions{
		LaunchOptions: api.LaunchOptions{
			Limit: g.Limit, Vars: g.Vars, Params: g.Params, Tags: g.Tags, SkipTags: g.SkipTags, Check: l.Snapshot.Check, Diff: l.Snapshot.Diff, MaxInFlight: g.MaxInFlight,
		},
		Select: g.Select, Retry: g.Retry, Pinned: g.Pinned, NoWindow: g.NoWindow, LeftOut: g.LeftOut,
	}
	if l.Snapshot.Resumes != "" {
		o.From = api.FromFailedStep
	}
	return o
}

// waveOf returns the wave that a run is in, from 1, and what it asks a person for.
func (s *Server) waveOf(ctx context.Context, p plan, run *ledger.Run, st queue.Status) (wave int, asks *api.WaveWait) {
	at := 0
	for at < len(p.limits)-1 && p.limits[at] < st.Limit {
		at++
	}
	next := at + 1
	if p.waves > len(p.limits) && st.Suspended > 0 && st.Limit == st.Total {
		if wave, waits := s.atBarrier(ctx, run.ID); waits {
			next = wave
		}
	}
	if controller.AskedFor(run) != next || next >= p.waves || st.Phase != queue.Active {
		return next, nil
	}
	decisions, err := s.cfg.Ledger.Decisions(ctx, ledger.AllTenants(), run.ID)
	if err != nil {
		return next, nil
	}
	for _, d := range decisions {
		if d.Wave == next && !d.Void {
			return next, nil
		}
	}
	size := p.limits[next%len(p.limits)]
	if k := next % len(p.limits); k > 0 {
		size -= p.limits[k-1]
	}
	return next, &api.WaveWait{Wave: next + 1, Hosts: size}
}

// atBarrier is the next wave, from 0, of a run of which jobs wait at a barrier.
func (s *Server) atBarrier(ctx context.Context, id string) (wave int, waits bool) {
	seen := s.cfg.Queue.Poll(ctx, 1, queue.Ask{Run: id, Awaited: true})[0]
	if seen.Err != nil {
		return 0, false
	}
	for event, n := range seen.Awaited {
		gate, _, ok := snapshot.ParseTurn(event)
		waits = waits || ok && gate > 0 && n > 0
	}
	if !waits {
		return 0, false
	}
	l, err := s.restore(ctx, id)
	if err != nil {
		return 0, false
	}
	wave, _ = l.NextWave(seen.Awaited)
	return wave, true
}

// restore reads back what a run was made of.
func (s *Server) restore(ctx context.Context, id string) (*launch.Launch, error) {
	m, err := s.cfg.Ledger.Material(ctx, id)
	if err != nil {
		return nil, err
	}
	return (&launch.Restorer{Types: s.cfg.Types}).Restore(m.Snapshot, m.Queue)
}

// runOf shows a run of the ledger.
func runOf(r ledger.Run) api.Run {
	phase := api.Phase(r.Phase)
	if r.Phase == ledger.PhaseAwaiting {
		phase = api.Approval
	}
	schedule, _ := strings.CutPrefix(r.LaunchedBy, scheduledBy)
	if schedule == r.LaunchedBy {
		schedule = ""
	}
	uncertain := 0
	if !r.Complete() {
		uncertain = r.Uncertain
	}
	return api.Run{
		MayHaveBegun: uncertain, ID: r.ID, Tenant: r.Tenant, Playbook: r.Playbook, Revision: r.Revision, Phase: phase, Reason: r.Reason.Text(), ReasonCode: r.Reason.Code(), LaunchedBy: r.LaunchedBy,
		Schedule: schedule, Criticality: r.Criticality, Created: r.Created, Ended: r.Ended, Total: r.Total, Outcomes: r.Outcomes,
		Check: r.Check, Sources: sourcesOf(r),
	}
}

func sourcesOf(r ledger.Run) (all []api.RunSource) {
	for _, u := range r.Sources {
		all = append(all, api.RunSource{Source: u.Source, Generation: u.Generation, Hosts: u.Hosts, Good: u.Good, Age: core.InSeconds(u.Age(r.Created))})
	}
	return all
}

// scheduledBy begins Run.LaunchedBy of runs that a schedule launched.
const scheduledBy = "schedule:"
