package command_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/command"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSecretsAreVariables(t *testing.T) {
	kit := plugintest.New(t, command.Def()).Secret("TOKEN", "hunter2")
	host := kit.Host("r1").Local()
	r := kit.Run(sdk.With{"run": `printf %s "$TOKEN" | wc -c; cat`, "stdin": "its own"})
	if r.Outcome != "changed" || strings.Fields(r.Stdout)[0] != "7" || !strings.HasSuffix(r.Stdout, "its own") {
		t.Errorf("%+v", r)
	}
	if c := host.Calls()[0]; c.Secrets["TOKEN"] != "hunter2" || c.Env["TOKEN"] != "" || strings.Contains(c.Command+c.Stdin, "hunter2") {
		t.Errorf("%+v", c)
	}
	if r := kit.Run(sdk.With{"run": "true", "env": sdk.With{"TOKEN": "x"}}); r.Outcome != "failed" || r.Effects != "none" || !strings.Contains(r.Reason, "TOKEN is in env and among the step's secrets") {
		t.Errorf("%+v", r)
	}
}

func TestCommand(t *testing.T) {
	for name, tc := range map[string]struct {
		with            sdk.With
		outcome, reason string
		outputs         map[string]any
	}{
		"runs": {
			with: sdk.With{"run": "echo out; echo err >&2"}, outcome: "changed",
			outputs: map[string]any{"stdout": "out", "stderr": "err", "exit_code": 0.0},
		},
		"only looks": {
			with: sdk.With{"run": "echo out", "changed": false}, outcome: "unchanged",
			outputs: map[string]any{"stdout": "out", "stderr": "", "exit_code": 0.0},
		},
		"fails": {
			with: sdk.With{"run": "echo a >&2; echo why >&2; exit 3"}, outcome: "failed", reason: "exit status 3: why",
			outputs: map[string]any{"stdout": "", "stderr": "a\nwhy", "exit_code": 3.0},
		},
		"a code that is no failure": {
			with: sdk.With{"run": "exit 3", "ok_codes": []int{0, 3}}, outcome: "changed",
			outputs: map[string]any{"stdout": "", "stderr": "", "exit_code": 3.0},
		},
		"zero may be a failure": {
			with: sdk.With{"run": "true", "ok_codes": []int{1}}, outcome: "failed", reason: "exit status 0",
			outputs: map[string]any{"stdout": "", "stderr": "", "exit_code": 0.0},
		},
		"input and environment": {
			with: sdk.With{"run": `cat; echo "$A"`, "stdin": "in\n", "env": sdk.With{"A": "b 'c'"}}, outcome: "changed",
			outputs: map[string]any{"stdout": "in\nb 'c'", "stderr": "", "exit_code": 0.0},
		},
		"knows its repetition": {
			with: sdk.With{"run": `echo "$TURNUS_IDEMPOTENCY_KEY $TURNUS_FENCE"`}, outcome: "changed",
			outputs: map[string]any{"stdout": "key-1 1", "stderr": "", "exit_code": 0.0},
		},
		"a folder that is missing": {
			with: sdk.With{"run": "touch /never", "chdir": "/does/not/exist"}, outcome: "failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit := plugintest.New(t, command.Def())
			kit.Host("r1").Local()
			got := kit.Run(tc.with)
			if got.Outcome != tc.outcome || (tc.reason != "" && got.Reason != tc.reason) {
				t.Errorf("got %s (%s), want %s (%s)", got.Outcome, got.Reason, tc.outcome, tc.reason)
			}
			if tc.outputs != nil && !reflect.DeepEqual(got.Outputs, tc.outputs) {
				t.Errorf("outputs %v, want %v", got.Outputs, tc.outputs)
			}
		})
	}
}

func TestOutputStreamsWholeAndIsKeptInBounds(t *testing.T) {
	kit := plugintest.New(t, command.Def())
	kit.Host("r1").On("flood", plugintest.Reply{Stdout: strings.Repeat("x\n", 1<<19), Stderr: "\xff binary \x00", Code: 1})
	got := kit.Run(sdk.With{"run": "flood"})
	if len(got.Stdout) != 1<<20 {
		t.Errorf("the operator saw %d bytes, want all", len(got.Stdout))
	}
	if n := len(got.Outputs["stdout"].(string)); n < 9<<10 || n > 15<<10 {
		t.Errorf("kept %d bytes, want what takes 15 KiB as JSON", n)
	}
	if got.Outputs["stderr"] != "\uFFFD binary \x00" {
		t.Errorf("stderr %q", got.Outputs["stderr"])
	}
}

func TestGuards(t *testing.T) {
	for _, name := range []string{"plain", "with space", "it's", `"quoted"`, "-rf", "$(touch x)", "*", "ümlaut"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, name)
			kit := plugintest.New(t, command.Def())
			kit.Host("r1").Local()
			create := sdk.With{"run": "touch " + sdk.Quote(path), "creates": path}
			remove := sdk.With{"run": "rm " + sdk.Quote(path), "removes": path}
			for i, step := range []struct {
				with    sdk.With
				outcome string
				there   bool
			}{
				{remove, "skipped", false},
				{create, "changed", true},
				{create, "skipped", true},
				{remove, "changed", false},
			} {
				if got := kit.Run(step.with); got.Outcome != step.outcome {
					t.Errorf("step %d: got %s (%s), want %s", i, got.Outcome, got.Reason, step.outcome)
				}
				if _, err := os.Lstat(path); (err == nil) != step.there {
					t.Errorf("step %d: there %v, want %v", i, err == nil, step.there)
				}
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestCheckModeRunsNothing(t *testing.T) {
	kit := plugintest.New(t, command.Def())
	kit.Host("r1").On("*", plugintest.Reply{Stdout: "n\nn\n"})
	got := kit.Check(sdk.With{"run": "rm -rf /srv", "creates": "/done"})
	if got.Outcome != "changed" || got.Reason != "would run: rm -rf /srv" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
	for _, c := range kit.Host("r1").Calls() {
		if !c.ReadOnly || strings.Contains(c.Command, "rm -rf") {
			t.Errorf("check mode sent %+v", c)
		}
	}
}

func TestParametersAreChecked(t *testing.T) {
	kit := plugintest.New(t, command.Def())
	for name, tc := range map[string]struct {
		with sdk.With
		want string
	}{
		"nothing":    {sdk.With{}, `: parameter "run" is required`},
		"empty":      {sdk.With{"run": ""}, "/run: must not be empty"},
		"misspelt":   {sdk.With{"rum": "x"}, `/rum: unknown parameter "rum"; did you mean "run"?`},
		"relative":   {sdk.With{"run": "x", "creates": "a"}, `/creates: "a" does not match ^/`},
		"bad name":   {sdk.With{"run": "x", "env": sdk.With{"A B": "1"}}, `/env/A B: "A B" is no name of an environment variable: expected letters, digits and _`},
		"wrong kind": {sdk.With{"run": []int{1}}, "/run: expected text, found a list"},
		"NUL":        {sdk.With{"run": "a\x00b"}, "/run: expected text without a NUL byte"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kit.Validate(tc.with); len(got) == 0 || got[0] != tc.want {
				t.Errorf("got %q, want first %q", got, tc.want)
			}
			if got := kit.Run(tc.with); got.Outcome != "failed" || got.Effects != "none" || len(got.Diagnostics) == 0 {
				t.Errorf("run: got %s, effects %s, diagnostics %q", got.Outcome, got.Effects, got.Diagnostics)
			}
		})
	}
}

func TestCancelledCommandIsCancelled(t *testing.T) {
	started := make(chan struct{})
	kit := plugintest.New(t, command.Def())
	kit.Host("r1").OnFunc("*", func(ctx context.Context, _ plugintest.Call) plugintest.Reply {
		close(started)
		<-ctx.Done()
		return plugintest.Reply{Err: ctx.Err()}
	})
	running := kit.Start(sdk.With{"run": "sleep 1000"})
	<-started
	running.Cancel()
	if got := running.Wait(); got.Outcome != "cancelled" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
}

// The hop through the plugin, both ways over gRPC: the fan-out to 3000 hosts depends on it.
func BenchmarkHop(b *testing.B) {
	kit := plugintest.New(b, command.Def())
	kit.Host("r1").On("*", plugintest.Reply{Stdout: "ok\n"})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			kit.Run(sdk.With{"run": "uptime"})
		}
	})
}
