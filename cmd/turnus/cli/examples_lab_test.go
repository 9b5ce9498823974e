//go:build labs

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLabExamples runs each command of each README below examples/ against the hosts of turnus lab.
func TestLabExamples(t *testing.T) {
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
	// nginx refuses the new configuration of web1: it goes back to its old one, and to the balancer.
	nginx := filepath.Join(dir, "nginx")
	if run(nginx, "turnus run nginx.yaml -e worker_connections='{'") == nil {
		t.Error("nginx: a run with a broken configuration succeeded")
	}
	for _, line := range []string{
		"turnus exec web1 -- 'grep \"connections 4096\" /etc/nginx/nginx.conf && grep \"connections {\" /etc/nginx/nginx.conf.new'",
		"turnus exec fw1 -- 'test -d /run/drained && test ! -e /run/drained/web1'",
	} {
		if err := run(nginx, line); err != nil {
			t.Errorf("nginx: %v", err)
		}
	}
}
