package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Event is something that happened to a run, as one line of JSON. `turnus run --events` prints it,
// the queue's feed has it under the run's id, and the event streams of the API send it. Fields that
// do not apply are left out.
//
// The worker of a job publishes its events in order, job_done last: followers of a job end there.
type Event struct {
	Time       time.Time       `json:"time"`
	Event      string          `json:"event" doc:"job_started, step_started, output, step_done, job_done, run_released, run_changed, run_done, …"`
	Run        string          `json:"run,omitempty"`
	Job        string          `json:"job,omitempty" doc:"RUN/INDEX"`
	Host       string          `json:"host,omitempty"`
	Step       string          `json:"step,omitempty"`
	Uses       string          `json:"uses,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Stdout     string          `json:"stdout,omitempty"`
	Stderr     string          `json:"stderr,omitempty"`
	Text       string          `json:"text,omitempty"`
	ReasonCode core.ReasonCode `json:"reason_code,omitempty" doc:"of step_retry and job_suspended: the code of the text, where it has one"`
	Wave       int             `json:"wave,omitempty" doc:"from 1"`
	After      core.Seconds    `json:"after_seconds,omitempty"`
	Waiting    int             `json:"waiting,omitempty" doc:"hosts that wait for windows"`
	Set        string          `json:"window_set,omitempty" doc:"the next of them to open"`
	Until      time.Time       `json:"until,omitzero" doc:"when it opens"`
	Result     *Result         `json:"result,omitempty" doc:"of job_done"`
	Detail     *StepResult     `json:"step_result,omitempty"`
	Over       *Run            `json:"over,omitempty" doc:"of run_done: how the run ended"`
}

// The events that the API sends from what is recorded.
const (
	JobDone = "job_done"
	RunDone = "run_done"

	// RunChanged means that a run's phase or decisions changed, or what it waits for, or that the
	// queue went away or is back. Text is the run's phase.
	RunChanged = "run_changed"

	// EventsLost means that live events are missing here: they came faster than the reader took them,
	// or before it came.
	EventsLost = "events_lost"
)
