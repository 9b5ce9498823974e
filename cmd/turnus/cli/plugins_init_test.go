package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/conformance"
)

// turnus runs a command line in this process, and wants an exit code.
func turnus(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(args, strings.NewReader(""), &out, &errs); code != want {
		t.Fatalf("turnus %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// shell runs a command in a folder.
func shell(t *testing.T, dir string, env []string, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

// passes holds a plugin to the suite, and names what does not apply to it.
func passes(t *testing.T, what string, more ...string) (left []string) {
	t.Helper()
	out, _ := turnus(t, exitOK, append([]string{"plugins", "test", what, "-o", "json"}, more...)...)
	var report conformance.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Results) != len(conformance.Cases()) {
		t.Errorf("%s: %d results of %d cases", what, len(report.Results), len(conformance.Cases()))
	}
	for _, r := range report.Results {
		if r.Status == conformance.NotApplicable {
			if r.Note == "" {
				t.Errorf("%s: %s does not apply without a reason", what, r.Case)
			}
			left = append(left, r.Case)
		}
	}
	return left
}

// usable installs the plugin, locks it and loads its example playbook.
func usable(t *testing.T, src, example string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plugins")
	turnus(t, exitOK, "plugins", "install", src, "--plugins", dir)
	turnus(t, exitOK, "plugins", "lock", "--plugins", dir)
	turnus(t, exitOK, "plugins", "lock", "--plugins", dir, "--check")
	if out, _ := turnus(t, exitOK, "plugins", "ls", "--plugins", dir); !strings.Contains(out, "motd.ensure") {
		t.Errorf("plugins ls: %s", out)
	}
	turnus(t, exitOK, "validate", example, "--plugins", dir)
	docs := filepath.Join(t.TempDir(), "docs.md")
	text, _ := turnus(t, exitOK, "plugins", "docs", "--program", filepath.Join(dir, "motd", "0.1.0"))
	if err := os.WriteFile(docs, []byte("# Job types\n\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	turnus(t, exitOK, "plugins", "docs", "--program", filepath.Join(dir, "motd", "0.1.0"), "--check", docs)
	if err := os.WriteFile(docs, []byte(strings.Replace(text, "absolute path", "path", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := turnus(t, exitChanges, "plugins", "docs", "--program", filepath.Join(dir, "motd", "0.1.0"), "--check", docs); !strings.Contains(errs, "from line") {
		t.Errorf("docs that are behind: %s", errs)
	}
}

func TestTheGoTemplatePassesAsItIsMade(t *testing.T) {
	t.Parallel()
	golang := testparts.Need(t, "go", "golang")
	dir := filepath.Join(t.TempDir(), "motd")
	turnus(t, exitOK, "plugins", "init", "motd", "--lang", "go", "--dir", dir, "--replace", repo)
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte(page(t, "go.sum")), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(testparts.Shipped("-mod=mod"), "GOWORK=off")
	shell(t, dir, env, golang, "test", "-vet=all", ".")
	shell(t, dir, env, golang, "build", "-o", "plugin", ".")
	passes(t, filepath.Join(dir, "plugin"))
	usable(t, filepath.Join(dir, "plugin"), filepath.Join(dir, "example.yaml"))
}

func TestThePythonTemplatePassesAsItIsMade(t *testing.T) {
	testparts.Need(t, "python3", "python3")
	t.Setenv("PATH", "/usr/bin:/bin:"+os.Getenv("PATH")) // where Debian's packages for Python are found
	err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import grpc, google.protobuf").Run()
	testparts.Able(t, "python3-grpcio and python3-protobuf of Debian", err)
	dir := filepath.Join(t.TempDir(), "motd")
	turnus(t, exitOK, "plugins", "init", "motd", "--lang", "python", "--dir", dir)
	shell(t, dir, []string{"PYTHONDONTWRITEBYTECODE=1"}, "/usr/bin/python3", "-m", "unittest")
	passes(t, dir, "--patience", "10s")
	usable(t, dir, filepath.Join(dir, "example.yaml"))
}

func TestTheScriptTemplatePassesAsItIsMade(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "jq", "jq")
	dir := filepath.Join(t.TempDir(), "motd")
	turnus(t, exitOK, "plugins", "init", "motd", "--lang", "exec", "--dir", dir)
	shell(t, dir, nil, filepath.Join(dir, "test.sh"))
	passes(t, dir, "--patience", "10s")
	usable(t, dir, filepath.Join(dir, "example.yaml"))
}

// A script with phases, a secret and a file: killed at each checkpoint, it goes on to the same end.
func TestAScriptWithPhasesPasses(t *testing.T) {
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
	left := passes(t, dir, "--patience", "20s") // it starts turnus-host ten times a call
	for _, id := range left {
		if id != "check-mode" && id != "network" && id != "sandbox" {
			t.Errorf("%s does not apply", id)
		}
	}
}

// All built-in plugins are held to what anybody's are.
func TestBuiltinsPassTheSuite(t *testing.T) {
	t.Parallel()
	for _, name := range sortedKeys(builtinDefs()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			patience := "3s"
			if name == "reboot" { // its examples take a second; those of the others next to nothing
				patience = "8s"
			}
			t.Logf("does not apply: %v", passes(t, name, "--patience", patience))
		})
	}
}

func TestAProgramThatIsNoPluginFails(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, _ := turnus(t, exitFailed, "plugins", "test", program)
	for _, want := range []string{"FAIL  handshake", "ended before the handshake", "FAIL  stdout-before", `"hello"`, "what to do:", "2 failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, args := range [][]string{{"nowhere"}, {filepath.Dir(program)}, {program, "--case", "nonsense"}, {program, "--patience", "-1s"}, {program, "--lab", "nowhere.yaml"}} {
		turnus(t, exitInvalid, append([]string{"plugins", "test"}, args...)...)
	}
}
