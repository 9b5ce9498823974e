package service

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

func TestDataFolderThatOthersMayWriteIsRefused(t *testing.T) {
	t.Parallel()
	for mode, fine := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o775: false, 0o777: false, 0o777 | os.ModeSticky: false} {
		path := filepath.Join(t.TempDir(), "data")
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		d, err := OpenData(path)
		if err == nil {
			err = d.Close()
		}
		if (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

// The default data folder lies where people work, and that is a repository: git add --all must not
// take the admin token.
func TestTrapTheDataFolderIsInNoCommit(t *testing.T) {
	t.Parallel()
	git := testparts.Need(t, "git", "git")
	repo := t.TempDir()
	d, err := OpenData(filepath.Join(repo, "turnus-data"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
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
	if err := os.Remove(filepath.Join(d.Path, ".gitignore")); err != nil { // the control
		t.Fatal(err)
	}
	if s := status(); !strings.Contains(s, "admin.token") {
		t.Errorf("the control sees nothing: %s", s)
	}
}

// A new ledger in a folder that was used is a warning, and the token of the former ledger stays.
func TestTrapANewLedgerKeepsTheFormerToken(t *testing.T) {
	t.Parallel()
	d, err := OpenData(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	start := func() (made bool, former string) {
		t.Helper()
		l, err := d.OpenLedger(t.Context(), "", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		made, former, err = d.firstToken(t.Context(), l, "test")
		if err := errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
		return made, former
	}
	read := func(file string) string {
		t.Helper()
		secret, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(secret)
	}
	if made, former := start(); !made || former != "" {
		t.Fatalf("a new folder: made %v, former %q", made, former)
	}
	first := read(d.tokenFile())
	if made, former := start(); made || former != "" || read(d.tokenFile()) != first { // the control
		t.Errorf("the same ledger again: made %v, former %q", made, former)
	}
	files, err := filepath.Glob(filepath.Join(d.Path, "ledger.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	made, former := start()
	if !made || former == "" || read(former) != first || read(d.tokenFile()) == first {
		t.Errorf("another ledger: made %v, former %q", made, former)
	}
	if text := d.usedBefore(former); !strings.Contains(text, former) || !strings.Contains(text, "turnus admin restore") {
		t.Error(text)
	}
}
