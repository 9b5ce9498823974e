package backup_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnus/turnus/core"
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
