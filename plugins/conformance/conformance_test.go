package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "specimen" {
		specimenMain(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

func try(t *testing.T, kind string, lab Lab, only ...string) Report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	box, err := sandbox.New(sandbox.Config{Mode: sandbox.Auto})
	if err != nil {
		t.Fatal(err)
	}
	patience := time.Minute // a busy machine is no fault of the specimen's
	if kind == "hangs" {
		patience = 5 * time.Second
	}
	report, err := Run(ctx, Config{Patience: patience, Argv: []string{self, "specimen", kind}, Lab: lab, Only: only, Grace: 3 * time.Second, Sandbox: box, Read: []string{filepath.Dir(self)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// The well-made specimen keeps every promise, and nothing is left out: it is the control of all
// tests below.
func TestAWellMadePluginPasses(t *testing.T) {
	t.Parallel() // it waits most of the time
	report := try(t, "none", Lab{})
	if len(report.Results) != len(Cases()) {
		t.Errorf("%d results of %d cases", len(report.Results), len(Cases()))
	}
	for _, r := range report.Results {
		if r.Status == Failed || r.Status == NotApplicable && r.Case != "network" && r.Case != "sandbox" {
			t.Errorf("%s: %s: %s%s", r.Case, r.Status, r.Note, r.Fault)
		}
		t.Logf("%-14s %-14s %8v %s", r.Case, r.Status, r.Took.Duration().Round(time.Millisecond), r.Note)
	}
	if report.Plugin != "specimen" || report.Version != "1.0.0" {
		t.Errorf("report of %s %s", report.Plugin, report.Version)
	}
}

type faulty struct{ kind, at, names string }

func caught(t *testing.T, list []faulty) {
	t.Helper()
	for _, f := range list {
		t.Run(f.kind, func(t *testing.T) {
			t.Parallel()
			only := []string{f.at}
			switch f.at {
			case "secrets", "environment", "lease", "stdout-after", "descendants", "flood":
				only = append(only, "outcome") // the checked event must have happened
			case "alive":
				only = append(only, "outcome", "concurrent")
			}
			report := try(t, f.kind, Lab{}, only...)
			for _, r := range report.Results {
				if r.Case == f.at {
					if r.Status != Failed || !strings.Contains(r.Fault, f.names) {
						t.Errorf("%s %s: %q, expected a fault that names %q", r.Case, r.Status, r.Fault, f.names)
					}
					return
				}
			}
			t.Errorf("no result of %s: %+v", f.at, report.Results)
		})
	}
}

// faults are the specimens, the case that must catch each, and what that must name.
var faults = []faulty{
	{"noise-before", "stdout-before", "loading, please wait"},
	{"never-starts", "handshake", "no licence"},
	{"no-cookie", "handshake", "TURNUS_PLUGIN"},
	{"bad-manifest", "manifest", `on_lost "shrug"`},
	{"changing-manifest", "manifest", "two calls of Describe differ"},
	{"bad-example", "examples", `"Old" of lab.phases`},
	{"takes-anything", "params", "accepts an unknown parameter"},
	{"no-pointer", "params", `points to ""`},
	{"dies-of-unknown-type", "unknown-type", "does not survive"},
	{"two-outcomes", "outcome", "a second outcome"},
	{"check-changes", "check-mode", `tries "exec touch /tmp/x"`},
	{"ignores-deadline", "deadline", "after its deadline"},
	{"ignores-cancel", "cancel", "after CANCEL the call has not ended"},
	{"no-outcome", "cancel", "without an outcome"},
	{"ignores-drain", "drain", "a new call is taken"},
	{"mixes", "concurrent", "alone it makes"},
	{"dies-of-drop", "host-drop", "so did the process"},
	{"starts-over", "kill-resume", `repeats "exec touch /tmp/phase-0"`},
	{"forgets", "kill-resume", `"phase-0" and resumed, it ends as failed`},
	{"takes-newer-state", "migrate", "newer than its own 1"},
	{"hoards", "large-file", "MiB of memory"},
	{"secret-in-log", "secrets", "an event or outcome"},
	{"secret-in-command", "secrets", "a command line"},
	{"prints-environment", "environment", "TURNUS_HOST_SOCKET"},
	{"no-lease", "lease", "without a lease"},
	{"long-line", "stdout-after", "over 64 KiB"},
	{"prints", "stdout-after", `"hello"`},
	{"bad-log", "stderr-logs", "@message is {"},
	{"ignores-term", "stop", "had to be killed"},
	{"grandchild", "descendants", "outlives the plugin and holds"},
	{"never-succeeds", "outcome", "no example succeeds: lab.echo \"Hello\": failed (no licence for this host)"},
	{"hangs", "outcome", "neither at its deadline"},
	{"bad-utf8", "outcome", "not UTF-8"},
	{"floods", "flood", "16 MiB of logs and events in one call"},
	{"floods-stderr", "flood", "MiB to stderr"},
	{"dies-second", "alive", "exit status 2; its last words: index out of range"},
	{"dies-one-host", "alive", "nil pointer"},
}

var faultsOfEffect = []faulty{
	{"check-lies", "check-mode", "in check mode changes /tmp/x"},
	{"lies-unchanged", "unchanged", "ends as unchanged, and has changed /tmp/phase-0"},
	{"not-idempotent", "idempotent", "changes /tmp/log once more"},
	{"open-schema", "schema", "the params of lab.copy allow keys"},
	{"leaks-outputs", "isolation", "shows something of "},
	{"eats-memory", "memory", "MiB of memory that the process keeps"},
}

// The report shows how each example ended, and a plugin whose examples all fail does not pass.
func TestFaultP1ExamplesThatFailAreNotGreen(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"none": "unchanged", "never-succeeds": "failed"} {
		report := try(t, kind, Lab{}, "outcome")
		if (report.Failed() > 0) != (kind != "none") || len(report.Examples) != 4 || report.Examples[0].Outcome != want || report.Examples[0].Title != "Hello" {
			t.Errorf("%s: %+v", kind, report)
		}
	}
}

// A plugin that opens connections of its own is caught by the counters of an empty network
// namespace.
func TestOwnConnectionsAreCaught(t *testing.T) {
	report := try(t, "dials", Lab{}, "network")
	last := report.Results[len(report.Results)-1]
	if last.Status == NotApplicable {
		testparts.Able(t, "a network namespace for a plugin", errors.New(last.Note))
	}
	if last.Status != Failed || !strings.Contains(last.Fault, "the process itself tries") {
		t.Errorf("%+v", last)
	}
	if again := try(t, "dials", Lab{AllowNetwork: true}, "network"); again.Failed() > 0 {
		t.Errorf("allowed, and yet %+v", again.Results)
	}
}

// A plugin that needs more than a worker gives is caught, and passes with what it needs.
func TestWhatTheSandboxRefusesIsCaught(t *testing.T) {
	last := func(lab Lab) Result {
		t.Helper()
		all := try(t, "listens", lab, "sandbox").Results
		return all[len(all)-1]
	}
	got := last(Lab{})
	if got.Status == NotApplicable {
		testparts.Able(t, "a sandbox for a plugin", errors.New(got.Note))
	}
	if got.Status != Failed || !strings.Contains(got.Fault, "as failed, and as ") || !strings.Contains(got.Hint, "--allow-network") {
		t.Errorf("%+v", got)
	}
	if got := last(Lab{AllowNetwork: true}); got.Status != Passed {
		t.Errorf("allowed, and yet %+v", got)
	}
}

func TestLabFile(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "lab.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lab, err := ReadLab(write("answers: [{on: 'nft *', stdout: x, times: 1}, {on: 'nft *', code: 3}]\nartifacts: files\nstates: [{type: a.b, version: 1, state: {x: 1}}]\n"))
	if err != nil || len(lab.Answers) != 2 || !filepath.IsAbs(lab.Artifacts) || len(lab.States) != 1 {
		t.Errorf("%+v, %v", lab, err)
	}
	w := &world{lab: &lab, used: map[int]int{}}
	if a, b := w.answer("nft -f x"), w.answer("nft -f x"); a.Stdout != "x" || b.Code != 3 || w.answer("nf") != nil {
		t.Errorf("answers %+v, %+v", a, b)
	}
	for _, bad := range []string{"answer: []\n", "answers: [{stdout: x}]\n", "answers: x\n"} {
		if _, err := ReadLab(write(bad)); err == nil || !strings.Contains(err.Error(), "lab.yaml") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := ReadLab("/nowhere/lab.yaml"); err == nil {
		t.Error("a missing lab is read")
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"uptime", "uptime", true},
		{"uptime", "uptime ", false},
		{"cat *", "cat /x", true},
		{"*x*y", "axbxy", true},
		{"*x*y", "ay", false},
		{"a*a", "a", false},
		{"*", "", true},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

func TestWrongUseOfTheSuite(t *testing.T) {
	if _, err := Run(t.Context(), Config{Argv: []string{"plugin"}}, nil); err == nil {
		t.Error("a relative path is taken")
	}
	if _, err := Run(t.Context(), Config{Argv: []string{"/x"}, Only: []string{"nonsense"}}, nil); err == nil || !strings.Contains(err.Error(), "handshake") {
		t.Errorf("an unknown case: %v", err)
	}
}
