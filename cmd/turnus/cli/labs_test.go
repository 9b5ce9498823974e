//go:build labs

package cli

import (
	"go/format"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/conformance"
)

// The scripts that wait long, or start many programs.
func TestLabScripts(t *testing.T) { runScripts(t, "testdata/script/labs") }

// TestLabTutorial runs every command of the tutorial in one shell, and compares the output that the
// page shows. .ci/readme does it, as for README, with the turnus of this test.
func TestLabTutorial(t *testing.T) {
	if out, err := runPage(t, filepath.Join(repo, tutorial)); err != nil {
		t.Errorf("%s: %v\n%s", tutorial, err, out)
	}
}

func runPage(t *testing.T, path string) (string, error) {
	t.Helper()
	bash := testparts.Need(t, "bash", "bash")
	binary, err := exec.LookPath("turnus") // of testscript.Main
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bash, filepath.Join(repo, ".ci", "readme"), path, "1")
	cmd.Env = append(cmd.Environ(), "TURNUS_BIN="+filepath.Dir(binary), "LC_ALL=C.UTF-8", "COLUMNS=100")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Every command of the guide runs as it stands, on the code as it stands there, from an empty
// folder.
func TestLabCommandsOfTheGuideRun(t *testing.T) {
	golang := testparts.Need(t, "go", "golang")
	testparts.Need(t, "jq", "jq")
	testparts.Able(t, "python3-grpcio and python3-protobuf of Debian", exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import grpc, google.protobuf").Run())
	checkout, err := filepath.Abs(repo)
	if err != nil {
		t.Fatal(err)
	}
	guide, work, bin := page(t, pluginGuide), t.TempDir(), t.TempDir()
	code := fenced(guide, "go")
	if out, err := format.Source([]byte(code[0])); err != nil || string(out) != code[0] {
		t.Errorf("main.go is not formatted: %v", err)
	}
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "turnus"))
	}
	if err != nil {
		t.Fatal(err)
	}
	// go mod tidy would ask the network for what the tests of others need; what is needed here is
	// known.
	commands := strings.Replace(followed(guide), "go mod tidy", "cp '"+checkout+"/plugins/sdk/go.sum' .", 1)
	for _, want := range []string{"turnus plugins test ./plugin", "cat >main.go", "cat >main_test.go", "cat >up.yaml", "turnus plugins init motd --lang python", "disk/test.sh"} {
		if !strings.Contains(commands, want) {
			t.Fatalf("the guide has lost %q", want)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", commands)
	cmd.Dir = work
	cmd.Env = append(testparts.Shipped("-mod=mod"), "PATH="+bin+":/usr/bin:/bin:"+filepath.Dir(golang), "GOWORK=off", "TURNUS_SDK="+checkout, "PYTHONDONTWRITEBYTECODE=1",
		"HOME="+work, "GOCACHE="+goEnv(t, golang, "GOCACHE"), "GOMODCACHE="+goEnv(t, golang, "GOMODCACHE"), "TURNUS_STATE="+filepath.Join(work, "state"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"uptime 1.0.0: ", "motd 0.1.0: ", "disk 0.1.0: ", "uptime.check", "web1.example.net"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in what the commands print:\n%s", want, out)
		}
	}
	editorsKnow(t, work)
}

func TestLabTheGoTemplatePassesAsItIsMade(t *testing.T) {
	t.Parallel()
	golang := testparts.Need(t, "go", "golang")
	dir := filepath.Join(t.TempDir(), "motd")
	turnus(t, console.ExitOK, "plugins", "init", "motd", "--lang", "go", "--dir", dir, "--sdk", repo)
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte(page(t, "plugins/sdk/go.sum")), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(testparts.Shipped("-mod=mod"), "GOWORK=off")
	command(t, dir, env, golang, "test", "-vet=all", ".")
	command(t, dir, env, golang, "build", "-o", "plugin", ".")
	passes(t, filepath.Join(dir, "plugin"))
	usable(t, filepath.Join(dir, "plugin"), filepath.Join(dir, "example.yaml"))
}

func TestLabThePythonTemplatePassesAsItIsMade(t *testing.T) {
	testparts.Need(t, "python3", "python3")
	t.Setenv("PATH", "/usr/bin:/bin:"+os.Getenv("PATH")) // where Debian's packages for Python are found
	err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import grpc, google.protobuf").Run()
	testparts.Able(t, "python3-grpcio and python3-protobuf of Debian", err)
	dir := filepath.Join(t.TempDir(), "motd")
	turnus(t, console.ExitOK, "plugins", "init", "motd", "--lang", "python", "--dir", dir)
	command(t, dir, []string{"PYTHONDONTWRITEBYTECODE=1"}, "/usr/bin/python3", "-m", "unittest")
	passes(t, dir, "--patience", "10s")
	usable(t, dir, filepath.Join(dir, "example.yaml"))
}

func TestLabTheScriptTemplatePassesAsItIsMade(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "jq", "jq")
	dir := filepath.Join(t.TempDir(), "motd")
	turnus(t, console.ExitOK, "plugins", "init", "motd", "--lang", "exec", "--dir", dir)
	command(t, dir, nil, filepath.Join(dir, "test.sh"))
	passes(t, dir, "--patience", "10s")
	usable(t, dir, filepath.Join(dir, "example.yaml"))
}

// A script with phases, a secret and a file: killed at each checkpoint, it continues to the same
// end.
func TestLabAScriptWithPhasesPasses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"plugin.yaml": `plugin: phases
version: 1.0.0
concurrency: 4
types:
  - type: phases.go
    run: phases.sh
    summary: Three phases
    state_version: 1
    params: {word: {required: true}}
    examples: [{title: Go, with: {word: hello}}]
`,
		"phases.sh": `#!/bin/sh
set -eu
cat >/dev/null
from=$(printf '%s' "$TURNUS_STATE" | tr -dc 0-9)
turnus-host get /etc/hostname name
for n in 1 2 3; do
  [ "$n" -gt "${from:-0}" ] || continue
  turnus-host secret password | turnus-host exec --stdin "cat >/tmp/phase-$n"
  turnus-host checkpoint "phase-$n" "{\"done\":$n}"
done
echo '{"event":"changed"}'
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	left := passes(t, dir, "--patience", "2m") // it starts turnus-host ten times a call; only what hangs takes so long
	for _, id := range left {
		if id != "check-mode" && id != "idempotent" && id != "network" && id != "sandbox" {
			t.Errorf("%s does not apply", id)
		}
	}
}

// realHosts are the built-in plugins whose examples need more than simulated hosts have: a kernel's
// firewall, a signer, a device with slots, a web server, an interpreter, git, a login that is root,
// or a project's files. Other tests show how they end.
var realHosts = []string{
	"copy", "dnssec", "firewall", "firmware", "git", "hostname", "http", "script", "unarchive",
}

// All built-in plugins pass the suite that is for plugins of anybody.
func TestLabBuiltinsPassTheSuite(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(node.BuiltinDefs())) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			patience := "3s"
			if name == "reboot" { // its examples take a second; those of the others next to nothing
				patience = "8s"
			}
			args := []string{"--patience", patience}
			if !slices.Contains(realHosts, name) {
				t.Logf("does not apply: %v", passes(t, name, args...))
				return
			}
			for _, r := range tested(t, console.ExitFailed, name, args...).Results {
				if (r.Status == conformance.Failed) != (r.Case == "outcome") || r.Case == "outcome" && !strings.Contains(r.Fault, "no example succeeds") {
					t.Errorf("%s: %s: %s%s", r.Case, r.Status, r.Fault, r.Note)
				}
			}
		})
	}
}
