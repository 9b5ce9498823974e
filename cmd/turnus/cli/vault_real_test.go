//go:build vault

package cli

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/vaultlab"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/core/transport/sshdtest"
)

// A worker that has no key logs in by a real Vault on a real sshd, which knows the authority alone: for the principal that the role allows.
func TestRealVaultSignsLoginsAgainstOpenSSH(t *testing.T) {
	v := vaultlab.Start(t)
	var ca struct {
		Data struct {
			PublicKey string `json:"public_key"`
		}
	}
	v.Look(t, "ssh/config/ca", &ca)
	server := sshdtest.Start(t, sshdtest.Config("TrustedUserCAKeys "+writeText(t, "ca.pub", ca.Data.PublicKey, 0o600)))
	for role, user := range map[string]string{"turnus": server.User, "other": "somebody"} {
		v.Ask(t, "ssh/roles/"+role, map[string]any{"key_type": "ca", "allow_user_certificates": true, "allowed_users": user, "max_ttl": "10m"}, nil)
	}
	v.Policy(t, "signs", map[string]string{"ssh/sign/turnus": "update", "ssh/sign/other": "update"})
	vault := fmt.Sprintf("vault: {address: %q, token_file: %s}\n", v.URL, writeText(t, "token", v.NewToken(t, time.Hour, 0, "signs"), 0o600))
	if out, err := vaultLogin(t, vault, "ssh/turnus", server.Host("web1")); err != nil || out != "in\n" {
		t.Errorf("got %q, %v; sshd: %s", out, err, server.Log())
	}
	for role, why := range map[string]string{"ssh/other": "Vault answers 400 to POST ssh/sign/other", "ssh/none": "Vault answers 403 to POST ssh/sign/none"} {
		out, err := vaultLogin(t, vault, role, server.Host("web1"))
		if err == nil || !strings.Contains(err.Error(), "certificate for "+server.User) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %q, %v, expected %q", role, out, err, why)
		}
	}
}

// vaultLogin runs a command on a host, as a worker whose only credential is a certificate signed by that
// role of the Vault.
func vaultLogin(t *testing.T, vault, role string, h core.Host) (string, error) {
	t.Helper()
	own := writeText(t, "own.yaml", vault+fmt.Sprintf("credentials: {default: {ca_vault: %s, ca_lifetime: 5m, addresses: [127.0.0.0/8]}}\n", role), 0o600)
	f := nodeFlags{ssh: sshFlags{knownHosts: []string{"/dev/null"}, connectTimeout: time.Minute}, secrets: secretFlags{file: own}}
	log := slog.New(slog.DiscardHandler)
	store, err := f.secrets.open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	pool, err := f.connect(t.Context(), byCredentials, nil, store, log)
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
