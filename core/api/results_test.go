package api_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Each field of a stored record reaches clients, and only its durations have another form.
func TestResultsReachClientsWhole(t *testing.T) {
	t.Parallel()
	exit := 3
	step := core.StepResult{
		Name: "n", Uses: "u", Handler: true, Outcome: core.Failed, Reason: "r", ReasonCode: "c", Attempts: 2, ExitCode: &exit, Stdout: "o", Stderr: "e",
		Diff: "d", Outputs: map[string]any{"k": "v"}, Truncated: true, Took: 1500 * time.Millisecond, Window: &core.Window{Set: "night"},
		At: "site.yaml:9", On: "lb", Kept: &core.Kept{Run: "r0"},
	}
	result := core.Result{
		Job: core.JobID{Run: "r", Index: 4}, Host: "h", Customer: "c", Outcome: core.Failed, Reason: "r", ReasonCode: "c", Step: "s", Attempt: 2, Worker: "w",
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 90 * time.Minute, Steps: []core.StepResult{step}, Handlers: &core.Handlers{Pending: []string{"p"}}, Facts: &core.Facts{}, Entered: map[string]bool{"i": true},
	}
	for _, stored := range []any{step, result} { // the test itself leaves out no field
		for v, i := reflect.ValueOf(stored), 0; i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Fatalf("%s of %T is not tested", v.Type().Field(i).Name, stored)
			}
		}
	}
	text := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	want := strings.NewReplacer(`"took_ns":1500000000`, `"took_seconds":1.5`, `"took_ns":5400000000000`, `"took_seconds":5400`).Replace(text(result))
	if got := text(api.ResultOf(result)); got != want || strings.Contains(got, "_ns") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
