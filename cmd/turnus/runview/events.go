package runview

import (
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/worker"
)

// eventLine is one line of run --events. Fields that do not apply are left out.
type eventLine struct {
	Time    time.Time       `json:"time"`
	Event   string          `json:"event"`
	Run     string          `json:"run,omitempty"`
	Job     string          `json:"job,omitempty"`
	Host    string          `json:"host,omitempty"`
	Step    string          `json:"step,omitempty"`
	Uses    string          `json:"uses,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Stdout  string          `json:"stdout,omitempty"`
	Stderr  string          `json:"stderr,omitempty"`
	Text    string          `json:"text,omitempty"`
	Wave    int             `json:"wave,omitempty"` // from 1
	After   core.Seconds    `json:"after_seconds,omitempty"`
	Waiting int             `json:"waiting,omitempty"`    // hosts that wait for windows
	Set     string          `json:"window_set,omitempty"` // the next of them to open
	Until   time.Time       `json:"until,omitzero"`       // when it opens
	Result  *api.Result     `json:"result,omitempty"`
	Detail  *api.StepResult `json:"step_result,omitempty"`
	Report  *Report         `json:"report,omitempty"`
}

// EventWriter writes NDJSON, a line an event. Safe for concurrent use.
type EventWriter struct {
	mu  sync.Mutex
	enc *json.Encoder
}

// NewEventWriter returns a writer to stdout.
func NewEventWriter(s *console.Screen) *EventWriter {
	enc := json.NewEncoder(s.Raw())
	enc.SetEscapeHTML(false)
	return &EventWriter{enc: enc}
}

func (w *EventWriter) write(e eventLine) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.UTC()
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.enc.Encode(e) // the screen remembers an error
}

// Worker writes an event of a worker.
func (w *EventWriter) Worker(e worker.Event) {
	if e.Kind == worker.JobDone || e.Kind == worker.Draining {
		return // the record of the queue is the truth, see result; and our own end comes after the report
	}
	line := eventLine{
		Time: e.Time, Event: string(e.Kind), Run: e.Job.Run, Host: e.Host, Step: e.Step, Uses: e.Uses, Attempt: e.Attempt,
		Stdout: validText(e.Stdout), Stderr: validText(e.Stderr), Text: e.Text, After: core.InSeconds(e.After),
	}
	if e.Job.Run != "" {
		line.Job = e.Job.String()
	}
	if e.StepResult != nil {
		detail := api.StepOf(*e.StepResult)
		line.Detail = &detail
	}
	w.write(line)
}

// Result writes a result.
func (w *EventWriter) Result(r api.Result) {
	w.write(eventLine{Event: "job_done", Run: r.Job.Run, Job: r.Job.String(), Host: r.Host, Result: &r})
}

// Drive writes an event of the run.
func (w *EventWriter) Drive(e engine.Event) {
	line := eventLine{Event: "run_" + string(e.Kind), Run: e.Run, Text: e.Reason}
	switch e.Kind {
	case engine.EventReleased, engine.EventAsk, engine.EventPause:
		line.Wave = e.Wave + 1
	case engine.EventWaiting:
		line.Waiting, line.Set, line.Until = e.Waiting, e.Set, e.Until.UTC()
	}
	if e.Err != nil {
		line.Text = e.Err.Error()
	}
	w.write(line)
}

// Report writes the report that ends the run.
func (w *EventWriter) Report(r Report) {
	r.Results = nil // each was an event of its own
	w.write(eventLine{Event: "run_done", Run: r.Run, Report: &r})
}

func validText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
