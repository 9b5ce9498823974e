package core

import "time"

// Result is the record of one job: what its host saw, step by step. It rides
// through the queue as opaque bytes; only workers write it, only reports and
// the ledger read it.
type Result struct {
	Job      JobID   `json:"job"`
	Host     string  `json:"host"`
	Customer string  `json:"customer,omitempty"`
	Outcome  Outcome `json:"outcome"`
	Reason   string  `json:"reason,omitempty"` // a sentence that a person understands; empty when all went well
	// ReasonCode is the code of Reason, where it has one.
	ReasonCode ReasonCode    `json:"reason_code,omitempty"`
	Step       string        `json:"step,omitempty"` // the step that decided a bad outcome
	Attempt    int           `json:"attempt"`        // from 1
	Worker     string        `json:"worker,omitempty"`
	Started    time.Time     `json:"started,omitzero"`
	Took       time.Duration `json:"took_ns"`
	Steps      []StepResult  `json:"steps,omitempty"` // with the handlers where they ran
	Handlers   *Handlers     `json:"handlers,omitempty"`
	Facts      *Facts        `json:"facts,omitempty"` // of the host, nil: none are known; the record has the boot id alone, of a host that did not succeed
	// Entered has the value of each include's when that was evaluated, by the name of the include.
	Entered map[string]bool `json:"entered,omitempty"`
}

// StepResult is the result of one step on one host. Text is cut to a bound by the worker, with
// Truncated set; binary bytes are escaped so that it is valid UTF-8.
type StepResult struct {
	Name    string  `json:"name"`
	Uses    string  `json:"uses"`
	Handler bool    `json:"handler,omitempty"` // it is one of the playbook's handlers
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
	// ReasonCode is the code of Reason, where it has one.
	ReasonCode ReasonCode     `json:"reason_code,omitempty"`
	Attempts   int            `json:"attempts,omitempty"`
	ExitCode   *int           `json:"exit_code,omitempty"`
	Stdout     string         `json:"stdout,omitempty"`
	Stderr     string         `json:"stderr,omitempty"`
	Diff       string         `json:"diff,omitempty"`
	Outputs    map[string]any `json:"outputs,omitempty"`
	Truncated  bool           `json:"truncated,omitempty"`
	Took       time.Duration  `json:"took_ns"`
	Window     *Window        `json:"window,omitempty"` // that its last attempt was started in, of a step that waits for one
	At         string         `json:"at,omitempty"`     // file:line of the step, if it did not succeed by its own fault
	On         string         `json:"on,omitempty"`     // the host on which it was called; "" is the job's
	Kept       *Kept          `json:"kept,omitempty"`   // nil: the job called the step, or had no reason to
}

// Kept names who called a step whose result a host takes over: the host itself in the run that a
// retry continues from, or another host, of a step with once.
type Kept struct {
	Run  string    `json:"run"`            // that called the step
	At   time.Time `json:"at"`             // when the host's share of that run was recorded, or when Host had called it
	Host string    `json:"host,omitempty"` // that called the step with once; "" is the host itself
}

// Window is the evidence that a step was started when it might be.
type Window struct {
	Set       string    `json:"set"`
	Started   time.Time `json:"started"` // by the queue's clock
	Open      time.Time `json:"open"`
	Close     time.Time `json:"close"`
	Rules     []string  `json:"rules,omitempty"`     // that open it
	Approvals []string  `json:"approvals,omitempty"` // that those stand under, by id or giver
}
