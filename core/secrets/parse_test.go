package secrets

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// encryptFor encrypts a value to a new identity.
func encryptFor(tb testing.TB, value string) (encrypted, identity, public string) {
	tb.Helper()
	text, public, err := NewIdentity()
	if err != nil {
		tb.Fatal(err)
	}
	identity = filepath.Join(tb.TempDir(), "id.age")
	if err := os.WriteFile(identity, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	if encrypted, err = Encrypt([]byte(value), []string{public}); err != nil {
		tb.Fatal(err)
	}
	return encrypted, identity, public
}

func TestTreeTakesOnlyWhatACommitMayName(t *testing.T) {
	encrypted, _, public := encryptFor(t, "s3cret")
	text := "recipients:\n  - " + public + "\nsecrets:\n  snmp:\n    age: |\n" + indented(6, encrypted) +
		"    tenants: [acme, borealis]\n    hosts: host.site == \"fra\"\n  api: {vault: \"kv/{tenant}/fw#token\", playbooks: push}\n"
	f, err := ParseTree("secrets.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Entries) != 2 || f.Entries[0].Place() != "secrets.yaml:4:3" || f.Entries[0].Age != encrypted || len(f.Entries[0].Tenants) != 2 ||
		f.Entries[1].Vault != "kv/{tenant}/fw#token" || f.Entries[1].Playbooks[0] != "push" {
		t.Errorf("got %+v", f.Entries)
	}
	if !EncryptedTo(encrypted, f.Recipients) || EncryptedTo(encrypted, append(f.Recipients, public)) {
		t.Error("its recipients are not seen")
	}

	for name, wrong := range map[string][2]string{
		"env":            {"secrets: {a: {env: HOME}}", "cannot read environments"},
		"file":           {"secrets: {a: {file: /etc/shadow}}", "cannot read environments"},
		"command":        {"secrets: {a: {command: id}}", "nor run commands"},
		"argv":           {"secrets: {a: {command: [id]}}", "nor run commands"},
		"vault settings": {"vault: {address: https://evil}", `unknown key "vault"`},
		"plain text":     {"secrets: {a: hunter2}", "in the clear"},
		"plain age":      {"secrets: {a: {age: hunter2}}", "no armored age ciphertext"},
		"two places":     {"secrets: {a: {vault: kv/a#b, age: |-\n" + indented(4, encrypted) + "}}", ""},
		"twice":          {"secrets:\n  a: {vault: kv/a#b}\n  a: {vault: kv/a#c}", `key "a" is given twice`},
		"bad name":       {"secrets: {1a: {vault: kv/a#b}}", "is no name"},
		"bad path":       {"secrets: {a: {vault: kv/../sys#b}}", "between slashes"},
		"no field":       {"secrets: {a: {vault: kv/a}}", "no field is named"},
		"odd mount":      {"secrets: {a: {vault: \"{tenant}/a#b\"}}", "must not depend"},
		"placeholder":    {"secrets: {a: {vault: \"kv/{user}#b\"}}", "unknown placeholder"},
		"misspelt":       {"secrets: {a: {valut: kv/a#b}}", `did you mean "vault"?`},
		"alias":          {"x: &x {vault: kv/a#b}\nsecrets: {a: *x}", "unknown key"},
		"recipient":      {"recipients: [age1nonsense]", "no age public key"},
		"private key":    {"recipients: [AGE-SECRET-KEY-1QQQQ]", "a private key stands here"},
		"empty limit":    {"secrets: {a: {vault: kv/a#b, tenants: []}}", "the list is empty"},
		"no yaml":        {"secrets: {a: 'hunter2", "not YAML"},
	} {
		_, err := ParseTree("secrets.yaml", []byte(wrong[0]))
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), wrong[1]) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, expected ErrInvalid with %q", name, err, wrong[1])
		}
	}
}

func TestOwnFileTakesAllKinds(t *testing.T) {
	f, err := ParseOwn("own.yaml", []byte(`
secrets:
  a: {env: A}
  b: {file: b.txt}
  c: {command: pass show c}
  d: {command: [pass, show, d]}
  e: {vault: kv/e#x}
vault: {address: "https://vault:8200", token_file: vault-token, allow: "kv/{tenant}"}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Entries) != 5 || f.Entries[3].Argv[2] != "d" || f.Vault == nil || f.Vault.TokenFile != "vault-token" {
		t.Errorf("got %+v, %+v", f.Entries, f.Vault)
	}
	for _, wrong := range [][2]string{
		{`vault: {address: "http://vault:8200", token_env: T}`, "without TLS"},
		{`vault: {address: "https://vault:8200"}`, "0 ways to log in"},
		{`vault: {address: "https://vault:8200", token_env: T, token_file: f}`, "2 ways to log in"},
		{`vault: {address: "https://u:p@vault:8200", token_env: T}`, "expected https"},
		{`vault: {address: "https://vault:8200", approle: {role_id: r}}`, "one of secret_id_file"},
		{`vault: {address: "https://vault:8200", token_env: T, allow: ["../sys"]}`, "allow:"},
		{`vault: {address: "https://vault:8200", token_env: T, client_cert_file: c}`, "belong together"},
	} {
		if _, err := ParseOwn("own.yaml", []byte(wrong[0])); err == nil || !strings.Contains(err.Error(), wrong[1]) {
			t.Errorf("%s: got %v, expected %q", wrong[0], err, wrong[1])
		}
	}
}

// FuzzParse: no file makes the parser panic, and no error quotes a value.
func FuzzParse(f *testing.F) {
	f.Add("recipients: []\nsecrets:\n  a: {vault: kv/a#b}\n", true)
	f.Add("secrets: {a: {age: |\n -----BEGIN AGE ENCRYPTED FILE-----\n}}", false)
	f.Add("vault: {approle: {role_id: x}}", true)
	f.Fuzz(func(t *testing.T, text string, own bool) {
		file, err := parse("f", []byte(text), own)
		if (file == nil) == (err == nil) {
			t.Fatalf("got %v and %v", file, err)
		}
		if err != nil {
			return
		}
		for _, e := range file.Entries {
			if e.kinds() != 1 || !own && e.Kind() != kindVault && e.Kind() != kindAge {
				t.Errorf("took %+v", e)
			}
		}
	})
}
