//go:build linux && labs

package telemetry

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// The rules parse, and each has a test in which it triggers, after its time and not before. A rule
// whose bound is moved fails it.
func TestLabRulesPassTheirTests(t *testing.T) {
	t.Parallel()
	promtool := testparts.Need(t, "promtool", "prometheus")
	tests, err := os.ReadFile(monitoring + "turnus.rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		asked := regexp.MustCompile(`alertname="`+r.Alert+`".*exp_samples: (.*)\}`).FindAllStringSubmatch(string(tests), -1)
		triggers := 0
		for _, a := range asked {
			if a[1] != "[]" {
				triggers++
			}
		}
		if triggers != 1 || len(asked) < 2 {
			t.Errorf("%s has %d tests, in %d of which it triggers", r.Alert, len(asked), triggers)
		}
	}
	text, err := os.ReadFile(monitoring + "turnus.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	run := func(rules string) (string, error) {
		dir := t.TempDir()
		for name, data := range map[string]string{"turnus.rules.yml": rules, "turnus.rules_test.yml": string(tests)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), promtool, "test", "rules", "turnus.rules_test.yml")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(string(text)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, moved := range [][2]string{{"> 3600", ">= 3600"}, {"for: 10m", "for: 9m"}} {
		if _, err := run(strings.Replace(string(text), moved[0], moved[1], 1)); err == nil {
			t.Errorf("negative control: %s instead of %s is not noticed", moved[1], moved[0])
		}
	}
}
