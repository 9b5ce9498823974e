package secrets

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// withVault is a node's own file that names the server.
func withVault(s *servers.SimulatedVault, login, own string) string {
	return fmt.Sprintf("vault:\n  address: %s\n  ca_file: %s\n  allow: [\"kv/tenants/{tenant}\", kv/common]\n%s\nsecrets:\n%s", s.URL, s.CAFile, login, own)
}

func TestVaultEngines(t *testing.T) {
	v := servers.StartSimulatedVault(t)
	t.Setenv("TURNUS_TEST_TOKEN", v.Token)
	v.Put("kv/fw/api", map[string]any{"token": "hunter2 two", "port": 8443, "both": map[string]any{"a": 1}, "none": nil})
	v.Put("kv/gone", nil)
	v.Put("old/fw", map[string]any{"token": "hunter2 one"})
	v.Put("kv/hosts/fw-1/push", map[string]any{"token": "hunter2 host"})
	s := openStore(t, withVault(v, "  token_env: TURNUS_TEST_TOKEN", `
  two: {vault: "kv/fw/api#token"}
  number: {vault: "kv/fw/api#port"}
  object: {vault: "kv/fw/api#both"}
  missing: {vault: "kv/fw/api#user"}
  none: {vault: "kv/fw/api#none"}
  one: {vault: "old/fw#token"}
  nowhere: {vault: "kv/nowhere#token"}
  gone: {vault: "kv/gone#token"}
  engine: {vault: "ssh/fw#token"}
  mount: {vault: "nothing/fw#token"}
  host: {vault: "kv/hosts/{host}/{playbook}#token"}
`), nil)
	for name, want := range map[string]string{"two": "hunter2 two", "number": "8443", "object": `{"a":1}`, "one": "hunter2 one", "host": "hunter2 host"} {
		if got, err := s.Resolve(t.Context(), Ask{Name: name, Host: fw, Playbook: "push"}); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v; expected %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"missing": `no field "user"`, "none": "is null", "nowhere": "nothing at kv/nowhere", "gone": "nothing at kv/gone"} {
		_, err := s.Resolve(t.Context(), Ask{Name: name, Host: fw})
		expectError(t, err, core.ErrNotFound, want)
	}
	_, err := s.Resolve(t.Context(), Ask{Name: "engine", Host: fw})
	expectError(t, err, core.ErrInvalid, "only key-value engines")
	_, err = s.Resolve(t.Context(), Ask{Name: "mount", Host: fw})
	expectError(t, err, core.ErrInvalid, "Vault answers 403", "policy")
	_, err = s.Resolve(t.Context(), Ask{Name: "host", Host: core.Host{Name: "../../sys"}, Playbook: "push"})
	expectError(t, err, core.ErrInvalid, "no part of a path")
}

// The node decides what a tree's reference may read of Vault. The control is the same path in the
// node's own file.
func TestVaultAllow(t *testing.T) {
	v := servers.StartSimulatedVault(t)
	t.Setenv("TURNUS_TEST_TOKEN", v.Token)
	for _, path := range []string{"kv/tenants/acme/api", "kv/tenants/borealis/api", "kv/common/ntp", "kv/root", "kv/commonplace"} {
		v.Put(path, map[string]any{"x": "hunter2"})
	}
	s := openStore(t, withVault(v, "  token_env: TURNUS_TEST_TOKEN", `  own: {vault: "kv/root#x"}`+"\n"), nil)
	resolve := func(path, tenant string) error {
		_, err := s.Resolve(t.Context(), Ask{Name: "x", Tenant: tenant, Host: fw, Encrypted: map[string]Ref{"x": {Vault: path}}})
		return err
	}
	for _, path := range []string{"kv/tenants/acme/api#x", "kv/tenants/{tenant}/api#x", "kv/common/ntp#x"} {
		if err := resolve(path, "acme"); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, tenant := range map[string]string{"kv/tenants/borealis/api#x": "acme", "kv/root#x": "acme", "kv/commonplace#x": "acme", "kv/tenants/acme/api#x": "", "kv/tenants/{tenant}/api#x": "../common"} {
		expectError(t, resolve(path, tenant), core.ErrInvalid)
	}
	if n := v.Seen("GET kv/data/root"); n != 0 {
		t.Errorf("Vault was asked %d times for what is not allowed", n)
	}
	if _, err := s.Resolve(t.Context(), Ask{Name: "own", Host: fw}); err != nil {
		t.Error(err)
	}
}

func TestVaultIsAskedAgainAndSaysWhy(t *testing.T) {
	v := servers.StartSimulatedVault(t)
	t.Setenv("TURNUS_TEST_TOKEN", v.Token)
	v.Put("kv/a", map[string]any{"x": "hunter2"})
	s := openStore(t, withVault(v, "  token_env: TURNUS_TEST_TOKEN", "  a: {vault: kv/a#x}\n  b: {vault: kv/b#x}\n"), func(c *Config) { c.Keep = -1 })
	v.Wait(t, "GET auth/token/lookup-self", 1)
	resolve := func() error {
		_, err := s.Resolve(t.Context(), Ask{Name: "a", Host: fw})
		return err
	}
	if err := resolve(); err != nil {
		t.Fatal(err)
	}
	v.Break(http.StatusServiceUnavailable, http.StatusTooManyRequests)
	if err := resolve(); err != nil {
		t.Errorf("after two bad answers: %v", err)
	}
	v.Break(http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusServiceUnavailable)
	expectError(t, resolve(), core.ErrUnavailable, "sealed")
	v.Break(http.StatusTemporaryRedirect)
	expectError(t, resolve(), core.ErrInvalid, "sends elsewhere")
	v.Break(http.StatusForbidden)
	if err := resolve(); err == nil || strings.Contains(err.Error(), "said by the server") {
		t.Errorf("got %v, expected an error without the answer's body", err)
	}

	v.Namespace = "ops"
	expectError(t, resolve(), core.ErrNotFound)
}

func TestVaultAppRole(t *testing.T) {
	t.Parallel()
	v := servers.StartSimulatedVault(t)
	v.Namespace = "ops"
	v.AppRole("turnus", "hunter2-id", 9*time.Second, "kv/data/a", "auth/")
	v.Put("kv/a", map[string]any{"x": "hunter2"})
	id := writeFile(t, "secret-id", "hunter2-id\n", 0o600)
	s := openStore(t, withVault(v, "  namespace: ops\n  approle: {role_id: turnus, secret_id_file: "+id+"}", "  a: {vault: kv/a#x}\n  b: {vault: kv/b#x}\n"), func(c *Config) { c.Keep = -1 })
	resolve := func(name string) error {
		_, err := s.Resolve(t.Context(), Ask{Name: name, Host: fw})
		return err
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := resolve("a"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := v.Seen("POST auth/approle/login"); n != 1 {
		t.Errorf("logged in %d times for 20 uses at the same time", n)
	}
	v.Wait(t, "POST auth/token/renew-self", 1) // after 6 s; a loaded machine has 3 s for it
	v.AppRole("turnus", "hunter2-id", time.Hour, "kv/data/a", "auth/")
	v.RevokeAll()
	if err := resolve("a"); err != nil {
		t.Errorf("after its token was revoked: %v", err)
	}
	for range 5 {
		expectError(t, resolve("b"), core.ErrInvalid, "policy")
	}
	if n := v.Seen("POST auth/approle/login"); n != 2 {
		t.Errorf("logged in %d times, expected 2: what a policy forbids is no reason to", n)
	}
	v.AppRole("turnus", "another", time.Hour)
	v.RevokeAll()
	expectError(t, resolve("a"), core.ErrInvalid, "log in by approle")
	v.AppRole("turnus", "hunter2-id", time.Hour)
	if err := resolve("a"); err != nil {
		t.Error(err)
	}
	s.Close()
	if n := v.Live(); n != 0 {
		t.Errorf("%d tokens are left behind", n)
	}
}

// A renewal that is answered after another token came must not bring the old one back.
func TestVaultLateRenewal(t *testing.T) {
	t.Parallel()
	v := servers.StartSimulatedVault(t)
	v.AppRole("turnus", "hunter2-id", time.Hour)
	v.Put("kv/a", map[string]any{"x": "hunter2"})
	id := writeFile(t, "secret-id", "hunter2-id\n", 0o600)
	s := openStore(t, withVault(v, "  approle: {role_id: turnus, secret_id_file: "+id+"}", "  a: {vault: kv/a#x}\n"), func(c *Config) { c.Keep = -1 })
	resolve := func() {
		t.Helper()
		if _, err := s.Resolve(t.Context(), Ask{Name: "a", Host: fw}); err != nil {
			t.Error(err)
		}
	}
	resolve()
	send := v.Late("POST auth/token/renew-self")
	renewed := make(chan error, 1)
	go func() { renewed <- s.vault.renew(t.Context()) }()
	v.Wait(t, "POST auth/token/renew-self", 1)
	v.RevokeAll()
	resolve()
	send()
	if err := <-renewed; err != nil {
		t.Error(err)
	}
	resolve()
	if n := v.Seen("POST auth/approle/login"); n != 2 {
		t.Errorf("logged in %d times, expected 2", n)
	}
	s.Close()
	if n := v.Live(); n != 0 {
		t.Errorf("%d tokens are left behind", n)
	}
}

func TestVaultTokenFileIsReadAgain(t *testing.T) {
	t.Parallel()
	v := servers.StartSimulatedVault(t)
	v.Put("kv/a", map[string]any{"x": "hunter2"})
	first := v.NewToken(9*time.Second, true)
	file := writeFile(t, "token", first+"\n", 0o600)
	s := openStore(t, withVault(v, "  token_file: "+file, "  a: {vault: kv/a#x}\n"), func(c *Config) { c.Keep = -1 })
	v.Wait(t, "POST auth/token/renew-self", 1) // without any use, after 6 s
	resolve := func() error {
		_, err := s.Resolve(t.Context(), Ask{Name: "a", Host: fw})
		return err
	}
	if err := resolve(); err != nil {
		t.Fatal(err)
	}
	v.Revoke(first)
	expectError(t, resolve(), core.ErrInvalid, "403")
	if err := os.WriteFile(file, []byte(v.NewToken(0, false)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := resolve(); err != nil {
		t.Errorf("with a new token in its file: %v", err)
	}
	s.Close()
	if n := v.Live(); n != 1 {
		t.Errorf("%d tokens hold, expected 1: one that was given is not this node's to revoke", n)
	}
}

func TestVaultThatIsAway(t *testing.T) {
	t.Setenv("TURNUS_TEST_TOKEN", "x")
	s := openStore(t, "vault: {address: \"http://127.0.0.1:1\", token_env: TURNUS_TEST_TOKEN}\nsecrets: {a: {vault: kv/a#x}}\n", nil)
	_, err := s.Resolve(t.Context(), Ask{Name: "a", Host: fw})
	expectError(t, err, core.ErrUnavailable, "does not answer", "own.yaml:2:11")
	s = openStore(t, "secrets: {a: {vault: kv/a#x}}\n", nil)
	_, err = s.Resolve(t.Context(), Ask{Name: "a", Host: fw})
	expectError(t, err, core.ErrInvalid, "no Vault")
	_, err = Open(Config{File: writeFile(t, "own.yaml", "vault: {address: \"https://x\", token_env: T, ca_file: nowhere}", 0o600)})
	if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("got %v", err)
	}
}

func TestVaultOverTLS(t *testing.T) {
	v := servers.StartSimulatedVault(t)
	v.ClientCN = "worker-1"
	t.Setenv("TURNUS_TEST_TOKEN", v.Token)
	v.Put("kv/a", map[string]any{"x": "hunter2"})
	cert, key := clientPair(t, "worker-1")
	for name, c := range map[string]struct {
		settings string
		kind     error
		word     string
	}{
		"mutual":           {"ca_file: " + v.CAFile + ", client_cert_file: " + cert + ", client_key_file: " + key, nil, ""},
		"no client's":      {"ca_file: " + v.CAFile, core.ErrInvalid, "403"},
		"not the right CA": {"ca_file: " + cert + ", client_cert_file: " + cert + ", client_key_file: " + key, core.ErrUnavailable, "certificate"},
	} {
		s := openStore(t, "vault: {address: \""+v.URL+"\", token_env: TURNUS_TEST_TOKEN, "+c.settings+"}\nsecrets: {a: {vault: kv/a#x}}\n", nil)
		got, err := s.Resolve(t.Context(), Ask{Name: "a", Host: fw})
		if c.kind == nil && (err != nil || string(got) != "hunter2") {
			t.Errorf("%s: got %q, %v", name, got, err)
		} else if c.kind != nil {
			expectError(t, err, c.kind, c.word)
		}
	}
}

// A CA that is exchanged while the node works is believed with the next connection.
func TestVaultsCAIsReadAgain(t *testing.T) {
	v := servers.StartSimulatedVault(t)
	t.Setenv("TURNUS_TEST_TOKEN", v.Token)
	v.Put("kv/a", map[string]any{"x": "hunter2"})
	ca, _ := clientPair(t, "another")
	s := openStore(t, "vault: {address: \""+v.URL+"\", token_env: TURNUS_TEST_TOKEN, ca_file: "+ca+"}\nsecrets: {a: {vault: kv/a#x}}\n", nil)
	_, err := s.Resolve(t.Context(), Ask{Name: "a", Host: fw})
	expectError(t, err, core.ErrUnavailable, "certificate") // negative control
	text, err := os.ReadFile(v.CAFile)
	if err == nil {
		err = os.WriteFile(ca, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		got, err := s.Resolve(t.Context(), Ask{Name: "a", Host: fw})
		if err == nil && string(got) == "hunter2" {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("waited a minute for the renewed CA: %v", err)
		case <-tick.C:
		}
	}
}

// clientPair is a certificate that nobody signed but itself, and its key.
func clientPair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, about, about, public, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return writeFile(t, "cert.pem", text("CERTIFICATE", signed), 0o600), writeFile(t, "key.pem", text("PRIVATE KEY", secret), 0o600)
}

func TestVaultSignsSSHCertificates(t *testing.T) {
	v := servers.StartSimulatedVault(t)
	t.Setenv("TURNUS_TEST_TOKEN", v.Token)
	s := openStore(t, withVault(v, "  token_env: TURNUS_TEST_TOKEN", ""), nil)
	role, err := ParseSSHRole("ssh/turnus")
	if err != nil {
		t.Fatal(err)
	}
	_, public := servers.NewSSHKey(t)
	cert, err := s.SignSSH(t.Context(), role, public, []string{"root", "ops"}, 5*time.Minute, map[string]string{"force-command": "true"})
	if err != nil {
		t.Fatal(err)
	}
	checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return string(k.Marshal()) == string(v.SSHCA.Marshal()) }, SupportedCriticalOptions: []string{"force-command"}}
	if err := checker.CheckCert("ops", cert); err != nil || string(cert.Key.Marshal()) != string(public.Marshal()) || cert.CriticalOptions["force-command"] != "true" {
		t.Errorf("got %+v, %v", cert, err)
	}
	v.Break(http.StatusBadRequest)
	_, err = s.SignSSH(t.Context(), role, public, []string{"root", "ops"}, 5*time.Minute, map[string]string{"force-command": "true"})
	expectError(t, err, core.ErrInvalid, "Vault answers 400 to POST ssh/sign/turnus", "root, ops for 5m0s with force-command")
	for _, wrong := range []string{"turnus", "ssh/../sys", "/turnus", ""} {
		if _, err := ParseSSHRole(wrong); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: got %v", wrong, err)
		}
	}
}
