package node

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/playbooks"
)

// SecretFlags define where a node finds the values of secrets.
type SecretFlags struct {
	File       string
	identities []string
}

// Add gives the command the flags.
func (f *SecretFlags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.File, "secrets", os.Getenv("TURNUS_SECRETS"), "this node's own file: its credentials for hosts, its secrets, its Vault (TURNUS_SECRETS)")
	c.Flags().StringArrayVar(&f.identities, "secrets-identity", IdentityFromEnv(), "file with the age identity, or SSH private key, that decrypts secrets (repeatable; TURNUS_SECRETS_IDENTITY)")
	settings.ReadsEnvironment(c.Flags(), "secrets", "secrets-identity")
	settings.NamesFiles(c.Flags(), "secrets")
	settings.NamesSecretFiles(c.Flags(), "secrets-identity")
}

// SecretFlagsOf returns the values of a command's flags, or of the environment where it has no such
// flags.
func SecretFlagsOf(fl *pflag.FlagSet) *SecretFlags {
	f := &SecretFlags{File: os.Getenv("TURNUS_SECRETS"), identities: IdentityFromEnv()}
	if fl != nil && fl.Lookup("secrets") != nil {
		f.File, _ = fl.GetString("secrets") // it is a text
		f.identities, _ = fl.GetStringArray("secrets-identity")
	}
	return f
}

// IdentityFromEnv returns the files of age identities that the environment names.
func IdentityFromEnv() []string {
	if env := os.Getenv("TURNUS_SECRETS_IDENTITY"); env != "" {
		return []string{env}
	}
	return nil
}

// Open makes the store. Without any of the flags the store has no secret.
func (f *SecretFlags) Open(log *slog.Logger) (*secrets.Store, error) {
	return secrets.Open(secrets.Config{File: f.File, Identities: f.identities, Selector: hostSelector, Log: log})
}

// hostSelector compiles hosts: of a secret, as targets: has it.
func hostSelector(text string) (func(core.Host) (bool, error), error) {
	expr, err := playbooks.CompileSelector(text)
	if err != nil {
		return nil, err
	}
	return func(h core.Host) (bool, error) { return expr.Bool(playbooks.Env{Host: h}) }, nil
}

// SecretsFor returns what runs take along of this node's own file, for other nodes to resolve, and
// which names there are. With a shared queue nobody here knows what the others have of their own.
func SecretsFor(store *secrets.Store, shared bool) (refs map[string]secrets.Ref, names []string) {
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
