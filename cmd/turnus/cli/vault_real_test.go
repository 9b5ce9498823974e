//go:build vault

package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts/vaultlab"
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
	own := writeText(t, "own.yaml", fmt.Sprintf("vault: {address: %q, token_file: %s}\n", v.URL, writeText(t, "token", v.NewToken(t, time.Hour, 0, "signs"), 0o600)), 0o600)
	if out, err := vaultLogin(t, own, "ssh/turnus", server.Host("web1")); err != nil || out != "in\n" {
		t.Errorf("got %q, %v; sshd: %s", out, err, server.Log())
	}
	for role, why := range map[string]string{"ssh/other": "Vault answers 400 to POST ssh/sign/other", "ssh/none": "Vault answers 403 to POST ssh/sign/none"} {
		out, err := vaultLogin(t, own, role, server.Host("web1"))
		if err == nil || !strings.Contains(err.Error(), "certificate for "+server.User) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %q, %v, expected %q", role, out, err, why)
		}
	}
}
