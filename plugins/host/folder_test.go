package host

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
		t.Errorf("the ended owner's folder is still there: %v", err)
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

// The folder of a process goes with it, also if the plugin has closed what is in it.
func TestAClosedFolderOfAProcessIsRemoved(t *testing.T) {
	if os.Geteuid() == 0 { // nothing is closed to root
		asNobody(t)
		return
	}
	b := open(t, &fleet{})
	if got := b.must(t, call("attack", labParams{Op: "close"}))["text"]; got != "reached" {
		t.Fatal(got)
	}
	p := b.pool()
	p.mu.Lock()
	dir := p.live[0].dir
	if err := os.RemoveAll(filepath.Join(dir, "closed")); err == nil {
		t.Error("negative control: the folder is not closed")
	}
	p.retireLocked(p.live[0])
	p.mu.Unlock()
	until(t, "the process is gone", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.live) == 0
	})
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

// asNobody runs the test that calls it as another user than root.
func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nobody") //nolint:usetesting // every folder above must let the user in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, own := filepath.Join(dir, "test"), filepath.Join(dir, "tmp")
	raw, err := os.ReadFile(self(t))
	if err == nil {
		err = errors.Join(os.WriteFile(binary, raw, 0o755), os.Chmod(dir, 0o755), os.Mkdir(own, 0o755), os.Chown(own, 65534, 65534))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "CI=" + os.Getenv("CI"), "TMPDIR=" + own, "GORACE=" + os.Getenv("GORACE")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v:\n%s", err, out)
	}
}
