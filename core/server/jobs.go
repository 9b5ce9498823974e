package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

func (s *Server) jobs() {
	handle(s, route{
		id: "list-jobs", method: http.MethodGet, path: "/v1/runs/{run}/jobs", summary: "List the jobs of a run that have an outcome", role: Viewer,
		detail: "By index. Of a run of another tenant that touches hosts of the caller's, those jobs are listed.",
	}, s.listJobs)
	handle(s, route{id: "get-job", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}", summary: "Show a job, with its steps", role: Viewer}, s.getJob)
	handle(s, route{id: "explain-job", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}/explain", summary: "Say why a job is where it is", role: Viewer}, s.explainJob)
	handle(s, route{id: "list-attempts", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}/attempts", summary: "List the attempts of a job", role: Viewer}, s.attempts)
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
	Outcome core.Outcome `query:"outcome" enum:"unchanged,changed,failed,unreachable,skipped,rolled_back,lost,cancelled"`
	Host    string       `query:"host" maxLength:"253"`
},
) (*list[api.Job], error) {
	jobs, next, err := s.cfg.Ledger.Jobs(ctx, by.scope, in.Run, ledger.JobFilter{Outcome: in.Outcome, Host: in.Host}, in.ledger())
	if err != nil {
		return nil, err
	}
	items := make([]api.Job, len(jobs))
	for i := range jobs {
		items[i] = jobOf(jobs[i])
	}
	return listOf(items, next), nil
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
		shown.State, shown.Reason = core.Pending, ""
		if why, err := s.explain(ctx, in.id()); err == nil {
			shown.State, shown.Reason = why.State, why.Reason
		}
	case in.Steps:
		shown.Steps = s.stepsOf(in.id(), detail)
	}
	return &body[api.Job]{shown}, nil
}

// steps are what a job did; nil where nothing was recorded of it.
func (s *Server) steps(ctx context.Context, scope ledger.Scope, id core.JobID) ([]core.StepResult, error) {
	detail, err := s.cfg.Ledger.Detail(ctx, scope, id)
	if err != nil {
		return nil, err
	}
	return s.stepsOf(id, detail), nil
}

// stepsOf reads a detail. One that a newer worker wrote may not be understood: the outcome is there nevertheless.
func (s *Server) stepsOf(id core.JobID, detail []byte) []core.StepResult {
	if len(detail) == 0 {
		return nil
	}
	result, err := launch.DecodeResult(detail)
	if err != nil {
		s.cfg.Log.Warn("the detail of a job cannot be read", "job", id.String())
	}
	return result.Steps
}

func (s *Server) explainJob(ctx context.Context, by caller, in *JobPath) (*body[api.Explanation], error) {
	job, err := s.cfg.Ledger.Job(ctx, by.scope, in.id())
	if err != nil {
		return nil, err
	}
	e := api.Explanation{Run: job.Run, Index: job.Index, Host: job.Host, State: core.Done, Reason: "ended as " + string(job.Outcome)}
	if job.Reason != "" {
		e.Reason += ": " + job.Reason
	}
	if job.Outcome != "" {
		return &body[api.Explanation]{e}, nil
	}
	run, err := s.cfg.Ledger.Run(ctx, ledger.AllTenants(), job.Run)
	if err != nil {
		return nil, err
	}
	e.State = core.Pending
	if run.Incarnation == "" {
		e.Reason = "its run is " + string(runOf(run).Phase) + " and not in the queue"
		return &body[api.Explanation]{e}, nil
	}
	why, err := s.explain(ctx, in.id())
	switch {
	case errors.Is(err, core.ErrNotFound):
		e.Reason = "its run is not in the queue for now: it is put there again"
	case err != nil:
		return nil, err
	default:
		e.State, e.Reason, e.Until = why.State, why.Reason, why.Until
	}
	return &body[api.Explanation]{e}, nil
}

// explain asks the queue, not for long.
func (s *Server) explain(ctx context.Context, id core.JobID) (api.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	why, err := s.cfg.Queue.Explain(ctx, id)
	if err != nil {
		return api.Explanation{}, err
	}
	return s.whyPending(ctx, api.Explanation{State: why.State, Reason: why.Reason, Until: why.Until}), nil
}

func (s *Server) attempts(ctx context.Context, by caller, in *JobPath) (*list[api.Attempt], error) {
	all, err := s.cfg.Ledger.Attempts(ctx, by.scope, in.id())
	if err != nil {
		return nil, err
	}
	items := make([]api.Attempt, len(all))
	for i, a := range all {
		items[i] = api.Attempt{Attempt: a.Attempt, Life: a.Life, Outcome: a.Outcome, Reason: a.Reason, Step: a.Step, Worker: a.Worker, Started: a.Started}
		if !a.Started.IsZero() {
			items[i].Ended = a.Started.Add(a.Took)
		}
	}
	return listOf(items, ""), nil
}

// jobOf shows a job of the ledger.
func jobOf(j ledger.Job) api.Job {
	shown := api.Job{
		Run: j.Run, Index: j.Index, Host: j.Host, Customer: j.Tenant, Playbook: j.Playbook, Outcome: j.Outcome, Reason: j.Reason,
		Step: j.Step, Attempt: j.Attempt, Worker: j.Worker, Started: j.Started, Ended: j.Recorded,
	}
	if !j.Started.IsZero() {
		shown.Ended = j.Started.Add(j.Took)
	}
	return shown
}
