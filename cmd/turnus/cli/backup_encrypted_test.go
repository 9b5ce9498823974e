package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
)

// A backup of an encrypted ledger names the key that reads it, loudly where the key ring was not
// given or lacks it, and so does what is done with it later. The negative control is one of a
// ledger that is not encrypted.
func TestBackupSaysWhichKeysItTakes(t *testing.T) {
	t.Setenv("TURNUS_LEDGER", "")
	t.Setenv("TURNUS_KEYRING", "")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	made := func(name, ring string) {
		t.Helper()
		var o ledger.Options
		if ring != "" {
			r, err := keyring.Open(ring, keyring.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o.Keyring = r
		}
		l, err := ledger.Open(t.Context(), "sqlite:"+at(name), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	key, err := keyring.New(at("ring.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.New(at("other.json")); err != nil {
		t.Fatal(err)
	}
	made("encrypted.db", at("ring.json"))
	made("plain.db", "")
	const loud = ", which was not given: after a restore it can be read only with the key ring"
	of := func(db, where string, more ...string) []string {
		return append([]string{"admin", "backup", "--ledger", "sqlite:" + at(db), "--no-outputs", at(where)}, more...)
	}
	for _, tc := range []struct {
		args      []string
		code      int
		want, not string
	}{
		{of("encrypted.db", "b"), console.ExitOK, "encrypted with key " + key.String() + loud, "nothing"},
		{of("encrypted.db", "b", "--keyring", at("other.json")), console.ExitOK, "encrypted with key " + key.String() + loud, "nothing"},
		{of("encrypted.db", "b", "--keyring", at("ring.json")), console.ExitOK, "backup ", "warning"},
		{of("encrypted.db", "b", "--keyring", at("ring.json"), "-o", "json"), console.ExitOK, `"` + key.String() + `"`, "warning"},
		{[]string{"admin", "backup", "ls", at("b")}, console.ExitOK, "left out  " + key.String(), "nothing"},
		{[]string{"admin", "backup", "verify", at("b")}, console.ExitOK, "it takes the key ring with key " + key.String() + " to read it", "FAULT"},
		{[]string{"admin", "restore", at("b"), "--ledger", "sqlite:" + at("new.db"), "--no-outputs"}, console.ExitOK, "give the service the key ring with key " + key.String(), "nothing"},
		{[]string{"admin", "prune", "--ledger", "sqlite:" + at("new.db"), "--data", dir}, console.ExitInvalid, "its data is encrypted", "nothing"},
		{[]string{"admin", "prune", "--ledger", "sqlite:" + at("new.db"), "--data", dir, "--keyring", at("ring.json")}, console.ExitOK, "", "is encrypted"},
		{of("plain.db", "p"), console.ExitOK, "backup ", "is encrypted"},
		{[]string{"admin", "backup", "ls", at("p"), "-o", "json"}, console.ExitOK, `"keys": []`, "nothing"},
		{[]string{"admin", "backup", "verify", at("p")}, console.ExitOK, "sound", "key ring"},
		{[]string{"admin", "restore", at("p"), "--ledger", "sqlite:" + at("newer.db"), "--no-outputs"}, console.ExitOK, "restored backup", "key ring"},
	} {
		var out, errs bytes.Buffer
		code := Main(tc.args, strings.NewReader(""), &out, &errs)
		if text := out.String() + errs.String(); code != tc.code || !strings.Contains(text, tc.want) || strings.Contains(text, tc.not) {
			t.Errorf("%v: exit %d, expected %d with %q and without %q\n%s", tc.args, code, tc.code, tc.want, tc.not, text)
		}
	}
}
