package plugintest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Result is how a call ended, and what it reported on the way.
type Result struct {
	// Outcome is changed, unchanged, skipped, failed, unreachable, rolled_back, lost,
	// cancelled or suspended.
	Outcome   string
	Reason    string
	Outputs   map[string]any
	Retryable bool
	Effects   string // of a failure: unknown, none, partial
	TimedOut  bool

	Stdout, Stderr string
	Diffs          []Diff
	Logs           []Log
	Phases         []string // of Progress
	Diagnostics    []string // "POINTER: SUMMARY"
	Checkpoints    []Checkpoint

	State       *State // of a suspension
	ResumeAfter time.Duration
	Signal      string
	KeepLocks   bool
	Held        bool // because the window asked for it
}

// Diff is one reported difference.
type Diff struct{ Title, Text string }

// Log is one log record.
type Log struct {
	Level   string
	Message string
	Attrs   map[string]string
}

// State is a saved state.
type State struct {
	Version int
	JSON    json.RawMessage
}

// Checkpoint is a state saved on the way.
type Checkpoint struct {
	Name  string
	State State
}

func (r *Result) add(event *wire.RunEvent) {
	switch e := event.GetEvent().(type) {
	case *wire.RunEvent_Output:
		r.Stdout += string(e.Output.GetStdout())
		r.Stderr += string(e.Output.GetStderr())
	case *wire.RunEvent_Diff:
		r.Diffs = append(r.Diffs, Diff{Title: e.Diff.GetTitle(), Text: e.Diff.GetText()})
	case *wire.RunEvent_Log:
		r.Logs = append(r.Logs, Log{Level: e.Log.GetLevel().String(), Message: e.Log.GetMessage(), Attrs: e.Log.GetAttributes()})
	case *wire.RunEvent_Progress:
		r.Phases = append(r.Phases, e.Progress.GetPhase())
	case *wire.RunEvent_Diagnostic:
		r.Diagnostics = append(r.Diagnostics, diagnostics([]*wire.Diagnostic{e.Diagnostic})...)
	}
}

func (r *Result) finish(o *wire.Outcome) error {
	var outputs []byte
	switch o := o.GetOutcome().(type) {
	case *wire.Outcome_Done:
		r.Reason, outputs = o.Done.GetReason(), o.Done.GetOutputs()
		switch {
		case o.Done.GetSkipped():
			r.Outcome = "skipped"
		case o.Done.GetChanged():
			r.Outcome = "changed"
		default:
			r.Outcome = "unchanged"
		}
	case *wire.Outcome_Failed:
		outputs = o.Failed.GetOutputs()
		r.failed(o.Failed)
	case *wire.Outcome_Cancelled:
		r.Outcome, r.Reason = "cancelled", o.Cancelled.GetReason()
	case *wire.Outcome_Suspended:
		s := o.Suspended
		r.Outcome, r.Reason, r.Signal, r.KeepLocks = "suspended", s.GetReason(), s.GetUntilSignal(), s.GetKeepLocks()
		r.ResumeAfter = time.Duration(s.GetResumeAfterMs()) * time.Millisecond
		r.Held = s.GetWindowClosed()
		r.State = &State{Version: int(s.GetState().GetVersion()), JSON: s.GetState().GetJson()}
	default:
		return fmt.Errorf("an empty outcome")
	}
	if len(outputs) == 0 {
		return nil
	}
	if err := json.Unmarshal(outputs, &r.Outputs); err != nil {
		return fmt.Errorf("outputs %s: %w", outputs, err)
	}
	return nil
}

func (r *Result) failed(f *wire.Failed) {
	r.Reason, r.Retryable, r.TimedOut = f.GetReason(), f.GetRetryable(), f.GetTimedOut()
	r.Effects = map[wire.Failed_Effects]string{
		wire.Failed_UNKNOWN: "unknown", wire.Failed_NONE: "none", wire.Failed_PARTIAL: "partial",
	}[f.GetEffects()]
	switch {
	case f.GetLost():
		r.Outcome = "lost"
	case f.GetRolledBack():
		r.Outcome = "rolled_back"
	case f.GetUnreachable():
		r.Outcome = "unreachable"
	default:
		r.Outcome = "failed"
	}
}

func diagnostics(ds []*wire.Diagnostic) []string {
	var lines []string
	for _, d := range ds {
		lines = append(lines, d.GetPointer()+": "+d.GetSummary())
	}
	return lines
}
