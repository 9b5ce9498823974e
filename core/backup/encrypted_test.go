package backup_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/backup"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
)

// ring makes a ring, and returns its file and its key.
func ring(tb testing.TB) (r *keyring.Ring, file string, key keyring.ID) {
	tb.Helper()
	file = filepath.Join(tb.TempDir(), "ring.json")
	key, err := keyring.New(file)
	if err != nil {
		tb.Fatal(err)
	}
	return openRing(tb, file), file, key
}

func openRing(tb testing.TB, file string) *keyring.Ring {
	tb.Helper()
	r, err := keyring.Open(file, keyring.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// A backup of an encrypted ledger is made, verified and restored without the ring. It names all
// keys that it takes, holds nothing legible, and is read with the ring only. Without it, or with
// another, the ledger that was filled is refused. The negative control is a ledger that is not
// encrypted: its backup names no key, and an output is legible in it.
func TestEncryptedBackupIsReadWithItsRingOnly(t *testing.T) {
	t.Parallel()
	r, file, first := ring(t)
	s := &site{TB: t, url: sqliteURL(t), outputs: t.TempDir(), ring: r}
	s.open()
	s.run("one", 5, 2)
	second, err := keyring.Add(file)
	if err == nil {
		err = keyring.Promote(file, second)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = s.ledger.Close()
	s.ring = openRing(t, file) // the file is read again within a second; this is immediate
	s.open()
	s.run("two", 5, 2)

	where := t.TempDir()
	m := s.backup(where) // it asks for no ring
	want := []string{first.String(), second.String()}
	slices.Sort(want)
	if !slices.Equal(m.Keys, want) {
		t.Errorf("keys %v, expected %v", m.Keys, want)
	}
	if list, err := backup.List(t.Context(), where); err != nil || len(list) != 1 || !slices.Equal(list[0].Keys, want) {
		t.Errorf("%+v, %v", list, err)
	}
	if v, err := verify(t, where, ""); err != nil || len(v.Findings) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if text := []byte(large("one", 0)[:40]); holds(t, where, text) {
		t.Error("an output is legible in the backup")
	}

	into := &site{TB: t, url: sqliteURL(t), outputs: t.TempDir(), ring: s.ring}
	if err := into.restore(where, ""); err != nil {
		t.Fatal(err)
	}
	other, _, _ := ring(t)
	for what, wrong := range map[string]*keyring.Ring{"no ring": nil, "another ring": other} {
		if l, err := ledger.Open(t.Context(), into.url, ledger.Options{Keyring: wrong}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("with %s: %v", what, err)
			if err == nil {
				_ = l.Close()
			}
		}
	}
	blind, err := ledger.Open(t.Context(), into.url, ledger.Options{Blind: true, Bucket: into.bucket()})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := blind.OpenOutput(t.Context(), ledger.AllTenants(), core.JobID{Run: "one"}, "0/stdout", 0, -1); !errors.Is(err, keyring.ErrNoKey) {
		t.Errorf("an output is read without the ring: %v", err)
	}
	_ = blind.Close()
	into.open()
	into.same("one", 5, 2)
	into.same("two", 5, 2)

	plain, there := newSite(t, sqliteURL(t)), t.TempDir()
	plain.run("one", 5, 2)
	if m := plain.backup(there); len(m.Keys) != 0 || !holds(t, there, []byte(large("one", 0)[:40])) {
		t.Errorf("negative control: keys %v", m.Keys)
	}
}

// holds reports whether any file below a folder has some text.
func holds(tb testing.TB, dir string, text []byte) (found bool) {
	tb.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, text)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return found
}
