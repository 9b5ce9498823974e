package secrets

import (
	"strings"
	"testing"
)

func TestPutKeepsAllElse(t *testing.T) {
	old, _, public := encryptFor(t, "old")
	encrypted, err := Encrypt([]byte("new"), []string{public})
	if err != nil {
		t.Fatal(err)
	}
	head := "# of the team\nrecipients:\n  - " + public + "   # worker\n\n"
	first := "  # for monitoring\n  snmp:   # v3\n    tenants: [acme]\n    age: |\n" + indented(6, old) + "    hosts: 'true'   # all\n\n"
	second := "  # of the API\n  api: {vault: kv/fw#token}\n"
	tail := "# the end\n"

	for name, c := range map[string]struct{ before, put, after string }{
		"in place": {
			head + "secrets:\n" + first + second + tail, "snmp",
			head + "secrets:\n" + strings.Replace(first, indented(6, old), indented(6, encrypted), 1) + second + tail,
		},
		"at the end": {
			head + "secrets:\n" + first + second + tail, "more",
			head + "secrets:\n" + first + second + "  more:\n    age: |\n" + indented(6, encrypted) + tail,
		},
		"first of all": {
			head + "secrets:\n", "snmp",
			head + "secrets:\n  snmp:\n    age: |\n" + indented(6, encrypted),
		},
		"no key yet": {
			strings.TrimRight(head, "\n"), "snmp",
			strings.TrimRight(head, "\n") + "\nsecrets:\n  snmp:\n    age: |\n" + indented(6, encrypted),
		},
	} {
		got, err := Put("secrets.yaml", []byte(c.before), c.put, encrypted)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if string(got) != c.after {
			t.Errorf("%s: got\n%s\nexpected\n%s", name, got, c.after)
		}
	}

	// Other ways to write it are also taken, at the price of blank lines.
	for name, before := range map[string]string{
		"flow":   head + "secrets: {snmp: {vault: kv/a#b}}\n",
		"quoted": head + "secrets:\n  snmp: {vault: kv/a#b}\n  more:\n    age: \"" + strings.ReplaceAll(old, "\n", `\n`) + "\"\n",
	} {
		got, err := Put("secrets.yaml", []byte(before), "more", encrypted)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f, err := ParseTree("secrets.yaml", got)
		if err != nil || len(f.Entries) != 2 || strings.TrimSpace(f.Entries[1].Age) != strings.TrimSpace(encrypted) || !strings.Contains(string(got), "# of the team") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	if _, err := Put("secrets.yaml", []byte(head+"secrets:\n"+second), "api", encrypted); err == nil || !strings.Contains(err.Error(), "is in vault") {
		t.Errorf("a reference to Vault was replaced: %v", err)
	}
	if _, err := Put("secrets.yaml", []byte(head), "a b", encrypted); err == nil {
		t.Error("a name that is none was taken")
	}
}

// FuzzPut: an edit is refused, or changes the one name and nothing else.
func FuzzPut(f *testing.F) {
	old, _, public := encryptFor(f, "old")
	encrypted, err := Encrypt([]byte("new"), []string{public})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("secrets:\n  a:\n    age: |\n"+indented(6, old)+"  b: {vault: kv/x#y}\n", "a")
	f.Add("secrets: {a: {vault: kv/x#y}}\n# end", "c")
	f.Add("recipients: ["+public+"]", "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		before, err := ParseOwn("f", []byte(text))
		if err != nil {
			return
		}
		out, err := Put("f", []byte(text), name, encrypted)
		if err == nil && !onlyChanged("f", before, out, name, encrypted) {
			t.Errorf("%q became %q", text, out)
		}
	})
}
