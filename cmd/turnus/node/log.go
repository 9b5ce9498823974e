package node

import (
	"log/slog"

	"github.com/turnus/turnus/core/worker"
)

// JobLog logs events of jobs. It does not log a job's output, diff and messages, which are in the
// record.
func JobLog(log *slog.Logger, next func(worker.Event)) func(worker.Event) {
	return func(e worker.Event) {
		logJob(log, e)
		if next != nil {
			next(e)
		}
	}
}

func logJob(log *slog.Logger, e worker.Event) {
	log = log.With("run", e.Job.Run, "job", e.Job.String(), "host", e.Host)
	if e.Trace != "" {
		log = log.With("trace_id", e.Trace)
	}
	switch e.Kind {
	case worker.JobStarted:
		log.Debug("job started")
	case worker.StepStarted:
		log.Debug("step started", "step", e.Step, "job_type", e.Uses, "attempt", e.Attempt)
	case worker.StepRetry:
		log.Info("step is tried again", "step", e.Step, "job_type", e.Uses, "attempt", e.Attempt, "reason", e.Text, "after", e.After.String())
	case worker.StepDone:
		if r := e.StepResult; r != nil {
			log.Debug("step done", "step", r.Name, "job_type", r.Uses, "outcome", string(r.Outcome), "reason", r.Reason, "took", r.Took.String())
		}
	case worker.JobSuspended:
		log.Debug("job suspended", "reason", e.Text, "after", e.After.String())
	case worker.JobDone:
		if r := e.Result; r != nil {
			log.Info("job done", "tenant", r.Customer, "step", r.Step, "outcome", string(r.Outcome), "reason", r.Reason, "attempt", r.Attempt, "took", r.Took.String())
		}
	}
}
