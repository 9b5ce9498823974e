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

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// plant puts a plugin, that is a lab, into a plugin folder, and returns its version's folder.
func plant(t testing.TB, dir string, m Manifest) string {
	t.Helper()
	folder := filepath.Join(dir, m.Name, m.Version)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "plugin"), "#!/bin/sh\nexec '"+self(t)+"' lab good\n", 0o755)
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "manifest.json"), string(raw), 0o644)
	return folder
}

func TestDiscovery(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, labManifest())
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
	if got := s.Plugins(); len(got) != 1 || got[0].Name != "lab" || got[0].Version != "1.0.0" || len(got[0].SHA256) != 64 {
		t.Errorf("%+v", got)
	}
	if _, ok := s.Type("lab.echo"); !ok {
		t.Error("type lab.echo is not found")
	}
	if got := b.must(t, call("op", labParams{Op: "probe"})); got["code"] != "Unavailable" {
		t.Errorf("without a transport: %v", got)
	}
}

func TestManifestIsMadeOnceWhenMissing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(plant(t, dir, labManifest()), "manifest.json")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Dirs: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	m, err := readManifest(path)
	if err != nil || len(m.Types) != len(labTypes()) {
		t.Errorf("kept manifest: %d types, %v", len(m.Types), err)
	}
}

func TestDescribe(t *testing.T) {
	m, err := Describe(t.Context(), []string{self(t), "lab", "good"}, "", nil)
	if err != nil || m.Name != "lab" || len(m.Types) != len(labTypes()) {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := Describe(t.Context(), []string{"/nonexistent"}, "", nil); err == nil {
		t.Error("a missing program is described")
	}
	if _, err := Describe(t.Context(), []string{"plugin"}, "", nil); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("relative path: %v", err)
	}
}

func TestVersionIsChosenByAPerson(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"1.0.0", "1.10.0", "1.9.0"} {
		m := labManifest()
		m.Version = v
		plant(t, dir, m)
	}
	folder, current := filepath.Join(dir, "lab"), filepath.Join(dir, "lab", "current")
	_, err := chooseVersion(folder)
	if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "1.0.0, 1.10.0, 1.9.0") || !strings.Contains(err.Error(), "choose one") {
		t.Errorf("no choice: %v", err)
	}
	if err := os.Symlink("1.9.0", current); err != nil {
		t.Fatal(err)
	}
	if v, err := chooseVersion(folder); v != "1.9.0" || err != nil {
		t.Errorf("link: %s, %v", v, err)
	}
	_ = os.Remove(current)
	write(t, current, "1.0.0\n", 0o644)
	if v, err := chooseVersion(folder); v != "1.0.0" || err != nil {
		t.Errorf("file: %s, %v", v, err)
	}
	write(t, current, "../../etc", 0o644)
	if _, err := chooseVersion(folder); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("a version that is not there: %v", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"other version in manifest": {func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "lab", "1.0.0"), filepath.Join(dir, "lab", "2.0.0")); err != nil {
				t.Fatal(err)
			}
		}, "the manifest is of lab 1.0.0"},
		"program for everybody to write": {func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "lab", "1.0.0", "plugin"), 0o777); err != nil {
				t.Fatal(err)
			}
		}, "chmod o-w"},
		"not executable": {func(t *testing.T, dir string) {
			if err := os.Chmod(filepath.Join(dir, "lab", "1.0.0", "plugin"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "not an executable file"},
		"no program": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "lab", "1.0.0", "plugin")); err != nil {
				t.Fatal(err)
			}
		}, "neither a program named plugin"},
		"no version": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "lab", "1.0.0")); err != nil {
				t.Fatal(err)
			}
		}, "holds no version"},
		"huge manifest": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "lab", "1.0.0", "manifest.json"), strings.Repeat(" ", maxManifest+1), 0o644)
		}, "over 1048576 bytes"},
		"type of another plugin": {func(t *testing.T, dir string) {
			m := labManifest()
			m.Name = "twin"
			plant(t, dir, m)
		}, "declared by two plugins: lab 1.0.0 and twin 1.0.0"},
		"type of Turnus itself": {func(t *testing.T, dir string) {
			m := labManifest()
			m.Name, m.Types = "keys", []Type{{Name: KeysType, Params: m.Types[0].Params}}
			plant(t, dir, m)
		}, "Turnus has a job type of this name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			plant(t, dir, labManifest())
			row.spoil(t, dir)
			if _, err := New(Config{Dirs: []string{dir}}); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v; expected %q", err, row.want)
			}
		})
	}
}

func TestManifestValidation(t *testing.T) {
	if err := labManifest().Validate(); err != nil {
		t.Fatalf("negative control: %v", err)
	}
	for want, spoil := range map[string]func(*Manifest){
		"name:":               func(m *Manifest) { m.Name = "Lab/.." },
		"version":             func(m *Manifest) { m.Version = "../1" },
		"not current":         func(m *Manifest) { m.Version = "current" }, // the link that chooses among versions
		"protocol 2":          func(m *Manifest) { m.Protocol = 2 },
		"concurrency -1":      func(m *Manifest) { m.Concurrency = -1 },
		"0 job types":         func(m *Manifest) { m.Types = nil },
		"declared twice":      func(m *Manifest) { m.Types = append(m.Types, m.Types[0]) },
		"noun.verb":           func(m *Manifest) { m.Types[0].Name = "a.b.c" },
		"on_lost":             func(m *Manifest) { m.Types[0].OnLost = "maybe" },
		"not a JSON Schema":   func(m *Manifest) { m.Types[0].Params = json.RawMessage(`{"type": 7}`) },
		"expected a JSON Sch": func(m *Manifest) { m.Types[0].Params = nil },
		"outputs:":            func(m *Manifest) { m.Types[0].Outputs = json.RawMessage(`{"$ref":"http://example.org/x"}`) },
		"reverts_unless":      func(m *Manifest) { m.Types[0].Reverts, m.Types[0].RevertsUnless = true, []string{"nothing"} },
		"is not JSON":         func(m *Manifest) { m.Types[0].Examples = []Example{{Title: "t", Params: json.RawMessage("{")}} },
	} {
		m := labManifest()
		spoil(&m)
		if err := m.Validate(); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; expected %q", err, want)
		}
	}
}

func FuzzManifest(f *testing.F) {
	raw, err := json.Marshal(labManifest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"types":[{"params":{"$ref":"#"}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := parseManifest(raw); err == nil && m.Validate() != nil {
			t.Error("accepted, but not valid")
		}
	})
}
