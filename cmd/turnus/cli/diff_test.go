package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/testparts"
)

// Revisions of a real repository; what is not committed plays no part.
func TestDiffOfRevisions(t *testing.T) {
	program := testparts.Need(t, "git", "git")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command(program, append([]string{"-C", dir, "-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	turnus := func(want int, args ...string) (string, string) {
		t.Helper()
		var out, errs bytes.Buffer
		if code := Main(args, strings.NewReader(""), &out, &errs); code != want {
			t.Errorf("%v: exit code %d, expected %d: %s", args, code, want, errs.String())
		}
		return out.String(), errs.String()
	}
	git("init", "--quiet", "--initial-branch=main")
	write("playbooks/p.yaml", "playbook: p\ntargets: true\nsteps: [{uses: command, with: {run: x}}]\n")
	write("inventory.yaml", "hosts: {a: {}}\n")
	git("add", ".")
	git("commit", "--quiet", "-m", "first")
	git("tag", "v1")
	git("checkout", "--quiet", "-b", "change")
	write("inventory.yaml", "hosts: {a: {}, b: {}}\n")
	git("commit", "--quiet", "-am", "second")
	write("inventory.yaml", "not: [committed\n")

	out, _ := turnus(console.ExitChanges, "project", "diff", "--repo", dir, "v1..HEAD", "--exit-code")
	if !strings.Contains(out, "+ host b") || !strings.Contains(out, "1 host more: b") {
		t.Errorf("got %s", out)
	}
	if out, _ := turnus(console.ExitOK, "project", "diff", "--repo", dir, "main..change", "-o", "json"); !strings.Contains(out, `"subject": "second"`) || !strings.Contains(out, `"author": "Ann <ann@example.org>"`) {
		t.Errorf("got %s", out)
	}
	for _, wrong := range []string{"v1..nowhere", "v1..--upload-pack=x", "v1...HEAD", "v1", "..v1"} {
		turnus(console.ExitInvalid, "project", "diff", "--repo", dir, wrong)
	}
	if _, said := turnus(console.ExitInvalid, "project", "diff", "--repo", dir, "v1..nowhere"); !strings.Contains(said, `there is no revision "nowhere"`) || !strings.Contains(said, "fetch-depth: 0") {
		t.Errorf("got %s", said)
	}
	turnus(console.ExitInvalid, "project", "diff", "--repo", t.TempDir(), "a..b")
}
