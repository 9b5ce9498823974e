//go:build vault

package secrets

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// openAt is a store whose own file names a real Vault. It keeps nothing.
func openAt(t *testing.T, v *servers.Vault, login, own string) *Store {
	t.Helper()
	return openStore(t, fmt.Sprintf("vault:\n  address: %s\n  allow: [kv/common]\n  %s\nsecrets:\n%s", v.URL, login, own), func(c *Config) { c.Keep = -1 })
}

func resolve(t *testing.T, s *Store, name string) (string, error) {
	t.Helper()
	got, err := s.Resolve(t.Context(), Ask{Name: name, Host: fw, Playbook: "push"})
	return string(got), err
}

// waitFor looks again and again until ok, for a minute.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); !ok(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

const ownEntries = `
  two: {vault: "kv/fw/api#token"}
  number: {vault: "kv/fw/api#port"}
  object: {vault: "kv/fw/api#both"}
  missing: {vault: "kv/fw/api#user"}
  none: {vault: "kv/fw/api#none"}
  one: {vault: "old/fw#token"}
  old: {vault: "old/nowhere#token"}
  nowhere: {vault: "kv/nowhere#token"}
  gone: {vault: "kv/gone#token"}
  engine: {vault: "ssh/fw#token"}
  mount: {vault: "nothing/fw#token"}
  host: {vault: "kv/hosts/{host}/{playbook}#token"}
  hidden: {vault: "kv/hidden#token"}
`

// One token may do everything, the other only what docs/secrets.md lists.
func TestRealVaultEngines(t *testing.T) {
	v := servers.StartVault(t)
	v.Put(t, "kv/fw/api", map[string]any{"token": "hunter2 one"})
	v.Put(t, "kv/fw/api", map[string]any{"token": "hunter2 two", "port": 8443, "both": map[string]any{"a": 1}, "none": nil})
	v.Put(t, "kv/gone", map[string]any{"token": "hunter2"})
	v.Delete(t, "kv/data/gone")
	v.Put(t, "kv/hidden", map[string]any{"token": "hunter2"})
	v.Put(t, "kv/hosts/fw-1/push", map[string]any{"token": "hunter2 host"})
	v.Put(t, "old/fw", map[string]any{"token": "hunter2 one"})
	v.Policy(t, "reader", map[string]string{"kv/data/fw/api": "read", "kv/data/hosts/*": "read", "kv/data/gone": "read", "kv/data/nowhere": "read", "old/*": "read"})
	for who, token := range map[string]string{"root": v.Token, "reader": v.NewToken(t, time.Hour, 0, "reader")} {
		s := openAt(t, v, "token_file: "+writeFile(t, "token", token, 0o600), ownEntries)
		for name, want := range map[string]string{"two": "hunter2 two", "number": "8443", "object": `{"a":1}`, "one": "hunter2 one", "host": "hunter2 host"} {
			if got, err := resolve(t, s, name); err != nil || got != want {
				t.Errorf("%s: %s: got %q, %v; expected %q", who, name, got, err, want)
			}
		}
		for name, want := range map[string]string{"missing": `kv/fw/api has no field "user"`, "none": "is null", "nowhere": "nothing at kv/nowhere", "gone": "nothing at kv/gone", "old": "nothing at old/nowhere"} {
			_, err := resolve(t, s, name)
			expectError(t, err, core.ErrNotFound, want)
		}
		_, err := resolve(t, s, "mount")
		expectError(t, err, core.ErrInvalid, "nothing/fw is mounted", "Vault answers 403", "policy")
		_, err = resolve(t, s, "engine")
		got, hidden := resolve(t, s, "hidden")
		if who == "root" {
			expectError(t, err, core.ErrInvalid, "ssh/fw", "only key-value engines")
			if hidden != nil || got != "hunter2" {
				t.Errorf("root: got %q, %v", got, hidden)
			}
			continue
		}
		expectError(t, err, core.ErrInvalid, "ssh/fw is mounted", "Vault answers 403")
		expectError(t, hidden, core.ErrInvalid, "Vault answers 403 to GET kv/data/hidden", "its policy does not allow it")
	}
}

// A token of a file is renewed as long as that goes, and then another one is looked for there.
func TestRealVaultTokenEnds(t *testing.T) {
	t.Parallel()
	v := servers.StartVault(t)
	v.Put(t, "kv/a", map[string]any{"x": "hunter2"})
	v.Policy(t, "a", map[string]string{"kv/data/a": "read"})
	began := time.Now()
	file := writeFile(t, "token", v.NewToken(t, 3*time.Second, 6*time.Second, "a"), 0o600)
	s := openAt(t, v, "token_file: "+file, "  a: {vault: kv/a#x}\n")
	var last error
	waitFor(t, "the end of the token", func() bool {
		_, last = resolve(t, s, "a")
		return last != nil
	})
	expectError(t, last, core.ErrInvalid, "Vault answers 403")
	if held := time.Since(began); held < 5*time.Second {
		t.Errorf("it ended after %v: it was not renewed", held)
	}
	if err := os.WriteFile(file, []byte(v.NewToken(t, time.Hour, 0, "a")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := resolve(t, s, "a"); err != nil || got != "hunter2" {
		t.Errorf("with a new token in its file: %q, %v", got, err)
	}
}

func TestRealVaultAppRole(t *testing.T) {
	t.Parallel()
	v := servers.StartVault(t)
	v.Put(t, "kv/a", map[string]any{"x": "hunter2"})
	v.Put(t, "kv/b", map[string]any{"x": "hunter2"})
	v.Policy(t, "a", map[string]string{"kv/data/a": "read"})
	role, id := v.AppRole(t, "turnus", 3*time.Second, "a")
	others := v.Tokens(t)
	file := writeFile(t, "secret-id", "hunter2 wrong", 0o600)
	s := openAt(t, v, "approle: {role_id: "+role+", secret_id_file: "+file+"}", "  a: {vault: kv/a#x}\n  b: {vault: kv/b#x}\n")
	write := func(id string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(id), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong")
	_, err := resolve(t, s, "a")
	expectError(t, err, core.ErrInvalid, "log in by approle", "Vault answers 400 to POST auth/approle/login")
	write(id)
	began := time.Now()
	ours := ""
	waitFor(t, "a token that is older than it holds", func() bool {
		if got, err := resolve(t, s, "a"); err != nil || got != "hunter2" {
			t.Fatalf("got %q, %v after %v", got, err, time.Since(began))
		}
		for _, a := range v.Tokens(t) {
			switch {
			case slices.Contains(others, a):
			case ours == "":
				ours = a
			case ours != a:
				t.Fatalf("it logged in again after %v: it was not renewed", time.Since(began))
			}
		}
		return time.Since(began) > 5*time.Second
	})
	_, err = resolve(t, s, "b")
	expectError(t, err, core.ErrInvalid, "kv/data/b", "policy")
	v.Ask(t, "auth/token/revoke-accessor", map[string]any{"accessor": ours}, nil)
	if got, err := resolve(t, s, "a"); err != nil || got != "hunter2" {
		t.Errorf("after its token was revoked: %q, %v", got, err)
	}
	s.Close()
	if left := v.Tokens(t); len(left) != len(others) {
		t.Errorf("%d tokens hold, expected the %d from before", len(left), len(others))
	}
}

// A request that a role does not allow is refused, and the message names it.
func TestRealVaultSignsWhatTheRoleAllows(t *testing.T) {
	v := servers.StartVault(t)
	v.Ask(t, "ssh/roles/turnus", map[string]any{"key_type": "ca", "allow_user_certificates": true, "allowed_users": "root,ops", "max_ttl": "10m", "allowed_critical_options": "force-command",
		"default_extensions": map[string]string{"permit-port-forwarding": ""}}, nil)
	s := openAt(t, v, "token_file: "+writeFile(t, "token", v.Token, 0o600), "  a: {vault: kv/a#x}\n")
	_, public := servers.NewSSHKey(t)
	role, err := ParseSSHRole("ssh/turnus")
	if err != nil {
		t.Fatal(err)
	}
	cert, err := s.SignSSH(t.Context(), role, public, []string{"root", "ops"}, 5*time.Minute, map[string]string{"force-command": "true"})
	if err != nil {
		t.Fatal(err)
	}
	_, forwards := cert.Extensions["permit-port-forwarding"]
	if life := time.Until(time.Unix(int64(cert.ValidBefore), 0)); string(cert.Key.Marshal()) != string(public.Marshal()) || !slices.Equal(cert.ValidPrincipals, []string{"ops", "root"}) || cert.CertType != ssh.UserCert ||
		cert.CriticalOptions["force-command"] != "true" || !forwards || life < 4*time.Minute || life > 6*time.Minute {
		t.Errorf("got %+v for %v", cert, life)
	}
	for name, c := range map[string]struct {
		role, principal string
		life            time.Duration
		options         map[string]string
	}{
		"principal": {"ssh/turnus", "admin", time.Minute, nil},
		"lifetime":  {"ssh/turnus", "root", time.Hour, nil},
		"option":    {"ssh/turnus", "root", time.Minute, map[string]string{"source-address": "192.0.2.0/24"}},
		"role":      {"ssh/other", "root", time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			role, err := ParseSSHRole(c.role)
			if err != nil {
				t.Fatal(err)
			}
			words := []string{"Vault answers 400 to POST " + role.mount + "/sign/" + role.role, c.principal, c.life.String()}
			for option := range c.options {
				words = append(words, option)
			}
			_, err = s.SignSSH(t.Context(), role, public, []string{c.principal}, c.life, c.options)
			expectError(t, err, core.ErrInvalid, words...)
		})
	}
}
