package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

func (s *Server) jobs() {
	handle(s, route{
		id: "list-jobs", method: http.MethodGet, path: "/v1/runs/{run}/jobs", summary: "List the jobs of a run", role: Viewer,
		detail: "By index; those without an outcome with their place in the queue: queued while their run is not in it, unknown while it does not answer. " +
			shortPage + " Of a run of another tenant that touches hosts of the caller's, those jobs are listed.",
	}, s.listJobs)
	handle(s, route{id: "get-job", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}", summary: "Show a job, with its steps", role: Viewer}, s.getJob)
	handle(s, route{id: "explain-job", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}/explain", summary: "Explain why a job is where it is", role: Viewer}, s.explainJob)
	handle(s, route{id: "list-attempts", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}/attempts", summary: "List the attempts of a job", role: Viewer,
		detail: "The attempt that decided the outcome: the queue does not report those before it. The steps of the job report the tries within a step."}, s.attempts)
}

// JobPath names a job.
type JobPath struct {
	RunPath
	Job int `path:"job" minimum:"0" maximum:"9999999" doc:"index, from 0"`
}

func (p JobPath) id() core.JobID { return core.JobID{Run: p.Run, Index: p.Job} }

func (s *Server) listJobs(ctx context.Context, by caller, in *struct {
	RunPath
	Page
	State   string       `query:"state" enum:"all,open,done,uncertain" default:"all" doc:"open has no outcome yet, done has one, uncertain is open and may have been under way when the queue was lost"`
	Outcome core.Outcome `query:"outcome" enum:"unchanged,changed,failed,unreachable,skipped,rolled_back,lost,cancelled"`
	Host    string       `query:"host" maxLength:"253"`

	ReasonCode core.ReasonCode `query:"reason_code" maxLength:"64" doc:"of the outcome; a page may have fewer jobs, and more behind it"`
},
) (*list[api.Job], error) {
	var jobs []ledger.Job
	var next string
	var err error
	ended := in.Outcome != "" || in.ReasonCode != ""
	switch {
	case in.State == "done" || ended && in.State == "all":
		jobs, next, err = s.cfg.Ledger.Jobs(ctx, by.scope, in.Run, ledger.JobFilter{Outcome: in.Outcome, ReasonCode: in.ReasonCode, Host: in.Host}, in.ledger())
	case ended:
		return nil, fmt.Errorf("state %s has no job with an outcome: leave out state, or outcome and reason_code: %w", in.State, core.ErrInvalid)
	default:
		jobs, next, err = s.cfg.Ledger.AllJobs(ctx, by.scope, in.Run, in.Host, in.State != "all", in.ledger())
	}
	if err != nil {
		return nil, err
	}
	items := make([]api.Job, len(jobs))
	for i := range jobs {
		items[i] = jobOf(jobs[i])
	}
	if err := s.addStates(ctx, by.scope, in.Run, items); err != nil {
		return nil, err
	}
	if in.State == "uncertain" {
		certain := slices.IndexFunc(items, func(j api.Job) bool { return !j.MayHaveBegun }) // from there on all are
		if certain >= 0 {
			items, next = items[:certain], ""
		}
	}
	return listOf(items, next), nil
}

// askTogether is how many jobs the queue is asked about at the same time.
const askTogether = 8

// addStates sets the state of the jobs of a run that have no outcome. If the queue does not answer
// in time, they are unknown.
func (s *Server) addStates(ctx context.Context, scope ledger.Scope, id string, jobs []api.Job) error {
	if !slices.ContainsFunc(jobs, func(j api.Job) bool { return j.Outcome == "" }) {
		return nil
	}
	run, err := s.cfg.Ledger.Run(ctx, ledger.AllTenants(), id)
	if err != nil {
		return err
	}
	s.addStatesOf(ctx, scope, func(int) *ledger.Run { return &run }, jobs)
	return nil
}

// addStatesOf is addStates of jobs whose runs are known.
func (s *Server) addStatesOf(ctx context.Context, scope ledger.Scope, runs func(at int) *ledger.Run, jobs []api.Job) {
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	unworked := sync.OnceValue(func() string { return s.unworked(ctx) })
	var asking sync.WaitGroup
	for part := range askTogether {
		asking.Go(func() {
			for i := part; i < len(jobs); i += askTogether {
				if j, run := &jobs[i], runs(i); j.Outcome == "" {
					why := s.standing(ctx, scope, run, core.JobID{Run: j.Run, Index: j.Index})
					if why.State == core.Pending {
						why = whyPending(why, unworked())
					}
					j.State, j.Reason, j.ReasonCode, j.MayHaveBegun = why.State, why.Reason, why.ReasonCode, j.Index < run.Uncertain
					if !why.Since.IsZero() {
						j.Worker = why.Worker
						j.Started, j.Ended = why.Since, time.Time{} // not those of a life before
					}
				}
			}
		})
	}
	asking.Wait()
}

// standing returns the state of a job without an outcome, for a caller with scope. It asks the
// queue, and answers without it.
func (s *Server) standing(ctx context.Context, scope ledger.Scope, run *ledger.Run, id core.JobID) api.Explanation {
	if run.Incarnation == "" {
		phase, code := runOf(*run).Phase, core.NotQueued
		if phase == api.Approval {
			code = core.AwaitsApproval
		}
		return api.Explanation{State: api.JobQueued, Reason: "its run is " + string(phase) + " and not in the queue", ReasonCode: code}
	}
	if s.cfg.Elsewhere {
		return api.Explanation{State: api.JobUnknown, Reason: "another process on this machine runs it", ReasonCode: core.Elsewhere}
	}
	if s.cfg.Controller.Away() != nil || ctx.Err() != nil {
		return api.Explanation{State: api.JobUnknown, Reason: "the queue does not answer", ReasonCode: core.QueueAway}
	}
	why, err := s.whyWaits(ctx, id)
	switch {
	case errors.Is(err, core.ErrNotFound):
		return api.Explanation{State: api.JobQueued, Reason: "its run is not in the queue: a server puts it there again", ReasonCode: core.NotQueued}
	case err != nil:
		return api.Explanation{State: api.JobUnknown, Reason: "the queue does not answer", ReasonCode: core.QueueAway}
	}
	return api.Explanation{State: why.State, Reason: why.Reason.Text() + s.holder(ctx, scope, why.Holder), ReasonCode: why.Reason.Code(), Worker: why.Node, Since: why.Since, Until: why.Until}
}

// whyWaits returns where a job is by the queue, with the reason of a suspended one.
func (s *Server) whyWaits(ctx context.Context, id core.JobID) (queue.Explanation, error) {
	why, err := s.cfg.Queue.Explain(ctx, id)
	if why.State == core.Suspended {
		why.Reason = snapshot.WhyWaits(why.Event)
	}
	return why, err
}

// holder names the job that another waits for, to a caller who may see its run.
func (s *Server) holder(ctx context.Context, scope ledger.Scope, job string) string {
	id, err := core.ParseJobID(job)
	if err != nil {
		return ""
	}
	if _, err := s.cfg.Ledger.Run(ctx, scope, id.Run); err != nil {
		return ""
	}
	return ": " + job
}

func (s *Server) getJob(ctx context.Context, by caller, in *struct {
	JobPath
	Steps bool `query:"steps" default:"true" doc:"false leaves its steps out"`
},
) (*body[api.Job], error) {
	job, detail, err := s.cfg.Ledger.JobDetail(ctx, by.scope, in.id())
	if err != nil {
		return nil, err
	}
	shown := jobOf(job)
	switch {
	case job.Outcome == "":
		one := []api.Job{shown}
		if err := s.addStates(ctx, by.scope, in.Run, one); err != nil {
			return nil, err
		}
		shown = one[0]
	case in.Steps:
		shown.Steps = s.stepsOf(in.id(), detail)
	}
	return &body[api.Job]{shown}, nil
}

// steps returns the steps that a job did; nil where nothing was recorded of it.
func (s *Server) steps(ctx context.Context, scope ledger.Scope, id core.JobID) ([]api.StepResult, error) {
	detail, err := s.cfg.Ledger.Detail(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	return s.stepsOf(id, detail), nil
}

// stepsOf reads a detail. One that a newer worker wrote may not be understood: the outcome is there
// nevertheless.
func (s *Server) stepsOf(id core.JobID, detail []byte) []api.StepResult {
	if len(detail) == 0 {
		return nil
	}
	result, err := launch.DecodeResult(detail)
	if err != nil {
		s.cfg.Log.Warn("the detail of a job cannot be read", "job", id.String())
	}
	return api.StepsOf(result.Steps)
}

func (s *Server) attempts(ctx context.Context, by caller, in *JobPath) (*list[api.Attempt], error) {
	all, err := s.cfg.Ledger.Attempts(ctx, by.scope, in.id())
	if err != nil {
		return nil, err
	}
	items := make([]api.Attempt, len(all))
	for i, a := range all {
		items[i] = api.Attempt{Attempt: a.Attempt, Outcome: a.Outcome, Reason: a.Reason, ReasonCode: a.ReasonCode, Step: a.Step, Worker: a.Worker, Started: a.Started}
		if !a.Started.IsZero() {
			items[i].Ended = a.Started.Add(a.Took)
		}
	}
	return listOf(items, ""), nil
}

// jobOf shows a job of the ledger.
func jobOf(j ledger.Job) api.Job {
	shown := api.Job{
		Run: j.Run, Index: j.Index, Host: j.Host, Customer: j.Tenant, Playbook: j.Playbook, Check: j.Check, Outcome: j.Outcome, Reason: j.Reason, ReasonCode: j.ReasonCode,
		Step: j.Step, Attempt: j.Attempt, Worker: j.Worker, Started: j.Started, Ended: j.Recorded,
	}
	if !j.Started.IsZero() {
		shown.Ended = j.Started.Add(j.Took)
	}
	return shown
}
