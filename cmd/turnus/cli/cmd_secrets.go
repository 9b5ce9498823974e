package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

func (a *app) secretsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "secrets",
		Short: "Encrypted secrets of a project: encrypt, edit, rotate, list and check them",
		Long: `Encrypted secrets of a project: encrypt, edit, rotate, list and check them.

A value is encrypted to public keys. Workers that have one of the private keys decrypt it.
It is read from the terminal or from stdin, never from an argument.`,
		Example: `  turnus secrets keygen worker.age
  turnus secrets encrypt snmp --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p
  turnus secrets ls`,
	}
	c.AddCommand(a.secretsKeygenCmd(), a.secretsEncryptCmd(), a.secretsEditCmd(), a.secretsRotateCmd(), a.secretsLsCmd(), a.secretsCheckCmd())
	return c
}

// secretFile is the file that a command works on.
type secretFile struct {
	path string
	mode fs.FileMode
	data []byte
	said *secrets.File
}

func addSecretFile(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "file", "secrets.yaml", "file of secrets")
}

func addIdentities(c *cobra.Command, files *[]string) {
	c.Flags().StringArrayVar(files, "secrets-identity", node.IdentityFromEnv(), "file with an age identity, or SSH private key, that decrypts the values (repeatable; TURNUS_SECRETS_IDENTITY)")
}

func readSecretFile(path string) (*secretFile, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, console.Invalid("there is no file of secrets %s\nhint: --file names another file; turnus secrets encrypt begins one", path)
	case err != nil:
		return nil, console.Invalid("%w\nhint: --file names the file; turnus secrets encrypt begins one", err)
	}
	f := &secretFile{path: path, mode: st.Mode().Perm()}
	if f.data, err = settings.ReadFile(path, secrets.MaxFile+1); err != nil {
		return nil, console.Invalid("%w", err)
	}
	f.said, err = secrets.ParseOwn(path, f.data)
	return f, err
}

// entry finds a name. Its error lists the names that exist.
func (f *secretFile) entry(name string) (secrets.Entry, error) {
	var names []string
	for _, e := range f.said.Entries {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return secrets.Entry{}, console.Invalid("%s has no secret %q\nhint: %s", f.path, name, nearOr(name, names))
}

// put encrypts a value to the file's recipients, under a name.
func (f *secretFile) put(name string, value []byte) error {
	if len(f.said.Recipients) == 0 {
		return console.Invalid("%s has no recipients\nhint: list their public keys under recipients:, or give --recipient for a new file", f.path)
	}
	if err := secrets.CheckShort(value); err != nil {
		return fmt.Errorf("secret %q: %w", name, err)
	}
	encrypted, err := secrets.Encrypt(value, f.said.Recipients)
	if err != nil {
		return err
	}
	if f.data, err = secrets.Put(f.path, f.data, name, encrypted); err != nil {
		return err
	}
	f.said, err = secrets.ParseOwn(f.path, f.data)
	return err
}

func (f *secretFile) save() error { return securefile.Replace(f.path, f.data, f.mode) }

func (a *app) secretsKeygenCmd() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make an age identity in a new file; its public key goes to stdout", Args: cobra.ExactArgs(1),
		Long: `Make an age identity in a new file, which nobody else can read; its public key goes to
stdout, for recipients: of a file of secrets.`,
		Example: "  turnus secrets keygen worker.age",
		RunE: func(_ *cobra.Command, args []string) error {
			text, public, err := secrets.NewIdentity()
			if err != nil {
				return err
			}
			file, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // one that is there may open something
			if err != nil {
				return console.Invalid("%w", err)
			}
			_, err = file.Write(text)
			if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
				return errors.Join(err, os.Remove(args[0]))
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, map[string]string{"file": args[0], "public_key": public})
			}
			fmt.Fprintln(a.Out, public)
			return nil
		},
	}
}

func (a *app) secretsEncryptCmd() *cobra.Command {
	var path string
	var recipients []string
	c := &cobra.Command{
		Use: "encrypt NAME", Short: "Encrypt a value from the terminal or stdin under a name of the file", Args: cobra.ExactArgs(1),
		Long: `Encrypt a value from the terminal or stdin under a name of the file, in place of the one that
is there. One end of line at its end is not part of it. The rest of the file stays as it is.

A file that does not exist is created, with --recipient as its recipients.`,
		Example: `  turnus secrets encrypt snmp --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p
  turnus secrets encrypt tls_key < key.pem
  openssl rand -hex 16 | turnus secrets encrypt api_token`,
		RunE: func(_ *cobra.Command, args []string) error {
			if !secrets.ValidName(args[0]) {
				return console.Invalid("%q is no name of a secret: expected a letter or _, then letters, digits and _ . -", args[0])
			}
			f, err := secretFileFor(path, recipients)
			if err != nil {
				return err
			}
			value, err := a.readSecret(args[0])
			defer clear(value)
			if err != nil {
				return err
			}
			if err := errors.Join(f.put(args[0], value)); err != nil {
				return err
			}
			if err := f.save(); err != nil {
				return err
			}
			return a.encrypted(f, args)
		},
	}
	addSecretFile(c, &path)
	c.Flags().StringArrayVar(&recipients, "recipient", nil, "public key to which the secrets of a new file are encrypted: age1…, ssh-ed25519 … or ssh-rsa … (repeatable)")
	return c
}

// secretFileFor reads the file, or begins one.
func secretFileFor(path string, recipients []string) (*secretFile, error) {
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(recipients) == 0:
		return nil, console.Invalid("there is no %s yet\nhint: --recipient PUBLIC-KEY begins one; turnus secrets keygen makes a key", path)
	case errors.Is(err, fs.ErrNotExist):
		f := &secretFile{path: path, mode: 0o644}
		if f.data, err = secrets.NewFile(recipients); err == nil {
			f.said, err = secrets.ParseOwn(path, f.data)
		}
		return f, err
	case len(recipients) > 0:
		return nil, console.Invalid("--recipient is for a new file, and %s is there\nhint: add the key to its recipients:, then turnus secrets rotate", path)
	}
	return readSecretFile(path)
}

// encrypted reports what was encrypted.
func (a *app) encrypted(f *secretFile, names []string) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, map[string]any{"file": f.path, "encrypted": names, "recipients": len(f.said.Recipients)})
	}
	fmt.Fprintf(a.Out, "%s: encrypted %s to %s\n", f.path, strings.Join(names, ", "), core.Plural(len(f.said.Recipients), "recipient"))
	return nil
}

func (a *app) secretsRotateCmd() *cobra.Command {
	var path string
	var identities []string
	c := &cobra.Command{
		Use: "rotate", Short: "Encrypt all secrets of the file again, to the recipients that it lists now", Args: cobra.NoArgs,
		Long: `Encrypt all secrets of the file again, to the recipients that it lists now. Edit recipients: first.

A removed recipient can still decrypt the old file in git's history. After you remove one, also
change the values at their source, and encrypt the new ones.`,
		Example: "  turnus secrets rotate --secrets-identity admin.age",
		RunE: func(*cobra.Command, []string) error {
			f, err := readSecretFile(path)
			if err != nil {
				return err
			}
			opener, err := secrets.NewOpener(identities)
			if err != nil {
				return err
			}
			names := []string{}
			for _, e := range f.said.Entries {
				if e.Age == "" {
					continue
				}
				value, err := opener.Open(e.Age)
				if err != nil {
					return fmt.Errorf("%s: secret %q: %w", e.Place(), e.Name, err)
				}
				err = f.put(e.Name, value)
				clear(value)
				if err != nil {
					return err
				}
				names = append(names, e.Name)
			}
			if err := f.save(); err != nil {
				return err
			}
			if a.Output != "json" {
				a.Message("earlier recipients still know these values: if you removed a recipient, change the values at their source, then turnus secrets encrypt")
			}
			return a.encrypted(f, names)
		},
	}
	addSecretFile(c, &path)
	addIdentities(c, &identities)
	return c
}

// listedSecret is one of the -o json document of secrets ls and check.
type listedSecret struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Place     string   `json:"place"`
	Tenants   []string `json:"tenants,omitempty"`
	Playbooks []string `json:"playbooks,omitempty"`
	Hosts     string   `json:"hosts,omitempty"`
	Current   *bool    `json:"encrypted_to_recipients,omitempty"` // of age: to those that the file lists
	OK        *bool    `json:"ok,omitempty"`                      // of check
	Problem   string   `json:"problem,omitempty"`
}

func (f *secretFile) listed(e secrets.Entry) listedSecret {
	l := listedSecret{Name: e.Name, Kind: e.Kind(), Place: e.Place(), Tenants: e.Tenants, Playbooks: e.Playbooks, Hosts: e.Hosts}
	if e.Age != "" {
		current := secrets.EncryptedTo(e.Age, f.said.Recipients)
		l.Current = &current
	}
	return l
}

// limits returns the jobs that may use it, for people.
func (l listedSecret) limits() string {
	var parts []string
	for _, p := range [][2]string{{"tenants", strings.Join(l.Tenants, ",")}, {"playbooks", strings.Join(l.Playbooks, ",")}, {"hosts", l.Hosts}} {
		if p[1] != "" {
			parts = append(parts, p[0]+": "+p[1])
		}
	}
	if len(parts) == 0 {
		return "any"
	}
	return strings.Join(parts, "; ")
}

func (a *app) secretsLsCmd() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "ls", Short: "List the names of the file, where each value is and who may use it", Args: cobra.NoArgs,
		Example: "  turnus secrets ls\n  turnus secrets ls --file /etc/turnus/secrets.yaml -o json",
		RunE: func(*cobra.Command, []string) error {
			f, err := readSecretFile(path)
			if err != nil {
				return err
			}
			list := core.Map(f.said.Entries, f.listed)
			if a.Output == "json" {
				return console.PrintJSON(a.Out, map[string]any{"file": f.path, "recipients": orEmpty(f.said.Recipients), "items": list})
			}
			for _, l := range list {
				note := ""
				if l.Current != nil && !*l.Current {
					note = "  not encrypted to all recipients: turnus secrets rotate"
				}
				fmt.Fprintf(a.Out, "%-24s %-8s %s%s\n", l.Name, l.Kind, console.Printable(l.limits()), note)
			}
			return nil
		},
	}
	addSecretFile(c, &path)
	return c
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (a *app) secretsCheckCmd() *cobra.Command {
	var path string
	var own node.SecretFlags
	c := &cobra.Command{
		Use: "check", Short: "Fetch each secret of the file as a worker would, and report which come", Args: cobra.NoArgs,
		Long: `Fetch each secret of the file as a worker does, and list which are available. No value is
shown. With --secrets, which also names Vault, it also fetches the node's own secrets, and reads
the keys and passwords of its credentials.`,
		Example: `  turnus secrets check --secrets-identity worker.age
  turnus secrets check --secrets /etc/turnus/secrets.yaml --secrets-identity worker.age -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) && own.File != "" && !cmd.Flags().Changed("file") {
				path = "" // the node's own only
			}
			return a.checkSecrets(cmd.Context(), path, &own)
		},
	}
	addSecretFile(c, &path)
	own.Add(c)
	return c
}

func (a *app) checkSecrets(ctx context.Context, path string, own *node.SecretFlags) error {
	store, err := own.Open(a.Logger(false))
	if err != nil {
		return err
	}
	defer store.Close()
	f := &secretFile{said: &secrets.File{}}
	if path != "" {
		if f, err = readSecretFile(path); err != nil {
			return err
		}
		if _, err := secrets.ParseTree(path, f.data); err != nil { // a node's own kinds do not go into a tree
			return err
		}
	}
	list, bad := []listedSecret{}, 0
	for _, e := range append(store.Names(), f.said.Entries...) {
		l := f.listed(e)
		err := store.Try(ctx, e)
		ok := err == nil
		if l.OK = &ok; !ok {
			l.Problem = core.ErrorText(err)
			bad++
		}
		list = append(list, l)
	}
	known := node.NewCredentials(store)
	for _, c := range store.Credentials() {
		l := listedSecret{Name: c.Name, Kind: "credential"}
		err := known.CheckOne(ctx, c)
		ok := err == nil
		if l.OK = &ok; !ok {
			l.Problem = core.ErrorText(err)
			bad++
		}
		list = append(list, l)
	}
	if a.Output == "json" {
		if err := console.PrintJSON(a.Out, map[string]any{"secrets": list}); err != nil {
			return err
		}
	} else {
		for _, l := range list {
			said := "ok"
			if l.Problem != "" {
				said = a.Paint(console.Red, "problem: ") + console.Printable(l.Problem)
			}
			fmt.Fprintf(a.Out, "%-24s %-8s %s\n", l.Name, l.Kind, said)
		}
	}
	if bad > 0 {
		return &console.Exit{Code: console.ExitInvalid}
	}
	return nil
}

// secretFiles are the paths that are files of secrets by their name, and the others.
func secretFiles(paths []string) (files, others []string) {
	for _, p := range paths {
		if base := filepath.Base(p); base == "secrets.yaml" || base == "secrets.yml" {
			files = append(files, p)
		} else {
			others = append(others, p)
		}
	}
	return files, others
}

// validateSecrets checks files of a definitions tree. Problems have no snippet: the line may be the
// one with the value.
func validateSecrets(files []string) (playbooks.Diagnostics, error) {
	var all playbooks.Diagnostics
	for _, path := range files {
		data, err := settings.ReadFile(path, secrets.MaxFile+1)
		if err != nil {
			return nil, console.Invalid("%w", err)
		}
		_, err = secrets.ParseTree(path, data)
		if found, ok := errors.AsType[yamlread.Problems](err); ok {
			for _, p := range found {
				all = append(all, playbooks.Diagnostic{File: p.File, Line: p.Line, Col: p.Col, Message: p.Message, Expected: p.Expected, Hint: p.Hint})
			}
		}
	}
	return all, nil
}

// withProblems adds problems to those of an error, if it is of problems.
func withProblems(err error, more playbooks.Diagnostics) error {
	var found playbooks.Diagnostics
	if len(more) == 0 || err != nil && !errors.As(err, &found) {
		return err
	}
	return append(found, more...)
}
