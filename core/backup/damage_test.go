package backup_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/backup"
)

// objectsIn are the files of objects of a folder of backups, or of outputs.
func objectsIn(tb testing.TB, dir string) []string {
	tb.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "output", "*", "*", "*"))
	if err != nil {
		tb.Fatal(err)
	}
	return paths
}

// An object that an earlier backup left damaged serves no later one: it is copied again, and the
// earlier backup is whole again. Where the outputs have it no more it is missed, as any that is
// gone. The negative control: the damage is one, and only that is copied.
func TestDamagedObjectIsCopiedAnew(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(string, []byte) error{
		"changed": func(path string, data []byte) error {
			data[len(data)/2] ^= 0x40
			return os.WriteFile(path, data, 0o600)
		},
		"cut":  func(path string, data []byte) error { return os.WriteFile(path, data[:len(data)-1], 0o600) },
		"gone": func(path string, _ []byte) error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, where := newSite(t, sqliteURL(t)), t.TempDir()
			s.run("one", 5, 3)
			first := s.backup(where)
			if again := s.backup(where); again.Outputs.New != 0 || again.Outputs.Damaged != 0 {
				t.Errorf("negative control: nothing is damaged: %+v", again.Outputs)
			}
			paths := objectsIn(t, filepath.Join(where, "objects"))
			if len(paths) != 3 {
				t.Fatalf("%v", paths)
			}
			good, err := os.ReadFile(paths[1])
			if err != nil {
				t.Fatal(err)
			}
			if err := harm(paths[1], bytes.Clone(good)); err != nil {
				t.Fatal(err)
			}
			if _, err := verify(t, where, ""); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("negative control: the backup is whole: %v", err)
			}
			if m := s.backup(where); name == "changed" && m.Outputs.Damaged != 0 {
				t.Errorf("negative control: read without being asked to: %+v", m.Outputs)
			} else if name != "changed" && m.Outputs.Damaged+m.Outputs.New != 1 {
				t.Errorf("sizes were not compared: %+v", m.Outputs)
			}
			if err := harm(paths[1], bytes.Clone(good)); err != nil {
				t.Fatal(err)
			}
			m := s.backupReading(where)
			if m.Outputs.Objects != 3 || m.Outputs.Damaged+m.Outputs.New != 1 || (m.Outputs.New == 1) != (name == "gone") {
				t.Errorf("%+v", m.Outputs)
			}
			for _, id := range []string{m.ID, first.ID} {
				if _, err := verify(t, where, id); err != nil {
					t.Errorf("backup %s: %v", id, err)
				}
			}
			if now, err := os.ReadFile(paths[1]); err != nil || !bytes.Equal(now, good) {
				t.Errorf("%d bytes, expected the %d that were there, %v", len(now), len(good), err)
			}
			if err := harm(paths[1], bytes.Clone(good)); err != nil {
				t.Fatal(err)
			}
			for _, path := range objectsIn(t, s.outputs) {
				if filepath.Base(path) == filepath.Base(paths[1]) {
					if err := os.Remove(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			if m := s.backupReading(where); m.Outputs.Objects != 2 || m.Outputs.Missing != 1 || m.Outputs.Damaged != 0 {
				t.Errorf("damaged here, and gone there: %+v", m.Outputs)
			}
		})
	}
}

// A place that has no output is no source of a backup, also if an earlier backup has all outputs
// except new ones. The control: with outputs in the place, a missing one is only counted.
func TestAPlaceWithoutOutputsMakesNoBackup(t *testing.T) {
	t.Parallel()
	s, where := newSite(t, sqliteURL(t)), t.TempDir()
	s.run("one", 5, 2)
	right, wrong := s.outputs, t.TempDir()
	refused := func(where, want string) {
		t.Helper()
		s.outputs = wrong
		b := s.bucket()
		defer func() { _ = b.Close() }()
		_, err := backup.Create(t.Context(), backup.Options{Ledger: s.url, Objects: b, Where: where})
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "hint: check --outputs") {
			t.Errorf("got %v, expected an error with %q", err, want)
		}
		s.outputs = right
	}
	refused(where, "large outputs that the ledger names: 2; ")
	if list, err := backup.List(t.Context(), where); err != nil || len(list) != 0 {
		t.Errorf("%v, %v: a refused backup is listed", list, err)
	}
	s.backup(where)
	s.run("two", 5, 1)
	refused(where, "large outputs that the ledger names: 3; ")
	if err := os.RemoveAll(filepath.Join(right, "output", "2")); err != nil {
		t.Fatal(err)
	}
	if m := s.backup(where); m.Outputs.Missing != 1 || m.Outputs.Objects != 2 {
		t.Errorf("%+v", m.Outputs)
	}
}
