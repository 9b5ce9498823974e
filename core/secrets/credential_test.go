package secrets

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

const twoCredentials = `credentials:
  default:
    agent: SSH_AUTH_SOCK
    addresses: [192.0.2.0/24, 2001:db8::/32, "*.example.net", fw1.example.org]
  acme:
    identity_file: keys/acme
    password: {env: ACME_PASSWORD}
    tenants: [acme]
    groups: [edge, core]
    addresses: 198.51.100.7
`

func mustCredential(t *testing.T, s *Store, h core.Host) *Credential {
	t.Helper()
	c, err := s.Credential(h)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func named(name, customer string, groups ...string) core.Host {
	return core.Host{Name: "fw-1", Customer: customer, Groups: groups, SSH: core.SSH{Credential: name}}
}

// A credential goes to the addresses that its own file lists, and nowhere else.
func TestFaultS1CredentialsKeepToTheirAddresses(t *testing.T) {
	c := mustCredential(t, openStore(t, twoCredentials, nil), core.Host{Name: "x"})
	for _, tt := range []struct {
		dialled, at string
		ok          bool
	}{
		{"192.0.2.9", "192.0.2.9", true},
		{"anything.test", "192.0.2.9", true},
		{"192.0.2.9", "::ffff:192.0.2.9", true},
		{"2001:db8::1", "2001:db8::1", true},
		{"a.example.net", "203.0.113.5", true},
		{"A.Example.NET.", "203.0.113.5", true},
		{"fw1.example.org", "", true},
		{"203.0.113.5", "203.0.113.5", false},
		{"evil.test", "203.0.113.5", false},
		{"192.0.2.9", "203.0.113.5", false}, // what is dialled counts, not the text
		{"192.0.2.9.evil.test", "203.0.113.5", false},
		{"192.0.2.9", "", false}, // nobody knows where that is
		{"example.net", "", false},
		{"evilexample.net", "", false},
		{"fw1.example.org.evil.test", "", false},
		{"127.0.0.1", "127.0.0.1", false},
	} {
		var at netip.Addr
		if tt.at != "" {
			at = netip.MustParseAddr(tt.at)
		}
		err := c.Reaches(tt.dialled, at)
		if (err == nil) != tt.ok {
			t.Errorf("%s at %q: got %v", tt.dialled, tt.at, err)
		}
		if err != nil && !strings.Contains(err.Error(), "own.yaml:2:3") {
			t.Errorf("the place is missing: %v", err)
		}
	}
}

// By its own data a host gets the credential that it names only if it is of its tenants and groups.
func TestFaultS1CredentialsKeepToTheirTenantsAndGroups(t *testing.T) {
	s := openStore(t, twoCredentials, nil)
	mustCredential(t, s, named("acme", "acme", "all", "edge"))
	for word, h := range map[string]core.Host{
		`tenant "globex"`: named("acme", "globex", "edge"), "no tenant": named("acme", "", "edge"), "groups edge, core": named("acme", "acme", "other"),
	} {
		_, err := s.Credential(h)
		expectError(t, err, core.ErrInvalid, word, "own.yaml:5:3")
	}
	_, err := s.Credential(named("acmee", "acme"))
	expectError(t, err, core.ErrNotFound, `names credential "acmee"`, "credentials:")
	_, err = openStore(t, "", nil).Credential(core.Host{Name: "x"})
	expectError(t, err, core.ErrNotFound, "names no credential", "--secrets")
}

func TestCredentialsThatAreWrong(t *testing.T) {
	for name, tt := range map[string][2]string{
		"unknown key":       {"credentials: {a: {adresses: 192.0.2.1, agent: /s}}", `did you mean "addresses"`},
		"no addresses":      {"credentials: {a: {agent: /s}}", "addresses are missing"},
		"nothing to offer":  {"credentials: {a: {addresses: 192.0.2.1}}", "nothing to log in with"},
		"a password itself": {"credentials: {a: {password: hunter2, addresses: 192.0.2.1}}", "give one of env"},
		"bad network":       {"credentials: {a: {agent: /s, addresses: 192.0.2.1/24}}", "no IP address"},
		"bad name":          {"credentials: {a: {agent: /s, addresses: \"a*b\"}}", "no IP address"},
		"all names":         {"credentials: {a: {agent: /s, addresses: \"*\"}}", "no IP address"},
		"two authorities":   {"credentials: {a: {ca_key: k, ca_vault: ssh/x, addresses: 192.0.2.1}}", "give one of them"},
		"twice":             {"credentials:\n  a: {agent: /s, addresses: 192.0.2.1}\n  a: {agent: /s, addresses: 192.0.2.1}", `key "a" is given twice`},
		"lifetime":          {"credentials: {a: {ca_key: k, ca_lifetime: soon, addresses: 192.0.2.1}}", "expected a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseOwn("own.yaml", []byte(tt[0]))
			expectError(t, err, core.ErrInvalid, "own.yaml:", tt[1])
		})
	}
	_, err := ParseTree("secrets.yaml", []byte("credentials: {a: {agent: /s, addresses: 192.0.2.1}}"))
	expectError(t, err, core.ErrInvalid, "secrets.yaml:1:14", "credential: NAME")
	_, err = Open(Config{File: writeFile(t, "own.yaml", "credentials: {a: {ca_vault: ssh/x, addresses: 192.0.2.1}}", 0o600)})
	expectError(t, err, core.ErrInvalid, "vault: in this file")
	_, err = Open(Config{File: writeFile(t, "own.yaml", twoCredentials, 0o620)})
	expectError(t, err, core.ErrInvalid, "chmod 600")
}

// The file is read again when it changes; one that is wrong, or that others may write, changes
// nothing.
func TestOwnFileIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, twoCredentials+"secrets: {a: {env: OLD}}\n", nil)
		away := netip.MustParseAddr("203.0.113.5")
		put := func(text string, mode os.FileMode) {
			t.Helper()
			if err := os.WriteFile(s.cfg.File, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(s.cfg.File, mode); err != nil {
				t.Fatal(err)
			}
			<-time.After(securefile.MaxAge) // of the bubble's clock
		}
		wide := "credentials: {default: {agent: /s, addresses: 203.0.113.0/24}}\nsecrets: {b: {env: NEW}}\n"
		for _, step := range []struct {
			text string
			mode os.FileMode
			ok   bool
		}{{wide + "oops: 1\n", 0o600, false}, {wide, 0o666, false}, {wide, 0o600, true}, {"secrets: [", 0o600, true}} {
			put(step.text, step.mode)
			if err := mustCredential(t, s, core.Host{}).Reaches("x", away); (err == nil) != step.ok {
				t.Errorf("%q, mode %o: got %v", step.text, step.mode, err)
			}
		}
		if names := s.Names(); len(names) != 1 || names[0].Name != "b" {
			t.Errorf("secrets: %v", names)
		}
	})
}

// A worker without --secrets reports that the file is missing, not that a file lacks the
// credential.
func TestCredentialWithoutAFile(t *testing.T) {
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Credential(named("", "acme"))
	if err == nil || !strings.Contains(err.Error(), "started without --secrets FILE\nhint: define it under credentials: of a file, and give the file by --secrets") {
		t.Errorf("error %v", err)
	}
}
