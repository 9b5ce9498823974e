package cli

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/playbooks"
)

// secretFlags say where a node finds the values of secrets.
type secretFlags struct {
	file       string
	identities []string
}

func (f *secretFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "secrets", os.Getenv("TURNUS_SECRETS"), "this node's own file of secrets, and of its Vault (TURNUS_SECRETS)")
	c.Flags().StringArrayVar(&f.identities, "secrets-identity", identityFromEnv(), "file with the age identity, or SSH private key, that opens sealed secrets (repeatable; TURNUS_SECRETS_IDENTITY)")
	readsEnvironment(c.Flags(), "secrets", "secrets-identity")
	namesFiles(c.Flags(), "secrets")
	namesSecretFiles(c.Flags(), "secrets-identity")
}

func identityFromEnv() []string {
	if env := os.Getenv("TURNUS_SECRETS_IDENTITY"); env != "" {
		return []string{env}
	}
	return nil
}

// open makes the store, which works without any of the flags too: it then knows no secret.
func (f *secretFlags) open(log *slog.Logger) (*secrets.Store, error) {
	return secrets.Open(secrets.Config{File: f.file, Identities: f.identities, Selector: hostSelector, Log: log})
}

// hostSelector compiles hosts: of a secret, as targets: has it.
func hostSelector(text string) (func(core.Host) (bool, error), error) {
	expr, err := playbooks.CompileSelector(text)
	if err != nil {
		return nil, err
	}
	return func(h core.Host) (bool, error) { return expr.Bool(playbooks.Env{Host: h}) }, nil
}

// secretsFor says what runs take along of this node's own file, for other nodes to resolve, and which names there are. With a shared
// queue nobody here knows what the others have of their own.
func secretsFor(store *secrets.Store, shared bool) (refs map[string]secrets.Ref, names []string) {
	refs, names = map[string]secrets.Ref{}, []string{}
	for _, e := range store.Names() {
		if names = append(names, e.Name); e.Travels() {
			refs[e.Name] = e.Ref
		}
	}
	if shared {
		return refs, nil
	}
	return nil, names
}

// certFlags say who signs certificates for logins.
type certFlags struct {
	caKey, vault string
	lifetime     time.Duration
}

func (f *certFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.caKey, "ssh-ca-key", "", "private key of an authority on this node that signs a short-lived SSH certificate for each login")
	fl.StringVar(&f.vault, "ssh-ca-vault", "", "the same by Vault: MOUNT/ROLE of its SSH engine, such as ssh/turnus; --secrets says which Vault")
	fl.DurationVar(&f.lifetime, "ssh-cert-lifetime", transport.DefaultLifetime, "how long such a certificate holds, 1m to 24h; another is signed before it ends")
	noteFlags(fl, noteFile, []string{fileSecret, fileHome}, []string{"ssh-ca-key"})
}

// certify is nil where nobody signs.
func (f *certFlags) certify(store *secrets.Store) (transport.Certify, error) {
	switch {
	case f.caKey != "" && f.vault != "":
		return nil, invalid("--ssh-ca-key and --ssh-ca-vault: one authority signs, so give one of them")
	case f.caKey != "":
		authority, err := transport.NewAuthority(f.caKey, f.lifetime, "turnus "+nodeName())
		if err != nil {
			return nil, invalid("--ssh-ca-key: %w", err)
		}
		return authority.Certify, nil
	case f.vault == "":
		return nil, nil //nolint:nilnil // nobody signs
	}
	role, err := secrets.ParseSSHRole(f.vault)
	if err != nil {
		return nil, invalid("--ssh-ca-vault: %w", err)
	}
	if store == nil || !store.HasVault() {
		return nil, invalid("--ssh-ca-vault needs a Vault\nhint: name it under vault: in the file of --secrets")
	}
	if err := transport.CheckLifetime(f.lifetime); err != nil {
		return nil, invalid("--ssh-cert-lifetime: %w", err)
	}
	return func(ctx context.Context, r transport.CertificateRequest) (*ssh.Certificate, error) {
		return store.SignSSH(ctx, role, r.Key, r.Principals, f.lifetime, r.CriticalOptions())
	}, nil
}
