package definitions

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core/secrets"
)

// encryptedFile is a file with one encrypted secret, and its two parts.
func encryptedFile(t *testing.T, value string) (text, public, encrypted string) {
	t.Helper()
	_, public, err := secrets.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if encrypted, err = secrets.Encrypt([]byte(value), []string{public}); err != nil {
		t.Fatal(err)
	}
	return "recipients: [" + public + "]\nsecrets:\n  snmp:\n    age: |\n      " + strings.ReplaceAll(strings.TrimSpace(encrypted), "\n", "\n      ") + "\n", public, encrypted
}

func TestSecretsAreReadWithTheSet(t *testing.T) {
	text, _, encrypted := encryptedFile(t, "hush")
	s := mustSet(t, with(good(), "secrets.yaml", text+"    tenants: [acme]\n  api: {vault: kv/fw#token, playbooks: patch}\n"))
	refs := s.SecretRefs()
	if len(refs) != 2 || strings.TrimSpace(refs["snmp"].Age) != strings.TrimSpace(encrypted) || refs["snmp"].Tenants[0] != "acme" || refs["api"].Vault != "kv/fw#token" || len(s.Warnings) > 0 {
		t.Errorf("got %+v, warnings %v", refs, s.Warnings)
	}
	again, err := FromDocuments(t.Context(), s.Documents(), Options{})
	if err != nil || again.Hash() != s.Hash() || len(again.Secrets) != 2 {
		t.Errorf("not the same out of its documents: %v", err)
	}
	s = mustSet(t, with(good(), "secrets/a.yaml", text, "secrets/b.yaml", "secrets: {api: {vault: kv/fw#token}}\n"))
	if len(s.Secrets) != 2 || s.Secrets[0].Name != "api" || s.Secrets[1].Place() != "secrets/a.yaml:3:3" {
		t.Errorf("got %+v", s.Secrets)
	}
	for name, c := range map[string][2]string{
		"unknown playbook": {"secrets: {api: {vault: kv/fw#token, playbooks: pach}}\n", `secrets.yaml:1:11: secret "api" is for playbook "pach", which does not exist`},
		"other recipients": {strings.Replace(text, "recipients: [", "recipients: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJwV1Xn3bGmYGLzPLU6Tw1YYdqVWm5bBwPMmhgzBs3dO, ", 1), "turnus secrets rotate"},
		"no recipients":    {text[strings.Index(text, "secrets:"):], "has no recipients"},
	} {
		s := mustSet(t, with(good(), "secrets.yaml", c[0]))
		if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].String(), c[1]) {
			t.Errorf("%s: got %v, expected a warning with %q", name, s.Warnings, c[1])
		}
	}
}

func TestSecretsReportMistakes(t *testing.T) {
	text, _, _ := encryptedFile(t, "hush")
	for name, c := range map[string]struct {
		tree map[string]string
		want string
	}{
		"plain text":   {with(good(), "secrets.yaml", "secrets:\n  snmp: hush\n"), `secrets.yaml:2:9: secret "snmp" stands here in the clear`},
		"plain age":    {with(good(), "secrets.yaml", "secrets:\n  snmp: {age: hush}\n"), "no armored age ciphertext"},
		"worker's env": {with(good(), "secrets.yaml", "secrets: {snmp: {env: HOME}}\n"), "secrets.yaml:1:23: env: a project cannot read"},
		"twice":        {with(good(), "secrets/a.yaml", text, "secrets/b.yaml", text), `secrets/b.yaml:3:3: secret "snmp" is there twice`},
		"hosts":        {with(good(), "secrets.yaml", text+"    hosts: host.nmae == \"a\"\n"), `secrets.yaml:3:3: secret "snmp" has a hosts: that is no expression`},
	} {
		_, err := FromDocuments(t.Context(), docsOf(c.tree), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v, expected %q", name, err, c.want)
		}
	}
}

func TestDiffOfSecretsShowsNoValues(t *testing.T) {
	one, _, _ := encryptedFile(t, "hush")
	two, _, _ := encryptedFile(t, "hush2")
	limited := one + "    tenants: [acme]\n"
	for name, c := range map[string][3]string{
		"added":     {"", limited, "+ secret snmp\n    encrypted by age, for tenants acme\n"},
		"removed":   {one, "", "- secret snmp\n    encrypted by age\n"},
		"encrypted": {one, two, "~ secret snmp\n    its encrypted value\n"},
		"limits":    {one, limited, "~ secret snmp\n    tenants: none -> [\"acme\"]\n"},
		"moved":     {one, "secrets: {snmp: {vault: kv/fw#x}}\n", "~ secret snmp\n    from age to vault\n    vault: none -> kv/fw#x\n"},
		"comment":   {one, one + "# here\n", "no changes\n"},
	} {
		got := textOf(t, Diff(mustSet(t, with(good(), "secrets.yaml", c[0])), mustSet(t, with(good(), "secrets.yaml", c[1])), noon))
		if !strings.Contains(got, c[2]) || strings.Contains(got, "BEGIN AGE") {
			t.Errorf("%s: got\n%s\nexpected\n%s", name, got, c[2])
		}
	}
}
