package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/testparts"
)

func TestDataFolderThatOthersMayWriteIsRefused(t *testing.T) {
	t.Parallel()
	for mode, fine := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o775: false, 0o777: false, 0o777 | os.ModeSticky: false} {
		path := filepath.Join(t.TempDir(), "data")
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		d, err := openData(path)
		if err == nil {
			err = d.close()
		}
		if (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

// The default data folder lies where people work, and that is a repository: git add --all must not take the admin token.
func TestTrapTheDataFolderIsInNoCommit(t *testing.T) {
	t.Parallel()
	git := testparts.Need(t, "git", "git")
	repo := t.TempDir()
	d, err := openData(filepath.Join(repo, "turnus-data"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.close() }()
	if err := os.WriteFile(d.tokenFile(), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	status := func() string {
		cmd := exec.CommandContext(t.Context(), git, "-C", repo, "status", "--porcelain", "--untracked-files=all")
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out, err := exec.CommandContext(t.Context(), git, "init", "--quiet", repo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if s := status(); s != "" {
		t.Errorf("git would take:\n%s", s)
	}
	if err := os.Remove(filepath.Join(d.path, ".gitignore")); err != nil { // the control
		t.Fatal(err)
	}
	if s := status(); !strings.Contains(s, "admin.token") {
		t.Errorf("the control sees nothing: %s", s)
	}
}

// Nobody but its process can look into the queue of turnus up: a key is not retired before that process began with another one.
func TestAKeyStaysWhileAnOlderQueueMayBeSealedWithIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ring.json")
	id, err := keyring.New(file)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Open(file, keyring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := openData(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.openLedger(t.Context(), "", "", ring)
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	a, f := newApp(strings.NewReader(""), io.Discard, io.Discard), sealedPlaces{data: d.path, keyring: keyringFlags{file: file}}
	if err := f.check(); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(d.path, "lock")
	for began, fine := range map[time.Duration]bool{-time.Minute: false, time.Minute: true} { // from when the ledger was sealed with the present key
		when := time.Now().Add(began)
		if err := os.Chtimes(lock, when, when); err != nil {
			t.Fatal(err)
		}
		if err := f.begunSince(t.Context(), a, id); (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "start it again") {
			t.Errorf("began %v after: %v", began, err)
		}
	}
	if err := errors.Join(os.Chtimes(lock, time.Time{}, time.Now().Add(-time.Minute)), d.close()); err != nil {
		t.Fatal(err)
	}
	if err := f.begunSince(t.Context(), a, id); err != nil { // nobody holds it any more
		t.Error(err)
	}
}
