package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

const examples = repo + "/examples"

// exampleFolders are the folders of examples/, each with a README.
func exampleFolders(t *testing.T) []string {
	t.Helper()
	readmes, err := filepath.Glob(examples + "/*/README.md")
	if err != nil || len(readmes) < 8 {
		t.Fatalf("%d examples, %v", len(readmes), err)
	}
	names := make([]string, len(readmes))
	for i, r := range readmes {
		names[i] = filepath.Base(filepath.Dir(r))
	}
	return names
}

func TestExamplePlaybooksLoad(t *testing.T) {
	opts := realTypes(t)
	files, err := filepath.Glob(examples + "/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !isPlaybook(string(text)) {
			continue
		}
		loaded++
		if _, err := playbooks.Parse(file, text, opts); err != nil {
			t.Error(err)
		}
		folder, name := filepath.Split(file)
		if !strings.Contains(page(t, filepath.Join("examples", filepath.Base(folder), "README.md")), " "+name) {
			t.Errorf("%s: no command of its README has it", file)
		}
	}
	if loaded < 12 {
		t.Errorf("%d playbooks were found, expected at least 12", loaded)
	}
}

// What examples/README.md says of a folder holds: it is listed, short, and runs on the lab where
// the table says so.
func TestIndexOfExamples(t *testing.T) {
	index := page(t, "examples/README.md")
	for _, name := range exampleFolders(t) {
		text := page(t, "examples/"+name+"/README.md")
		if n := strings.Count(text, "\n"); n > 12 {
			t.Errorf("%s: its README has %d lines, expected at most 12", name, n)
		}
		on := "plan"
		if strings.Contains(text, "\nturnus run ") {
			on = "runs"
		}
		row := fmt.Sprintf("| [%s](%[1]s/README.md) |", name)
		_, rest, listed := strings.Cut(index, row)
		rest, _, _ = strings.Cut(rest, "\n")
		if !listed || !strings.HasSuffix(rest, "| "+on+" |") {
			t.Errorf("examples/README.md: expected a row %s … | %s |", row, on)
		}
	}
}

// TestExamples runs each command of each README below examples/ against the hosts of turnus lab.
func TestExamples(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ex") //nolint:usetesting // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := turnusProcess(t).Path
	env := append(os.Environ(), "HOME="+dir, "TURNUS_STATE="+dir, "TURNUS_INVENTORY="+dir+"/lab/hosts.yaml", "SSH_AUTH_SOCK=", "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	run := func(folder, line string) error {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir, cmd.Env = folder, env
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", line, err, out)
		}
		return nil
	}
	if err := run(dir, "turnus lab up"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		down := exec.Command(program, "lab", "down")
		down.Env = env
		if out, err := down.CombinedOutput(); err != nil {
			t.Errorf("turnus lab down: %v\n%s", err, out)
		}
	})
	if run(dir, "turnus run nosuch.yaml") == nil {
		t.Fatal("a command that fails is not noticed")
	}
	for _, name := range exampleFolders(t) {
		folder := filepath.Join(dir, name)
		if err := os.CopyFS(folder, os.DirFS(filepath.Join(examples, name))); err != nil {
			t.Fatal(err)
		}
		commands := fenced(page(t, "examples/"+name+"/README.md"), "sh")
		if len(commands) != 1 {
			t.Fatalf("%s: %d blocks of commands, expected 1", name, len(commands))
		}
		for line := range strings.Lines(commands[0]) {
			if err := run(folder, strings.TrimSpace(line)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
