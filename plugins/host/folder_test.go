package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A verb that starts no plugin must leave nothing in /tmp, and must not need it.
func TestFolderIsMadeWithTheFirstProcess(t *testing.T) {
	sockets := filepath.Join(t.TempDir(), "sockets")
	s, err := New(Config{Socket: sockets})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sockets); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there before a process is: %v", sockets, err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// The folder of a killed owner is cleared away by the next one. A folder in use, a young one, one
// with another name and the target of a symbolic link are not.
func TestFolderOfADeadOwnerIsSwept(t *testing.T) {
	parent, elsewhere := t.TempDir(), t.TempDir()
	old := time.Now().Add(-time.Hour)
	plantFolder := func(name string, age time.Time) string {
		path := filepath.Join(parent, name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "h"), nil, 0o600), os.Chtimes(path, age, age)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dead := plantFolder(folderPrefix+"dead", old)
	keep := map[string]string{
		"young":           plantFolder(folderPrefix+"young", time.Now()),
		"of another name": plantFolder("turnus-fleet-1", old),
	}
	live := &folder{parent: parent}
	path, err := live.open()
	if err != nil {
		t.Fatal(err)
	}
	keep["in use"] = path
	if err := errors.Join(os.Chtimes(path, old, old), os.Symlink(elsewhere, filepath.Join(parent, folderPrefix+"link")), os.WriteFile(filepath.Join(elsewhere, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	keep["behind a link"] = filepath.Join(elsewhere, "x")

	next := &folder{parent: parent}
	if _, err := next.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the dead owner's folder is still there: %v", err)
	}
	for what, path := range keep {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the folder %s is gone: %v", what, err)
		}
	}
	if err := errors.Join(live.remove(), live.remove(), next.remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed folder: %v", err)
	}
}
