package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
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

// command runs one in a folder.
func command(t *testing.T, dir string, env []string, program string, args ...string) {
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
	report := tested(t, console.ExitOK, what, more...)
	if len(report.Results) != len(conformance.Cases()) {
		t.Errorf("%s: %d results of %d cases", what, len(report.Results), len(conformance.Cases()))
	}
	for _, r := range report.Results {
		if r.Status == conformance.NotApplicable {
			if r.Note == "" {
				t.Errorf("%s: %s does not apply, and has no reason", what, r.Case)
			}
			left = append(left, r.Case)
		}
	}
	return left
}

func tested(t *testing.T, code int, what string, more ...string) (report conformance.Report) {
	t.Helper()
	out, _ := turnus(t, code, append([]string{"plugins", "test", what, "-o", "json"}, more...)...)
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// usable installs the plugin, locks it and loads its example playbook.
func usable(t *testing.T, src, example string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plugins")
	turnus(t, console.ExitOK, "plugins", "install", src, "--plugins", dir)
	turnus(t, console.ExitOK, "plugins", "lock", "--plugins", dir)
	turnus(t, console.ExitOK, "plugins", "lock", "--plugins", dir, "--check")
	if out, _ := turnus(t, console.ExitOK, "plugins", "ls", "--plugins", dir); !strings.Contains(out, "motd.ensure") {
		t.Errorf("plugins ls: %s", out)
	}
	turnus(t, console.ExitOK, "validate", example, "--plugins", dir)
	docs := filepath.Join(t.TempDir(), "docs.md")
	text, _ := turnus(t, console.ExitOK, "plugins", "docs", "--program", filepath.Join(dir, "motd", "0.1.0"))
	if err := os.WriteFile(docs, []byte("# Job types\n\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	turnus(t, console.ExitOK, "plugins", "docs", "--program", filepath.Join(dir, "motd", "0.1.0"), "--check", docs)
	if err := os.WriteFile(docs, []byte(strings.Replace(text, "absolute path", "path", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := turnus(t, console.ExitChanges, "plugins", "docs", "--program", filepath.Join(dir, "motd", "0.1.0"), "--check", docs); !strings.Contains(errs, "from line") {
		t.Errorf("docs that are behind: %s", errs)
	}
}

// Limits of a plugin in Go that is built with the sdk alone: its modules, and its bytes when
// stripped.
const (
	maxPluginModules = 30
	maxPluginSize    = 10_000_000
)

// A stranger's plugin is made outside of the checkout, inherits what the sdk uses and not what the
// runner uses, and stays small.
func TestFaultP9AStrangersPluginIsSmall(t *testing.T) {
	t.Parallel()
	golang := testparts.Need(t, "go", "golang")
	dir := filepath.Join(t.TempDir(), "motd")
	turnus(t, console.ExitOK, "plugins", "init", "motd", "--lang", "go", "--dir", dir, "--sdk", repo)
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte(page(t, "plugins/sdk/go.sum")), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(testparts.Shipped("-mod=mod"), "GOWORK=off")
	command(t, dir, env, golang, "build", "-ldflags", "-s -w", "-o", "plugin", ".")
	info, err := os.Stat(filepath.Join(dir, "plugin"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxPluginSize {
		t.Errorf("the stripped plugin has %d bytes, expected at most %d", info.Size(), maxPluginSize)
	}
	list := exec.CommandContext(t.Context(), golang, "list", "-m", "all")
	list.Dir, list.Env = dir, append(os.Environ(), env...)
	modules, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(modules), "\n"); n > maxPluginModules || n < 3 {
		t.Errorf("the plugin's graph has %d modules, expected at most %d:\n%s", n, maxPluginModules, modules)
	}
	t.Logf("%d bytes, %d modules", info.Size(), strings.Count(string(modules), "\n"))
	turnus(t, console.ExitOK, "plugins", "test", filepath.Join(dir, "plugin"), "--case", "handshake", "--case", "examples")
}

func TestAProgramThatIsNoPluginFails(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, _ := turnus(t, console.ExitFailed, "plugins", "test", program)
	for _, want := range []string{"FAIL  handshake", "ended before the handshake", "FAIL  stdout-before", `"hello"`, "what to do:", "2 failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, args := range [][]string{{"nowhere"}, {filepath.Dir(program)}, {program, "--case", "nonsense"}, {program, "--patience", "-1s"}, {program, "--lab", "nowhere.yaml"}} {
		turnus(t, console.ExitInvalid, append([]string{"plugins", "test"}, args...)...)
	}
}
