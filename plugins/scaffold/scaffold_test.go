package scaffold

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

func TestNew(t *testing.T) {
	for lang, wants := range map[string][]string{
		"go":     {"go.mod", "main.go", "main_test.go", "example.yaml", "README.md", ".github/workflows/ci.yml", ".gitignore"},
		"python": {"plugin", "jobs.py", "test_jobs.py", "turnus_plugin.py", "turnus_pb2.py", "example.yaml", "README.md", ".github/workflows/ci.yml", ".gitignore"},
		"exec":   {"plugin.yaml", "ensure.sh", "test.sh", "example.yaml", "README.md", ".github/workflows/ci.yml", ".gitignore"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		names, err := New(Options{Name: "motd", Lang: lang, Dir: dir, Require: "v1.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		slices.Sort(wants)
		if !slices.Equal(names, wants) {
			t.Errorf("%s: %v, expected %v", lang, names, wants)
		}
		for _, name := range names {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if text := string(raw); strings.Contains(text, "<<.") || strings.Contains(text, "<no value>") {
				t.Errorf("%s: %s is not filled in", lang, name)
			}
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || (info.Mode()&0o111 != 0) != strings.HasPrefix(string(raw), "#!") {
				t.Errorf("%s: %s has mode %v, %v", lang, name, info.Mode(), err)
			}
		}
		if _, err := New(Options{Name: "motd", Lang: lang, Dir: dir}); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("%s over another: %v", lang, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for _, o := range []Options{{Name: "", Lang: "go"}, {Name: "a/b", Lang: "go"}, {Name: "A", Lang: "go"}, {Name: "a", Lang: "cobol"}} {
		o.Dir = dir
		if _, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was written all the same")
	}
}

// A python3 without the libraries, as a version manager puts before the system's, is named with
// what it lacks.
func TestPythonWithoutItsLibrariesSaysSo(t *testing.T) {
	python, dir := testparts.Need(t, "python3", "python3"), filepath.Join(t.TempDir(), "motd")
	if _, err := New(Options{Name: "motd", Lang: "python", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-S", "-I", "-c", "import sys; sys.path.insert(0, sys.argv[1]); sys.modules['grpc'] = None; import turnus_plugin; sys.exit(turnus_plugin.Plugin('motd', '1').serve())", dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), wire.CookieKey + "=" + wire.CookieValue}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "install python3-grpcio") || strings.Contains(string(out), "Traceback") {
		t.Errorf("%v: %s", err, out)
	}
}

// The report of a Python plugin on its end is cut between words: a worker takes a secret out by the
// whole of it.
func TestFaultS6PythonDoesNotCutSecretsThrough(t *testing.T) {
	python, dir := testparts.Need(t, "python3", "python3"), filepath.Join(t.TempDir(), "motd")
	if _, err := New(Options{Name: "motd", Lang: "python", Dir: dir}); err != nil {
		t.Fatal(err)
	}
	const script = `import sys, types
sys.path.insert(0, sys.argv[1])
import turnus_plugin as p
class PB:
    class Failed:
        Effects = types.SimpleNamespace(Value=lambda name: name)
        def __init__(self, **given): self.reason = given["reason"]
    class Outcome:
        def __init__(self, failed): self.failed = failed
plugin = types.SimpleNamespace(_worker=types.SimpleNamespace(pb=PB))
run = types.SimpleNamespace(outputs={})
for before in range(4070, 4110):
    text = "a" * 40 + " " + "b" * (before - 42) + " tk_9fQz7Lm2XwB4r and more"
    print(p.Plugin._failed(plugin, run, p.Failed(text)).failed.reason[-30:])
`
	out, err := exec.CommandContext(t.Context(), python, "-S", "-I", "-c", script, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	whole := strings.Count(string(out), "tk_9fQz7Lm2XwB4r")
	if parts := strings.Count(string(out), "tk_"); whole == 0 || whole == 40 || parts != whole {
		t.Errorf("%d secrets are whole, %d are there in part:\n%s", whole, parts-whole, out)
	}
}
