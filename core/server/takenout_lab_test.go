//go:build linux && labs

package server

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// Guards that tests of faults attack, each with what the compiler gets in its place. That a retry
// leaves hosts of other tenants out is not here: the targets of the playbook also do so.
var takenOut = []struct{ path, guard, without string }{
	{"core/server/retry.go", "l.Run.Tenant != run.Tenant {", "l.Run.Tenant != run.Tenant && false {"},
	{"core/server/stream.go", "if !by.scope.All() {", "if !by.scope.All() && false {"},
	{"core/catalog/prepare.go", "len(text) > core.QuotaVars.Max", "len(text) > core.QuotaVars.Max && false"},
	{"core/ledger/schedulechange.go", "n >= s.Over.Max {", "n >= s.Over.Max && false {"},
	{"core/ledger/accept.go", "if n > q.Max {", "if n > q.Max && false {"},
}

// Negative control of the tests of S4, S7 and S8: each attack succeeds if its guard is taken out.
func TestLabAttacksSucceedWithoutTheirGuards(t *testing.T) {
	t.Parallel()
	attacks := withoutGuards(t)
	for _, c := range []struct {
		test  string
		shows []string // what the attack got
	}{
		{"TestFaultS4RetryKeepsToTheProjectAsItIsNow", []string{"/of_another_tenant,_by_provider", `201 {`, `"tenant":"globex"`}},
		{"TestFaultS7StreamsOfOneTenantLeaveTheOthersTheirs", []string{"acme has 2000 streams"}},
		{"TestFaultS8ATenantHoldsNoMoreThanItsQuotas", []string{`201 {`, `"phase":"queued"`, `"name":"more"`, `"kind":"test"`}},
	} {
		t.Run(c.test, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), attacks, "-test.run", "^"+c.test+"$").CombinedOutput()
			if err == nil {
				t.Fatalf("it passes without its guard:\n%s", out)
			}
			for _, words := range c.shows {
				if !strings.Contains(string(out), words) {
					t.Errorf("without its guard it does not report %q:\n%s", words, out)
				}
			}
		})
	}
}

// withoutGuards compiles the tests of this package with the guards taken out.
func withoutGuards(t *testing.T) (program string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	must(t, err)
	dir, replace := t.TempDir(), map[string]string{}
	for i, g := range takenOut {
		path := filepath.Join(root, g.path)
		from := path
		if replace[path] != "" {
			from = replace[path]
		}
		text, err := os.ReadFile(from)
		must(t, err)
		if n := strings.Count(string(text), g.guard); n != 1 {
			t.Fatalf("%s has %q %d times, expected once", g.path, g.guard, n)
		}
		replace[path] = filepath.Join(dir, strconv.Itoa(i)+".go")
		must(t, os.WriteFile(replace[path], []byte(strings.Replace(string(text), g.guard, g.without, 1)), 0o600))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	program = filepath.Join(dir, "attacks")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, ".")
	build.Env = testparts.Shipped()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile the attacks without guards: %v\n%s", err, out)
	}
	return program
}
