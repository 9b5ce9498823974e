package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
)

// The module of a locked plugin is exchanged between the check of its files and their use: what was
// checked runs. Control: of a plugin that nobody locked, the exchanged module runs.
func TestFaultS16WhatWasCheckedIsWhatRuns(t *testing.T) {
	t.Run("locked", func(t *testing.T) { exchanged(t, true, "checked\n") })
	t.Run("control", func(t *testing.T) { exchanged(t, false, "exchanged\n") })
}

// exchanged starts a plugin, locked or not, exchanges its module before it is used, and expects the
// output of that module.
func exchanged(t *testing.T, locked bool, want string) {
	dir, src, side := t.TempDir(), t.TempDir(), t.TempDir()
	began, proceed, ran := filepath.Join(side, "began"), filepath.Join(side, "go"), filepath.Join(side, "ran")
	for _, fifo := range []string{began, proceed} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(src, "plugin"), `#!/bin/sh
here=$(dirname "$(readlink "$0")")
if [ -e '`+side+`/armed' ]; then
	echo "$here" > '`+began+`'
	read -r _ < '`+proceed+`'
	sh "$here/lib/module.sh"
fi
exec '`+self(t)+`' lab good
`, 0o755)
	if err := os.Mkdir(filepath.Join(src, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(src, "lib/module.sh"), "echo checked > '"+ran+"'\n", 0o644)
	got, err := Install(t.Context(), Installing{Source: src, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := NewLock(dir, nil, nil)
	if err == nil && locked {
		err = lock.Write(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(side, "armed"), "", 0o600)
	s, err := New(Config{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	ended, started := make(chan error, 1), make(chan string, 1)
	go func() {
		_, err := (&bench{Supervisor: s}).Run(t.Context(), call("echo", labParams{}))
		ended <- err
	}()
	go func() {
		text, _ := os.ReadFile(began)
		started <- strings.TrimSpace(string(text))
	}()
	var here string
	select {
	case here = <-started:
	case err := <-ended:
		t.Fatalf("it ended before its start: %v", err)
	}
	module := filepath.Join(got.Path, "lib/module.sh")
	if err := os.Remove(module); err != nil {
		t.Fatal(err)
	}
	write(t, module, "echo exchanged > '"+ran+"'\n", 0o644)
	write(t, proceed, "\n", 0o600)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(ran); string(text) != want {
		t.Errorf("%q ran, expected %q", text, want)
	}
	if !locked {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		return
	}
	root := filepath.Dir(here)
	if info, err := os.Stat(root); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the copies are in %s: %v, %v", root, info, err)
	}
	_ = filepath.WalkDir(here, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o222 != 0 {
			t.Errorf("%s may be written: %v, %v", path, info, err)
		}
		return nil
	})
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root); err == nil {
		t.Errorf("%s is left behind", root)
	}
}

// A plugin without manifest.json is asked what it is by starting it. One that its lockfile does not
// name as it is must not run even for that; without a lockfile, the same program runs.
func TestFaultS16WhatIsNotLockedIsNotAsked(t *testing.T) {
	dir, src, side := t.TempDir(), t.TempDir(), t.TempDir()
	ran := filepath.Join(side, "ran")
	program := "#!/bin/sh\n%s\nexec '" + self(t) + "' lab good\n"
	write(t, filepath.Join(src, "plugin"), strings.Replace(program, "%s", ":", 1), 0o755)
	got, err := Install(t.Context(), Installing{Source: src, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	lock, err := NewLock(dir, nil, nil)
	if err == nil {
		err = lock.Write(dir)
	}
	if err == nil {
		err = os.Remove(filepath.Join(got.Path, manifestFile))
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(got.Path, "plugin"), strings.Replace(program, "%s", "echo x > '"+ran+"'", 1), 0o755)
	load := func() error {
		s, err := New(Config{Dirs: []string{dir}})
		if err == nil {
			err = s.Stop(t.Context())
		}
		return err
	}
	check := func() error { _, err := CheckLock(dir, nil, nil); return err }
	for name, do := range map[string]func() error{"load": load, "check": check} {
		if err := do(); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "not those that were locked") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran")
	}
	if err := os.Remove(filepath.Join(dir, LockFile)); err != nil {
		t.Fatal(err)
	}
	if err := load(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("without a lockfile it should have run: %v", err)
	}
}
