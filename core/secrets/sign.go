package secrets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// SSHRole is a role of Vault's SSH engine that signs user certificates.
type SSHRole struct{ mount, role string }

// ParseSSHRole reads MOUNT/ROLE, as ssh/turnus. Errors wrap core.ErrInvalid.
func ParseSSHRole(text string) (SSHRole, error) {
	at := strings.LastIndexByte(text, '/')
	if at < 1 || !safePath(text) {
		return SSHRole{}, fmt.Errorf("%q: expected the mount of Vault's SSH engine and a role of it, such as ssh/turnus: %w", yamlread.Clip(text), core.ErrInvalid)
	}
	return SSHRole{text[:at], text[at+1:]}, nil
}

// HasVault reports whether the node's own file names a Vault.
func (s *Store) HasVault() bool { return s.vault != nil }

// SignSSH has Vault sign a user certificate for a key. The role decides what the certificate may
// contain; extensions are the role's defaults. Errors are as those of Resolve.
func (s *Store) SignSSH(ctx context.Context, by SSHRole, key ssh.PublicKey, principals []string, lifetime time.Duration, options map[string]string) (*ssh.Certificate, error) {
	if s.vault == nil {
		return nil, fmt.Errorf("this node has no Vault: give vault: in its own file (--secrets): %w", core.ErrInvalid)
	}
	ask := map[string]any{
		"public_key": string(ssh.MarshalAuthorizedKey(key)), "cert_type": "user",
		"valid_principals": strings.Join(principals, ","), "ttl": fmt.Sprintf("%ds", int(lifetime.Seconds())),
	}
	if len(options) > 0 {
		ask["critical_options"] = options
	}
	var answer struct {
		Data struct {
			SignedKey string `json:"signed_key"`
		} `json:"data"`
	}
	if err := s.vault.authorized(ctx, http.MethodPost, by.mount+"/sign/"+by.role, ask, &answer); err != nil {
		return nil, refused(err, principals, lifetime, options)
	}
	signed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(answer.Data.SignedKey))
	cert, ok := signed.(*ssh.Certificate)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s/sign/%s gave no certificate: is it a role of an SSH engine that signs? %w", by.mount, by.role, core.ErrInvalid)
	}
	return cert, nil
}

// refused adds what the role that refused was asked for: Vault's own words are not passed on, see
// vaultStatus.
func refused(err error, principals []string, lifetime time.Duration, options map[string]string) error {
	if s := (*vaultStatus)(nil); !errors.As(err, &s) || s.code != http.StatusBadRequest {
		return err
	}
	asked := strings.Join(principals, ", ") + " for " + lifetime.String()
	if len(options) > 0 {
		asked += " with " + strings.Join(slices.Sorted(maps.Keys(options)), ", ")
	}
	return fmt.Errorf("%w: is there such a role, and does it allow %s?", err, asked)
}
