package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Result is the result of one job: core.Result as clients read it.
type Result struct {
	Job        core.JobID      `json:"job"`
	Host       string          `json:"host"`
	Customer   string          `json:"customer,omitempty"`
	Outcome    core.Outcome    `json:"outcome"`
	Reason     string          `json:"reason,omitempty"`
	ReasonCode core.ReasonCode `json:"reason_code,omitempty"`
	Step       string          `json:"step,omitempty"`
	Attempt    int             `json:"attempt"`
	Worker     string          `json:"worker,omitempty"`
	Started    time.Time       `json:"started,omitzero"`
	Took       core.Seconds    `json:"took_seconds"`
	Steps      []StepResult    `json:"steps,omitempty"`
	Handlers   *core.Handlers  `json:"handlers,omitempty"`
	Facts      *core.Facts     `json:"facts,omitempty"`
	Entered    map[string]bool `json:"entered,omitempty" doc:"by include or group with when: its value"`
}

// StepResult is the result of one step on one host: core.StepResult as clients read it.
type StepResult struct {
	Name       string          `json:"name"`
	Uses       string          `json:"uses"`
	Handler    bool            `json:"handler,omitempty"`
	Outcome    core.Outcome    `json:"outcome"`
	Reason     string          `json:"reason,omitempty"`
	ReasonCode core.ReasonCode `json:"reason_code,omitempty"`
	Attempts   int             `json:"attempts,omitempty"`
	ExitCode   *int            `json:"exit_code,omitempty"`
	Stdout     string          `json:"stdout,omitempty"`
	Stderr     string          `json:"stderr,omitempty"`
	Diff       string          `json:"diff,omitempty"`
	Outputs    map[string]any  `json:"outputs,omitempty"`
	Truncated  bool            `json:"truncated,omitempty"`
	Took       core.Seconds    `json:"took_seconds"`
	Window     *core.Window    `json:"window,omitempty"`
	At         string          `json:"at,omitempty" doc:"file:line of a step that failed, was rolled back or is lost"`
	On         string          `json:"on,omitempty" doc:"the host on which it was called, if that is not the host of the job"`
	Kept       *core.Kept      `json:"kept,omitempty" doc:"who called the step in the place of this call: an earlier run, or another host of a step with once"`
}

// ResultOf returns a job's record for clients.
func ResultOf(r core.Result) Result {
	return Result{
		Job: r.Job, Host: r.Host, Customer: r.Customer, Outcome: r.Outcome, Reason: r.Reason, ReasonCode: r.ReasonCode, Step: r.Step,
		Attempt: r.Attempt, Worker: r.Worker, Started: r.Started, Took: core.InSeconds(r.Took), Steps: StepsOf(r.Steps), Handlers: r.Handlers, Facts: r.Facts, Entered: r.Entered,
	}
}

// StepOf returns a step's record for clients.
func StepOf(s core.StepResult) StepResult {
	return StepResult{
		Name: s.Name, Uses: s.Uses, Handler: s.Handler, Outcome: s.Outcome, Reason: s.Reason, ReasonCode: s.ReasonCode,
		Attempts: s.Attempts, ExitCode: s.ExitCode, Stdout: s.Stdout, Stderr: s.Stderr, Diff: s.Diff, Outputs: s.Outputs,
		Truncated: s.Truncated, Took: core.InSeconds(s.Took), Window: s.Window, At: s.At, On: s.On, Kept: s.Kept,
	}
}

// StepsOf returns the records of steps for clients, nil for none.
func StepsOf(steps []core.StepResult) []StepResult {
	if len(steps) == 0 {
		return nil
	}
	return core.Map(steps, StepOf)
}
