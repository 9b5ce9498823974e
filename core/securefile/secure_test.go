package securefile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/testparts"
)

func file(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := errors.Join(os.WriteFile(path, []byte("hunter2"), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each guard is alone in its rule; the rule without it is the control, which reads the file.
func TestRead(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file(t, 0o600), link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		rule       securefile.Rule
		says       string // "": it is read
	}{
		{"as it must be", file(t, 0o600), securefile.Rule{Most: 7, Shut: 0o077, Owned: true}, ""},
		{"behind a link", link, securefile.Rule{Most: 7, Shut: 0o077, Owned: true}, ""},
		{"readable by the group", file(t, 0o640), securefile.Rule{Most: 7, Shut: 0o077}, "mode 0640"},
		{"which may", file(t, 0o640), securefile.Rule{Most: 7, Shut: 0o027}, ""},
		{"a byte too long", file(t, 0o600), securefile.Rule{Most: 6}, "at most 6 bytes"},
		{"a folder", t.TempDir(), securefile.Rule{Most: 7, Pipes: true}, "no regular file"},
		{"a pipe that nobody writes to", pipe, securefile.Rule{Most: 7}, "no regular file"},
		{"a device", os.DevNull, securefile.Rule{Most: 7}, "no regular file"},
		{"which will do", os.DevNull, securefile.Rule{Most: 7, Pipes: true}, ""},
		{"a device without an end", "/dev/zero", securefile.Rule{Most: 7, Pipes: true}, "at most 7 bytes"},
		{"none", filepath.Join(t.TempDir(), "none"), securefile.Rule{Most: 7}, "no such file"},
	} {
		got, err := securefile.Read(c.path, c.rule)
		want := "hunter2"
		if c.path == os.DevNull {
			want = ""
		}
		switch {
		case c.says == "" && (err != nil || string(got) != want):
			t.Errorf("%s: %q, %v", c.name, got, err)
		case c.says != "" && (err == nil || got != nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path)):
			t.Errorf("%s: %q, %v; expected %q", c.name, got, err, c.says)
		}
	}
	open := file(t, 0o644)
	if mode, ok := errors.AsType[*securefile.ModeError](readError(open, securefile.Rule{Most: 7, Shut: 0o077})); !ok || mode.Mode != 0o644 || mode.Path != open {
		t.Errorf("the mode is reported as %+v", mode)
	}
	if err := readError(open, securefile.Rule{Most: 1}); !errors.Is(err, securefile.ErrTooLong) {
		t.Errorf("%v is not ErrLong", err)
	}
	if err := readError("none", securefile.Rule{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func readError(path string, r securefile.Rule) error {
	_, err := securefile.Read(path, r)
	return err
}

// A credential of systemd shows as readable by a group; beside its folder, or open to more, such a
// file is refused.
func TestReadOfACredential(t *testing.T) {
	path, open := file(t, 0o440), file(t, 0o444)
	rule := securefile.Rule{Most: 7, Shut: 0o077}
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	if err := readError(path, rule); err == nil {
		t.Error("a file that is no credential is read")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(path)+"/")
	if err := readError(path, rule); err != nil {
		t.Error(err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", filepath.Dir(open))
	if err := readError(open, rule); err == nil {
		t.Error("a credential that all may read is read")
	}
}

func TestReadOfAnothersFile(t *testing.T) {
	path := file(t, 0o600)
	testparts.Able(t, "a file of another user", os.Chown(path, 12345, -1))
	if err := readError(path, securefile.Rule{Most: 7, Owned: true}); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Error(err)
	}
	if err := readError(path, securefile.Rule{Most: 7}); err != nil {
		t.Errorf("who owns it was not asked: %v", err)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "f"), filepath.Join(dir, "link")
	if err := os.Symlink("f", link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		to, text string
		mode     fs.FileMode
	}{{path, "first", 0o600}, {path, "second", 0o640}, {link, "through the link", 0o600}} {
		if err := securefile.Replace(c.to, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != c.text {
			t.Errorf("%q, %v; expected %q", got, err, c.text)
		}
		if st, err := os.Lstat(path); err != nil || st.Mode() != c.mode {
			t.Errorf("%s: mode %v, %v; expected %v", c.text, st.Mode(), err, c.mode)
		}
	}
	if os.Geteuid() == 0 { // a file that root replaces stays its owner's, who may be a service
		if err := errors.Join(os.Chown(path, 12345, 54321), securefile.Replace(path, []byte("of another"), 0o640)); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Sys().(*syscall.Stat_t).Uid != 12345 || st.Sys().(*syscall.Stat_t).Gid != 54321 {
			t.Errorf("owner %+v, %v", st.Sys(), err)
		}
	}
	if to, err := os.Readlink(link); err != nil || to != "f" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if err := securefile.Replace(filepath.Join(dir, "none", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	// A file that cannot take the place leaves all as it was: no file can replace a folder.
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := securefile.Replace(folder, []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("%v, %v; expected the file, the link and the folder, and nothing left behind", entries, err)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := securefile.Remove(filepath.Join(path, "below")); err == nil { // negative control
		t.Error("what a file cannot hold was removed from it")
	}
	for range 2 { // the second time there is none
		if err := securefile.Remove(path); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
	}
}
