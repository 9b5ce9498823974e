package runview

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

func TestLogsShowEvidence(t *testing.T) {
	var out strings.Builder
	writeJobLogs(&out, api.Job{Host: "fw-1", Outcome: core.RolledBack, Steps: []api.StepResult{{
		Name: "push", Outcome: core.RolledBack, Reason: "no fresh connection works", Stdout: "said\n",
		Outputs: map[string]any{"other": 1, "evidence": map[string]any{"probe": map[string]any{"ms": 12}, "before": "a\nb\n"}},
	}}}, &keptApart{})
	want := "fw-1 push | said\nfw-1 push | evidence before: a b\nfw-1 push | evidence probe: {\"ms\":12}\nfw-1 push | rolled_back: no fresh connection works\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// turnus logs reports it where no host showed anything: an empty answer looks like a fault.
func TestLogsReportWhetherAnythingWasShown(t *testing.T) {
	var out strings.Builder
	quiet := api.Job{Host: "fw-1", Outcome: core.Unchanged, Steps: []api.StepResult{{Name: "config", Outcome: core.Unchanged}}}
	if writeJobLogs(&out, quiet, &keptApart{}) || out.Len() > 0 {
		t.Errorf("shown of a host without output: %q", out.String())
	}
	quiet.Steps[0].Outcome, quiet.Steps[0].Reason = core.Changed, "would run: x"
	if !writeJobLogs(&out, quiet, &keptApart{}) || out.String() != "fw-1 config | changed: would run: x\n" {
		t.Errorf("of a step that would change its host: %q", out.String())
	}
	quiet.Steps[0].Stdout = "done\n"
	if !writeJobLogs(&out, quiet, &keptApart{}) {
		t.Error("output was shown, and not reported")
	}
}
