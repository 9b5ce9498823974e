package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/secrets"
)

func writeText(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// A value that can be encrypted can be given to a step.
func TestTheShortestSecretIsOneForAll(t *testing.T) {
	if secrets.MinValue != redact.MinValue || secrets.MaxValue != redact.MaxValue {
		t.Errorf("a value has %d to %d bytes, and %d to %d can be kept out of text", secrets.MinValue, secrets.MaxValue, redact.MinValue, redact.MaxValue)
	}
}

// turnusProcess is this test's binary as turnus.
func turnusProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "turnus") // testscript.Main finds commands by it
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), name, args...)
}

// The edited text is gone when a signal comes, and the file of secrets is as it was.
func TestEditLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	identity, file, mark := filepath.Join(dir, "id.age"), filepath.Join(dir, "secrets.yaml"), filepath.Join(dir, "mark")
	out, _ := turnus(t, console.ExitOK, "secrets", "keygen", identity)
	encrypt := turnusProcess(t, "secrets", "encrypt", "snmp", "--file", file, "--recipient", strings.TrimSpace(out))
	encrypt.Stdin = strings.NewReader("hunter2")
	if text, err := encrypt.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	editor := writeText(t, "editor", "#!/bin/sh\ncat \"$1\" >"+dir+"/seen\nstat -c %a \"$1\" \"$(dirname \"$1\")\" >"+dir+"/modes\ncp \"$1\" \"$1~\"\necho hunter3 >\"$1\"\necho \"$1\" >"+mark+".new\nmv "+mark+".new "+mark+"\nexec sleep 1000\n", 0o700)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		cmd := turnusProcess(t, "secrets", "edit", "snmp", "--file", file, "--secrets-identity", identity)
		cmd.Env = append(os.Environ(), "VISUAL=", "EDITOR="+editor)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal has it: Ctrl-C also goes to the editor
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		path := waitFile(t, mark)
		target := cmd.Process.Pid
		if signal == syscall.SIGINT {
			target = -target
		}
		if err := syscall.Kill(target, signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != console.ExitCancelled {
			t.Errorf("%v: got %v: %s", signal, err, said.String())
		}
		if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
			t.Errorf("%v: %s is still there: %v", signal, filepath.Dir(path), err)
		}
		if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
			t.Errorf("%v: the file has changed: %v", signal, err)
		}
		if modes := waitFile(t, filepath.Join(dir, "modes")); modes != "600\n700" {
			t.Errorf("modes %q", modes)
		}
		if seen := waitFile(t, filepath.Join(dir, "seen")); seen != "hunter2" {
			t.Errorf("the editor got %q", seen)
		}
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
	}
}

func waitFile(t *testing.T, path string) string {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		if text, err := os.ReadFile(path); err == nil {
			return strings.TrimSpace(string(text))
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s does not come", path)
		}
	}
}
