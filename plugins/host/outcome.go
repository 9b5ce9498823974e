package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// outcomeFromWire maps an outcome; an error means that the plugin broke the protocol.
func outcomeFromWire(w *wire.Outcome) (Outcome, error) {
	switch o := w.GetOutcome().(type) {
	case *wire.Outcome_Done:
		outputs, err := decodeOutputs(o.Done.GetOutputs())
		return Outcome{
			Changed: o.Done.GetChanged(), Skipped: o.Done.GetSkipped(), Unchecked: o.Done.GetUnchecked(), Reason: o.Done.GetReason(), Outputs: outputs,
		}, err
	case *wire.Outcome_Failed:
		f := o.Failed
		outputs, err := decodeOutputs(f.GetOutputs())
		return Outcome{
			Failed: true, Reason: f.GetReason(), Retryable: f.GetRetryable(), Effects: effects(f.GetEffects()),
			Unreachable: f.GetUnreachable(), RolledBack: f.GetRolledBack(), Lost: f.GetLost(), TimedOut: f.GetTimedOut(),
			Outputs: outputs,
		}, err
	case *wire.Outcome_Suspended:
		s := o.Suspended
		state, err := stateFromWire(s.GetState())
		out := Outcome{Suspended: true, Reason: s.GetReason(), State: state, KeepLocks: s.GetKeepLocks(), Held: s.GetWindowClosed()}
		if !out.Held { // else the worker decides when the job continues
			out.Signal, out.ResumeAfter = s.GetUntilSignal(), millis(s.GetResumeAfterMs())
		}
		return out, err
	case *wire.Outcome_Cancelled:
		return Outcome{Cancelled: true, Reason: o.Cancelled.GetReason()}, nil
	}
	return Outcome{}, errors.New("its outcome is empty")
}

// maxReason bounds a plugin's reason for an outcome, in bytes.
const maxReason = 16 << 10

// brief cuts a reason at white space, so that no part of a secret is left.
func brief(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return fmt.Sprintf("%s… (%d bytes)", reason[:strings.LastIndexAny(reason[:maxReason], " \t\r\n")+1], len(reason))
}

// maxMillis is far above any sensible time, and far below what overflows a time.Duration.
const maxMillis = int64(10 * 365 * 24 * time.Hour / time.Millisecond)

// millis is a plugin's word for a duration; a negative one is none.
func millis(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), maxMillis)) * time.Millisecond
}

func effects(e wire.Failed_Effects) string {
	switch e {
	case wire.Failed_NONE:
		return EffectsNone
	case wire.Failed_PARTIAL:
		return EffectsPartial
	}
	return EffectsUnknown
}

func decodeOutputs(raw []byte) (map[string]any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var m map[string]any
	if err := words.Unmarshal("its outputs", raw, &m); err != nil {
		return nil, err
	}
	return m, nil
}

func stateFromWire(w *wire.State) (*State, error) {
	if w == nil {
		return nil, nil
	}
	if len(w.GetJson()) > wire.MaxState {
		return nil, fmt.Errorf("the state has %d bytes; at most %d are kept", len(w.GetJson()), wire.MaxState)
	}
	if len(w.GetJson()) > 0 && !json.Valid(w.GetJson()) {
		return nil, errors.New("the state is not JSON")
	}
	return &State{Version: int(w.GetVersion()), JSON: w.GetJson()}, nil
}

// eventFromWire maps any event but an outcome; ok is false for what this worker does not know.
func eventFromWire(w *wire.RunEvent) (e Event, ok bool) {
	switch v := w.GetEvent().(type) {
	case *wire.RunEvent_Output:
		return Event{Stdout: v.Output.GetStdout(), Stderr: v.Output.GetStderr()}, true
	case *wire.RunEvent_Log:
		return Event{Log: logText(v.Log), Level: level(v.Log.GetLevel())}, true
	case *wire.RunEvent_Diff:
		return Event{DiffTitle: v.Diff.GetTitle(), Diff: v.Diff.GetText()}, true
	case *wire.RunEvent_Progress:
		return Event{Phase: v.Progress.GetPhase(), Done: v.Progress.GetDone()}, true
	case *wire.RunEvent_Diagnostic:
		d := v.Diagnostic
		e := Event{Log: d.GetSummary(), Level: slog.LevelError}
		if d.GetSeverity() == wire.Diagnostic_WARNING {
			e.Level = slog.LevelWarn
		}
		if d.GetPointer() != "" {
			e.Log = d.GetPointer() + ": " + e.Log
		}
		if d.GetDetail() != "" {
			e.Log += ": " + d.GetDetail()
		}
		return e, true
	}
	return Event{}, false
}

// eventName returns the wire's name of an event.
func eventName(w *wire.RunEvent) string {
	m := w.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("event")); f != nil {
		return "an event of kind " + string(f.Name())
	}
	return "an empty event"
}

func level(l wire.Log_Level) slog.Level {
	switch l {
	case wire.Log_DEBUG:
		return slog.LevelDebug
	case wire.Log_WARN:
		return slog.LevelWarn
	case wire.Log_ERROR:
		return slog.LevelError
	}
	return slog.LevelInfo
}

func logText(l *wire.Log) string {
	attrs := l.GetAttributes()
	if len(attrs) == 0 {
		return l.GetMessage()
	}
	keys := make([]string, 0, len(attrs))
	for k := range attrs {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	b.WriteString(l.GetMessage())
	for _, k := range keys {
		fmt.Fprintf(&b, " %s=%q", k, attrs[k])
	}
	return b.String()
}
