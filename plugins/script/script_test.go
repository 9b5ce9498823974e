package script_test

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/script"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestScript(t *testing.T) {
	odd := []string{"a b", "it's", "", "-n", "new\nline", "$HOME", "*"}
	printArgs := "#!/bin/sh\nfor a; do printf '<%s>' \"$a\"; done\n"
	for name, tc := range map[string]struct {
		with            sdk.With
		outcome, stdout string
		code            any
	}{
		"content by its #! line": {sdk.With{"content": printArgs, "args": odd}, "changed", "<a b><it's><><-n><new\nline><$HOME><*>", 0.0},
		"without a #! line":      {sdk.With{"content": "echo plain"}, "changed", "plain", 0.0},
		"two interpreters":       {sdk.With{"content": "true", "interpreter": "sh\nid"}, "failed", "", nil},
		"an interpreter":         {sdk.With{"content": "echo $0 | sed 's/-[A-Z0-9]*$//'", "interpreter": "/bin/sh -e"}, "changed", "TMP/turnus", 0.0},
		"a file of the worker":   {sdk.With{"source": "setup.sh", "args": []string{"x"}}, "changed", "<x>", 0.0},
		"its exit code":          {sdk.With{"content": "exit 7"}, "failed", "", 7.0},
		"a code that is good":    {sdk.With{"content": "exit 7", "ok_codes": []int{7}}, "changed", "", 7.0},
		"exit does not skip rm":  {sdk.With{"content": "exec sh -c 'exit 2'"}, "failed", "", 2.0},
		"only looks":             {sdk.With{"content": "true", "changed": false}, "unchanged", "", 0.0},
		"mode is private":        {sdk.With{"content": "ls -l $0 | cut -c1-10"}, "changed", "-rwx------", 0.0},
		"a missing source":       {sdk.With{"source": "none.sh"}, "failed", "", nil},
		"neither":                {sdk.With{}, "failed", "", nil},
		"both":                   {sdk.With{"source": "a", "content": "b"}, "failed", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			tc.with["tmp"] = tmp
			kit := plugintest.New(t, script.Def())
			kit.Artifact("setup.sh", printArgs).Host("r1").Local()
			got := kit.Run(tc.with)
			if got.Outcome != tc.outcome || got.Outputs["exit_code"] != tc.code {
				t.Errorf("got %s (%s), code %v; want %s, %v", got.Outcome, got.Reason, got.Outputs["exit_code"], tc.outcome, tc.code)
			}
			stdout, _ := got.Outputs["stdout"].(string)
			if want := strings.ReplaceAll(tc.stdout, "TMP", tmp); stdout != want {
				t.Errorf("stdout %q, want %q", stdout, want)
			}
			if left, _ := os.ReadDir(tmp); len(left) > 0 {
				t.Errorf("left on the host: %v", left)
			}
		})
	}
}

func TestScriptIsRemovedWhenTheConnectionBreaks(t *testing.T) {
	kit := plugintest.New(t, script.Def())
	h := kit.Host("r1").
		On("rm -f *", plugintest.Reply{}).
		On("*", plugintest.Reply{Err: plugintest.Unreachable("r1", false)})
	got := kit.Run(sdk.With{"content": "true"})
	if got.Outcome != "unreachable" || got.Effects != "unknown" {
		t.Errorf("got %s, effects %s", got.Outcome, got.Effects)
	}
	calls := h.Calls()
	if last := calls[len(calls)-1].Command; !strings.HasPrefix(last, "rm -f /tmp/turnus-") {
		t.Errorf("the last command is %q, want the removal", last)
	}
}

func TestCheckModeUploadsNothing(t *testing.T) {
	kit := plugintest.New(t, script.Def())
	if got := kit.Check(sdk.With{"content": "true"}); got.Outcome != "changed" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
	if calls := kit.Host("r1").Calls(); len(calls) > 0 {
		t.Errorf("check mode sent %v", calls)
	}
}

// A secret that has the name of a variable is refused after the upload: the script does not stay.
func TestScriptIsRemovedWhenASecretIsRefused(t *testing.T) {
	tmp := t.TempDir()
	kit := plugintest.New(t, script.Def()).Secret("TOKEN", "hunter2")
	kit.Host("r1").Local()
	got := kit.Run(sdk.With{"content": "true", "tmp": tmp, "env": sdk.With{"TOKEN": "x"}})
	if left, _ := os.ReadDir(tmp); got.Outcome != "failed" || len(left) > 0 {
		t.Errorf("%s (%s), left on the host: %v", got.Outcome, got.Reason, left)
	}
}
