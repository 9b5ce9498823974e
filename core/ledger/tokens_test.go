package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts"
)

// holding returns which files of the ledger's folder hold the bytes.
func holding(t *testing.T, dir string, what []byte) (files []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "ledger*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, what) {
			files = append(files, path)
		}
	}
	return files
}

// Neither a guess nor a copy of the ledger gives a token. With the control that the search sees
// what is stored: the hash.
func TestTokensAreNeitherGuessedNorReadFromTheLedger(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	l := open(t, "sqlite:"+filepath.Join(dir, "ledger.db"))
	const tokens = 128
	seen := map[string]bool{}
	var ones [256]int
	for i := range tokens {
		secret, _, err := l.NewToken(ctx, "root", ledger.Token{Name: fmt.Sprint("t", i), Tenant: "a", Roles: []string{"admin"}})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.TrimPrefix(secret, ledger.TokenPrefix)
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || len(raw) != 32 || seen[text] {
			t.Fatalf("a token of %d bytes, known before: %t, %v; expected 32 new ones", len(raw), seen[text], err)
		}
		seen[text] = true
		for bit := range ones {
			ones[bit] += int(raw[bit/8]>>(bit%8)) & 1
		}
		if i > 0 {
			continue
		}
		hash := sha256.Sum256([]byte(secret))
		for what, bytes := range map[string][]byte{"its text": []byte(text), "its bytes": raw} {
			if files := holding(t, dir, bytes); len(files) > 0 {
				t.Errorf("%s of a token are in %v", what, files)
			}
		}
		if len(holding(t, dir, hash[:])) == 0 {
			t.Error("control: the search does not find the hash of a token")
		}
		raw[31] ^= 1
		for what, guess := range map[string]string{
			"one bit off": ledger.TokenPrefix + base64.RawURLEncoding.EncodeToString(raw),
			"the hash":    ledger.TokenPrefix + base64.RawURLEncoding.EncodeToString(hash[:]),
			"the bytes":   string(hash[:]), "the id": "t0", "cut": secret[:len(secret)-1],
		} {
			if _, err := l.Authenticate(ctx, guess); !errors.Is(err, core.ErrNotFound) {
				t.Errorf("%s is admitted: %v", what, err)
			}
		}
		if _, err := l.Authenticate(ctx, secret); err != nil {
			t.Errorf("control: the token itself is refused: %v", err)
		}
	}
	for bit, n := range ones { // that a random one is always the same has a probability of 2^-127
		if n == 0 || n == tokens {
			t.Errorf("bit %d is the same in all of %d tokens", bit, tokens)
		}
	}
}

// Another user of the machine neither lists the folder of a SQLite ledger nor reads its files,
// whatever the umask is. With the control that the user does where their modes allow it.
func TestOtherUsersReadNothingOfASQLiteLedger(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "another user", errors.New("only root may start a program as another user"))
	}
	top, err := os.MkdirTemp("", "ledger") //nolint:usetesting // the folders of a test let no other user in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	dir := filepath.Join(top, "data")
	path := filepath.Join(dir, "ledger.db")
	before := syscall.Umask(0) // of the process: this test is not parallel, and others run before or after it
	l := open(t, "sqlite:"+path)
	_, _, err = l.NewToken(t.Context(), "root", ledger.Token{Name: "t", AllTenants: true, Roles: []string{"admin"}})
	syscall.Umask(before)
	if err = errors.Join(err, os.Chmod(top, 0o755)); err != nil {
		t.Fatal(err)
	}
	stranger := func(program string, args ...string) error {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = "/"
		return cmd.Run()
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v; expected the ledger and its log", files, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	if stranger("ls", dir) == nil {
		t.Error("another user lists the folder")
	}
	for _, open := range []bool{false, true} { // the second wall: a folder that somebody opened
		if open {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := stranger("ls", dir); err != nil {
				t.Fatalf("control: in a folder of mode 0755: %v", err)
			}
		}
		for _, file := range files {
			if stranger("cat", file) == nil {
				t.Errorf("another user reads %s; its folder opened: %t", filepath.Base(file), open)
			}
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := stranger("cat", path); err != nil {
		t.Errorf("control: a ledger of mode 0644: %v", err)
	}
}
