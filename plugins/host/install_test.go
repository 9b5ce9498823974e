package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// source is a folder with a plugin, that is a lab, as its author has it.
func source(t *testing.T, module string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plugin"), "#!/bin/sh\nexec '"+self(t)+"' lab good\n", 0o755)
	write(t, filepath.Join(dir, "module.py"), module, 0o644)
	for _, name := range []string{".git", "__pycache__"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "x"), "x", 0o644)
	}
	return dir
}

func TestInstall(t *testing.T) {
	dir, src := t.TempDir(), source(t, "one")
	got, err := Install(t.Context(), Installing{Source: src, Dir: dir})
	if err != nil || got.Name != "lab" || got.Version != "1.0.0" || got.InUse != "1.0.0" || got.Already {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, there := range map[string]bool{"plugin": true, "module.py": true, "manifest.json": true, ".git": false, "__pycache__": false} {
		if _, err := os.Stat(filepath.Join(got.Path, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	if again, err := Install(t.Context(), Installing{Source: src, Dir: dir}); err != nil || !again.Already {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	other := source(t, "two")
	if _, err := Install(t.Context(), Installing{Source: other, Dir: dir}); !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("another under the same version: %v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(got.Path, "module.py")); string(text) != "one" {
		t.Errorf("what was installed is %q", text)
	}
	if forced, err := Install(t.Context(), Installing{Source: other, Dir: dir, Force: true}); err != nil || forced.Tree == got.Tree {
		t.Errorf("forced: %+v, %v", forced, err)
	}
	if text, _ := os.ReadFile(filepath.Join(got.Path, "module.py")); string(text) != "two" {
		t.Errorf("what was forced is %q", text)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A plugin folder in the folder of the plugin's author is no part of the plugin.
func TestInstallIntoTheFolderOfThePlugin(t *testing.T) {
	src := source(t, "one")
	dir := filepath.Join(src, "plugins")
	got, err := Install(t.Context(), Installing{Source: src, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(got.Path); err != nil || len(entries) != 3 { // plugin, module.py, manifest.json
		t.Errorf("installed are %v, %v", entries, err)
	}
	if again, err := Install(t.Context(), Installing{Source: src, Dir: dir}); err != nil || !again.Already {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	if _, err := Install(t.Context(), Installing{Source: dir, Dir: dir}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "the plugin folder itself") {
		t.Errorf("the plugin folder: %v", err)
	}
}

func TestInstallOfWhatIsNoPluginLeavesNothing(t *testing.T) {
	dir, src := t.TempDir(), t.TempDir()
	program := filepath.Join(src, "program")
	write(t, program, "#!/bin/sh\necho no >&2\nexit 1\n", 0o755)
	for _, from := range []string{program, src, filepath.Join(src, "missing")} {
		if _, err := Install(t.Context(), Installing{Source: from, Dir: dir}); err == nil {
			t.Errorf("%s is installed", from)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Workers take all plugins or none, so one whose name or job types are taken would stop them all.
func TestInstallRefusesWhatIsTaken(t *testing.T) {
	dir, other := t.TempDir(), labManifest()
	other.Name, other.Version = "other", "2.0.0"
	raw, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "other", "2.0.0")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, manifestFile), string(raw), 0o644)
	lab := labManifest()
	for want, in := range map[string]Installing{
		"that of plugin other 2.0.0 already": {Dir: dir},
		"that of plugin core dev already":    {Dir: t.TempDir(), Others: []Plugin{{Name: "core", Version: "dev", Manifest: lab}}},
		"a plugin lab is built in":           {Dir: t.TempDir(), Others: []Plugin{{Name: "lab", Version: "dev", Manifest: Manifest{Name: "lab"}}}},
	} {
		in.Source = source(t, "x")
		if _, err := Install(t.Context(), in); !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %q", err, want)
		}
		if _, err := os.Stat(filepath.Join(in.Dir, "lab")); err == nil {
			t.Errorf("%s: installed all the same", want)
		}
	}
}

// A second version does not come into use by being there, however high its number is.
func TestASecondVersionIsNotTakenUnasked(t *testing.T) {
	dir := t.TempDir()
	first, err := Install(t.Context(), Installing{Source: source(t, "x"), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Dir(first.Path)
	if err := keepChoice(home, "2.0.0"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, "2.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if v, err := chooseVersion(home); err != nil || v != "1.0.0" {
		t.Errorf("in use: %s, %v", v, err)
	}
	if err := choose(home, "2.0.0"); err != nil {
		t.Fatal(err)
	}
	if got, err := Install(t.Context(), Installing{Source: source(t, "x"), Dir: dir}); err != nil || got.InUse != "2.0.0" {
		t.Errorf("in use after an install of 1.0.0: %+v, %v", got, err)
	}
	if got, err := Install(t.Context(), Installing{Source: source(t, "x"), Dir: dir, Use: true}); err != nil || got.InUse != "1.0.0" {
		t.Errorf("in use after --use: %+v, %v", got, err)
	}
}

func TestLockfileThatLeadsNowhereIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, ok, err := ReadLock(dir); ok || err != nil {
		t.Fatalf("negative control: %v, %v", ok, err)
	}
	if err := os.Symlink("gone", filepath.Join(dir, LockFile)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadLock(dir); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("taken for none: %v", err)
	}
}

func TestLockfile(t *testing.T) {
	dir := t.TempDir()
	got, err := Install(t.Context(), Installing{Source: source(t, "one"), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	load := func() error {
		s, err := New(Config{Dirs: []string{dir}})
		if err == nil {
			err = s.Stop(t.Context())
		}
		return err
	}
	lock, err := NewLock(dir, nil, nil)
	if err != nil || len(lock.Plugins) != 1 || lock.Plugins[0].Tree != got.Tree {
		t.Fatalf("%+v, %v", lock, err)
	}
	if err := lock.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := load(); err != nil {
		t.Fatalf("what was locked is refused: %v", err)
	}
	module := filepath.Join(got.Path, "module.py") // a hash of the program alone would miss it
	write(t, module, "two", 0o644)
	now, err := NewLock(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := load(); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), got.Tree) || !strings.Contains(err.Error(), now.Plugins[0].Tree) {
		t.Errorf("a changed module: %v; expected both hashes named", err)
	}
	if err := os.Remove(filepath.Join(dir, LockFile)); err != nil {
		t.Fatal(err)
	}
	if err := load(); err != nil {
		t.Errorf("negative control: without a lockfile: %v", err)
	}
	for text, want := range map[string]string{
		`{"plugins":[]}`: "is not named",
		`{"plugins":[{"name":"lab","version":"0.9.0"}]}`: "version 0.9.0 is locked, 1.0.0 is in use",
		`{`: "lockfile",
	} {
		write(t, filepath.Join(dir, LockFile), text, 0o644)
		if err := load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// A locked plugin whose module is exchanged under a running worker is not started any more.
func TestALockedPluginThatChangesIsNotStarted(t *testing.T) {
	dir := t.TempDir()
	got, err := Install(t.Context(), Installing{Source: source(t, "one"), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := NewLock(dir, nil, nil)
	if err == nil {
		err = lock.Write(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Supervisor: s}
	defer func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	write(t, filepath.Join(got.Path, "module.py"), "two", 0o644)
	if _, err := b.Run(t.Context(), call("echo", labParams{})); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "changed since they were loaded") {
		t.Errorf("%v", err)
	}
}

func TestTree(t *testing.T) {
	hash := func(change func(dir string)) string {
		t.Helper()
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a"), "x", 0o644)
		write(t, filepath.Join(dir, "b"), "", 0o644)
		if change != nil {
			change(dir)
		}
		sum, err := Tree(dir)
		if err != nil {
			return err.Error()
		}
		return sum
	}
	first := hash(nil)
	if again := hash(nil); again != first || !strings.HasPrefix(first, "sha256:") {
		t.Errorf("%s, then %s", first, again)
	}
	seen := map[string]string{first: "nothing"}
	for what, change := range map[string]func(string){
		"content": func(d string) { write(t, filepath.Join(d, "a"), "y", 0o644) },
		"moved": func(d string) {
			write(t, filepath.Join(d, "a"), "", 0o644)
			write(t, filepath.Join(d, "b"), "x", 0o644)
		},
		"mode": func(d string) { write(t, filepath.Join(d, "a"), "x", 0o755) },
		"name": func(d string) { _ = os.Rename(filepath.Join(d, "b"), filepath.Join(d, "c")) },
		"more": func(d string) { write(t, filepath.Join(d, ".hidden"), "", 0o644) },
		"link": func(d string) { _ = os.Symlink("a", filepath.Join(d, "l")) },
	} {
		sum := hash(change)
		if other, ok := seen[sum]; ok {
			t.Errorf("%s has the hash of %s", what, other)
		}
		seen[sum] = what
	}
	if got := hash(func(d string) { _ = os.Symlink("/etc/passwd", filepath.Join(d, "l")) }); !strings.Contains(got, "leads out") {
		t.Errorf("a link out of the folder: %s", got)
	}
}
