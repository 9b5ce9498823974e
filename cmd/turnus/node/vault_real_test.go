//go:build vault

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts/servers"
)

// A worker that has no key logs in by a real Vault on a real sshd, which knows the CA alone: for
// the principal that the role allows.
func TestRealVaultSignsLoginsAgainstOpenSSH(t *testing.T) {
	v := servers.StartVault(t)
	var ca struct {
		Data struct {
			PublicKey string `json:"public_key"`
		}
	}
	v.Check(t, "ssh/config/ca", &ca)
	server := servers.StartSSHD(t, servers.SSHDConfig("TrustedUserCAKeys "+writeText(t, "ca.pub", ca.Data.PublicKey, 0o600)))
	for role, user := range map[string]string{"turnus": server.User, "other": "somebody"} {
		v.Ask(t, "ssh/roles/"+role, map[string]any{"key_type": "ca", "allow_user_certificates": true, "allowed_users": user, "max_ttl": "10m"}, nil)
	}
	v.Policy(t, "signs", map[string]string{"ssh/sign/turnus": "update", "ssh/sign/other": "update"})
	vault := fmt.Sprintf("vault: {address: %q, token_file: %s}\n", v.URL, writeText(t, "token", v.NewToken(t, time.Hour, 0, "signs"), 0o600))
	if out, err := nodeLogin(t, ownFile(t, vault, "ssh/turnus"), server.Host("web1")); err != nil || out != "in\n" {
		t.Errorf("got %q, %v; sshd: %s", out, err, server.Log())
	}
	for role, why := range map[string]string{"ssh/other": "Vault answers 400 to POST ssh/sign/other", "ssh/none": "Vault answers 403 to POST ssh/sign/none"} {
		out, err := nodeLogin(t, ownFile(t, vault, role), server.Host("web1"))
		if err == nil || !strings.Contains(err.Error(), "certificate for "+server.User) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %q, %v, expected %q", role, out, err, why)
		}
	}
}

// ownFile is a node's own file whose only credential is a certificate signed by that role of the
// Vault.
func ownFile(t *testing.T, vault, role string) string {
	t.Helper()
	return writeText(t, "own.yaml", vault+fmt.Sprintf("credentials: {default: {ca_vault: %s, ca_lifetime: 5m, addresses: [127.0.0.0/8]}}\n", role), 0o600)
}
