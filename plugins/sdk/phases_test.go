package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

type stagedState struct {
	Phase string   `json:"phase,omitempty"`
	Did   []string `json:"did,omitempty"`
}

type (
	stagedRun = sdk.Run[noParams, stagedState]
	stage     = sdk.Phase[noParams, stagedState]
)

// does is a phase that notes its name, and then does what then does.
func does(name string, then func(context.Context, *stagedRun) error) stage {
	return stage{Name: name, Run: func(ctx context.Context, r *stagedRun) error {
		r.State.Did = append(r.State.Did, name)
		if then == nil {
			return nil
		}
		return then(ctx, r)
	}}
}

func staged(phases ...stage) sdk.Def {
	return sdk.Job("test.staged", func(ctx context.Context, r *stagedRun) error {
		if err := r.Phases(ctx, &r.State.Phase, phases...); err != nil {
			return err
		}
		r.Output("did", strings.Join(r.State.Did, " "))
		return nil
	})
}

func saved(t *testing.T, s *plugintest.State) stagedState {
	t.Helper()
	var out stagedState
	if s == nil {
		t.Fatal("no state was saved")
	}
	if err := json.Unmarshal(s.JSON, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPhasesAreSavedBeforeTheNextBegins(t *testing.T) {
	kit := plugintest.New(t, staged(does("a", nil), does("b", nil), does("c", nil)))
	kit.Host("r1")
	got := kit.Run(none)
	if got.Outcome != "unchanged" || got.Outputs["did"] != "a b c" {
		t.Fatalf("got %s (%s), %v", got.Outcome, got.Reason, got.Outputs)
	}
	want := []stagedState{{"b", []string{"a"}}, {"c", []string{"a", "b"}}, {sdk.PhasesDone, []string{"a", "b", "c"}}}
	for i, c := range got.Checkpoints {
		if at := saved(t, &c.State); i >= len(want) || !reflect.DeepEqual(at, want[i]) || c.Name != at.Phase {
			t.Errorf("checkpoint %d, %s: got %+v", i, c.Name, at)
		}
		again := kit.Run(none, plugintest.Resume(&c.State)) // the process died right after it
		if again.Outcome != "unchanged" || again.Outputs["did"] != "a b c" {
			t.Errorf("after checkpoint %s: got %s (%s), %v", c.Name, again.Outcome, again.Reason, again.Outputs)
		}
	}
	if len(got.Checkpoints) != len(want) || !reflect.DeepEqual(got.Phases, []string{"a", "b", "c"}) {
		t.Errorf("%d checkpoints, phases %q", len(got.Checkpoints), got.Phases)
	}
}

func TestAPhaseThatSuspendsIsCalledAgain(t *testing.T) {
	for name, suspend := range map[string]func(*stagedRun) error{
		"wait": func(r *stagedRun) error { return r.Wait(time.Minute, sdk.UntilSignal("go"), sdk.Because("not yet")) },
		"another's state": func(*stagedRun) error {
			return sdk.Suspend(stagedState{Phase: "x"}, time.Minute, sdk.UntilSignal("go"))
		},
		"state of a stranger": func(*stagedRun) error { return sdk.Suspend(42, time.Minute, sdk.UntilSignal("go")) },
	} {
		t.Run(name, func(t *testing.T) {
			kit := plugintest.New(t, staged(does("a", nil), does("b", func(_ context.Context, r *stagedRun) error {
				if len(r.State.Did) < 4 {
					return suspend(r)
				}
				return nil
			}), does("c", nil)))
			kit.Host("r1")
			got := kit.Run(none)
			for range 2 {
				if got.Outcome != "suspended" || got.ResumeAfter != time.Minute || got.Signal != "go" || saved(t, got.State).Phase != "b" {
					t.Fatalf("got %+v", got)
				}
				got = kit.Run(none, plugintest.Resume(got.State))
			}
			if got.Outputs["did"] != "a b b b c" {
				t.Errorf("got %s (%s), %v", got.Outcome, got.Reason, got.Outputs)
			}
		})
	}
}

func TestThePhaseOfAnErrorIsNamed(t *testing.T) {
	kit := plugintest.New(t, staged(does("a", nil), does("b", func(_ context.Context, r *stagedRun) error {
		r.Log().Info("here")
		r.Progress(0.5, "half")
		return sdk.Refuse("no room")
	})))
	kit.Host("r1")
	got := kit.Run(none)
	if got.Outcome != "failed" || got.Reason != "phase b: no room" || got.Effects != "none" {
		t.Errorf("got %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
	if len(got.Logs) != 1 || got.Logs[0].Attrs["phase"] != "b" || !reflect.DeepEqual(got.Phases, []string{"a", "b", "b: half"}) {
		t.Errorf("logs %+v, phases %q", got.Logs, got.Phases)
	}
}

func TestAPhaseThatIsNotKnownSaysSo(t *testing.T) {
	kit := plugintest.New(t, staged(does("a", nil), does("b", nil)))
	kit.Host("r1")
	got := kit.Run(none, plugintest.Resume(&plugintest.State{Version: 1, JSON: []byte(`{"phase":"arm"}`)}))
	if got.Outcome != "failed" || !strings.Contains(got.Reason, `phase "arm"`) || !strings.Contains(got.Reason, "a, b") || got.Outputs != nil {
		t.Errorf("got %s (%s), %v", got.Outcome, got.Reason, got.Outputs)
	}
}

func TestTheWindowHoldsBetweenPhasesUnlessTheyMustGoOn(t *testing.T) {
	goOn := func(_ context.Context, r *stagedRun) error { r.GoOn(); return nil }
	kit := plugintest.New(t, staged(does("stage", nil), does("arm", goOn), does("apply", goOn), does("confirm", nil), does("tidy", nil)))
	kit.Host("r1")
	got := kit.Run(none, plugintest.Shut())
	if !got.Held || saved(t, got.State).Phase != "arm" {
		t.Fatalf("got %+v, want it held before arm", got)
	}
	got = kit.Run(none, plugintest.Resume(got.State), plugintest.Shut())
	if !got.Held || saved(t, got.State).Phase != "tidy" {
		t.Fatalf("got %+v, want it held before tidy, not while armed", got)
	}
	if got = kit.Run(none, plugintest.Resume(got.State), plugintest.Shut()); got.Outputs["did"] != "stage arm apply confirm tidy" {
		t.Errorf("got %s (%s), %v", got.Outcome, got.Reason, got.Outputs)
	}
}

func TestWrongPhasesPanic(t *testing.T) {
	other := ""
	for name, call := range map[string]func(context.Context, *stagedRun) error{
		"none":    func(ctx context.Context, r *stagedRun) error { return r.Phases(ctx, &r.State.Phase) },
		"no name": func(ctx context.Context, r *stagedRun) error { return r.Phases(ctx, &r.State.Phase, does("", nil)) },
		"no func": func(ctx context.Context, r *stagedRun) error { return r.Phases(ctx, &r.State.Phase, stage{Name: "a"}) },
		"done":    func(ctx context.Context, r *stagedRun) error { return r.Phases(ctx, &r.State.Phase, does("done", nil)) },
		"twice": func(ctx context.Context, r *stagedRun) error {
			return r.Phases(ctx, &r.State.Phase, does("a", nil), does("a", nil))
		},
		"elsewhere":  func(ctx context.Context, r *stagedRun) error { return r.Phases(ctx, &other, does("a", nil)) },
		"no pointer": func(ctx context.Context, r *stagedRun) error { return r.Phases(ctx, nil, does("a", nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			kit := plugintest.New(t, sdk.Job("test.wrong", call))
			kit.Host("r1")
			if got := kit.Run(none); got.Outcome != "failed" || !strings.Contains(got.Reason, "panicked: sdk: ") {
				t.Errorf("got %s (%s)", got.Outcome, got.Reason)
			}
		})
	}
}

func TestACancelledJobBeginsNoFurtherPhase(t *testing.T) {
	started := make(chan struct{})
	kit := plugintest.New(t, staged(does("a", func(ctx context.Context, _ *stagedRun) error {
		close(started)
		<-ctx.Done()
		return nil // it did what it had to
	}), does("b", func(context.Context, *stagedRun) error { return errors.New("began") })))
	kit.Host("r1")
	running := kit.Start(none)
	<-started
	running.Cancel()
	got := running.Wait()
	if got.Outcome != "cancelled" || got.Reason != "before phase b: cancelled" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
	if len(got.Checkpoints) != 1 || saved(t, &got.Checkpoints[0].State).Phase != "b" {
		t.Errorf("checkpoints %+v: a is repeated, although it was done", got.Checkpoints)
	}
}

// Evidence is kept however the step ends by the job type's word.
func TestEvidenceIsKept(t *testing.T) {
	for outcome, end := range map[string]error{
		"unchanged": nil, "failed": errors.New("no"), "rolled_back": sdk.Fail("no").RolledBack(), "lost": sdk.Fail("no").Lost(),
	} {
		kit := plugintest.New(t, job(func(_ context.Context, r *plain) error {
			r.Evidence("before", "abc")
			r.Evidence("probe", map[string]int{"ms": 12})
			r.Output("other", 1)
			return end
		}))
		kit.Host("r1")
		got := kit.Run(none)
		want := map[string]any{"other": 1.0, "evidence": map[string]any{"before": "abc", "probe": map[string]any{"ms": 12.0}}}
		if got.Outcome != outcome || !reflect.DeepEqual(got.Outputs, want) {
			t.Errorf("%s: got %s (%s), %v", outcome, got.Outcome, got.Reason, got.Outputs)
		}
	}
	kit := plugintest.New(t, job(func(_ context.Context, r *plain) error { r.Evidence("f", func() {}); return nil }))
	kit.Host("r1")
	if got := kit.Run(none); got.Outcome != "failed" || !strings.Contains(got.Reason, `evidence "f"`) {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
}
