package node

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport"
)

// Logins by certificates of Vault's SSH engine, through the flags, on a real sshd that knows only
// the CA.
func TestVaultSignsLoginsAgainstOpenSSH(t *testing.T) {
	vault := servers.StartSimulatedVault(t)
	trusted := writeText(t, "ca.pub", string(ssh.MarshalAuthorizedKey(vault.SSHCA)), 0o600)
	server := servers.StartSSHD(t, servers.SSHDConfig("TrustedUserCAKeys "+trusted))
	token := writeText(t, "token", vault.NewToken(0, false, "ssh/sign/turnus", "auth/"), 0o600)
	own := writeText(t, "own.yaml", "vault: {address: \""+vault.URL+"\", ca_file: "+vault.CAFile+", token_file: "+token+`}
credentials:
  right: {ca_vault: ssh/turnus, addresses: [127.0.0.0/8]}
  wrong: {ca_vault: ssh/other, addresses: [127.0.0.0/8]}
`, 0o600)
	for role, works := range map[string]bool{"right": true, "wrong": false} {
		h := server.Host("web1")
		h.SSH.Credential = role
		out, err := nodeLogin(t, own, h)
		if works && (err != nil || out != "in\n") || !works && (err == nil || !strings.Contains(err.Error(), "Vault answers 403")) {
			t.Errorf("%s: got %q, %v", role, out, err)
		}
	}
	if n := vault.Seen("POST ssh/sign/turnus"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// nodeLogin prints "in" on a host, as a worker with this file of its own does.
func nodeLogin(t *testing.T, own string, h core.Host) (string, error) {
	t.Helper()
	f := Flags{SSH: SSHFlags{knownHosts: []string{"/dev/null"}, ConnectTimeout: time.Minute}, secrets: SecretFlags{File: own}}
	log := slog.New(slog.DiscardHandler)
	store, err := f.secrets.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	pool, err := f.connect(t.Context(), ByCredentials, func() *inventory.Inventory { return nil }, store, log)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	_, err = pool.Run(t.Context(), h, transport.Exec{Command: "echo in", Stdout: &out})
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	return out.String(), err
}
