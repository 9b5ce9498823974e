package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/transport"
)

// UserLoginFlags are the keys, agent and passwords of the person who types a command. They are for
// that person's run in that person's process only. Workers have credentials.
type UserLoginFlags struct {
	Keys                          []string
	Agent, sshConfig              string
	password, passwordCommand     string
	passphrase, passphraseCommand string
	caKey, caVault                string
	askBecome                     bool
	become, becomeCommand         string // where the password for sudo is
	becomeAnswer                  string // what was typed
	certLifetime                  time.Duration
	firstContact                  []string
	used                          func(name string) bool // reports whether a flag was given
}

var userLoginFlagNames = []string{
	"private-key", "agent", "ssh-config", "password-env", "password-command", "passphrase-env", "passphrase-command",
	"ask-become-pass", "become-password-env", "become-password-command",
	"ssh-ca-key", "ssh-ca-vault", "ssh-cert-lifetime",
}

// Add gives the command the flags.
func (f *UserLoginFlags) Add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringArrayVar(&f.Keys, "private-key", nil, "key file (repeatable; default: ~/.ssh/id_*)")
	fl.StringVar(&f.Agent, "agent", "", `socket of an ssh-agent, or "none" (default: SSH_AUTH_SOCK)`)
	fl.StringVar(&f.sshConfig, "ssh-config", "", "import this ssh_config")
	fl.StringVar(&f.password, "password-env", "", "environment variable that holds the password")
	fl.StringVar(&f.passwordCommand, "password-command", "", "command that prints the password")
	fl.StringVar(&f.passphrase, "passphrase-env", "", "environment variable that holds the passphrase of key files")
	fl.StringVar(&f.passphraseCommand, "passphrase-command", "", "command that prints the passphrase of key files")
	fl.StringVar(&f.caKey, "ssh-ca-key", "", "private key of a certificate authority that signs a short-lived SSH certificate for each login")
	fl.StringVar(&f.caVault, "ssh-ca-vault", "", "the same by Vault: MOUNT/ROLE of its SSH engine, such as ssh/turnus; --secrets names the Vault")
	fl.DurationVar(&f.certLifetime, "ssh-cert-lifetime", transport.DefaultLifetime, "how long such a certificate holds, 1m to 24h; another is signed before it ends")
	f.used = fl.Changed
}

// AddBecome gives a command that runs steps the flags of the password for sudo.
func (f *UserLoginFlags) AddBecome(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVarP(&f.askBecome, "ask-become-pass", "K", false, "ask for the password that sudo asks the login for")
	fl.StringVar(&f.become, "become-password-env", "", "environment variable that holds the password for sudo")
	fl.StringVar(&f.becomeCommand, "become-password-command", "", "command that prints the password for sudo")
}

// AddFirstContact gives a command whose hosts may be unknown the flag for them. It is for runs of
// this process only: several workers would each have a first contact of their own.
func (f *UserLoginFlags) AddFirstContact(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.firstContact, "first-contact", nil, "address or network where the inventory's first_contact: pin counts: pin keys of unknown hosts, unverified (repeatable)")
}

// networks reads --first-contact.
func (f *UserLoginFlags) networks() ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range f.firstContact {
		network, err := netip.ParsePrefix(text)
		if at, one := netip.ParseAddr(text); one == nil {
			network, err = at.Unmap().Prefix(at.Unmap().BitLen())
		}
		if err != nil {
			return nil, console.Invalid("--first-contact %s: expected an address or a network, such as 192.0.2.7 or 192.0.2.0/24", text)
		}
		list = append(list, network)
	}
	return list, nil
}

// Ask asks on the terminal for what must be typed before a host is contacted.
func (f *UserLoginFlags) Ask(con *console.Console) error {
	if !f.askBecome {
		return nil
	}
	typed, err := con.AskUnseen("password for sudo: ")
	if err != nil {
		return console.Invalid("--ask-become-pass: %w\nhint: without a terminal, use --become-password-env or --become-password-command", err)
	}
	defer clear(typed)
	f.becomeAnswer = string(typed)
	return nil
}

// refuse returns an error if a flag was given. Others who write to a queue would choose the hosts
// that get the login.
func (f *UserLoginFlags) refuse() error {
	if len(f.firstContact) > 0 {
		return console.Invalid("--first-contact: with --redis, other workers also contact the hosts, and each would pin a key of its own\n" +
			"hint: accept the keys: turnus hostkeys scan -i INVENTORY, then turnus hostkeys accept")
	}
	for _, name := range userLoginFlagNames {
		if f.used != nil && f.used(name) {
			return console.Invalid("--%s: with --redis, jobs of other people also run here, and they must not get your login\n"+
				"hint: define a credential in a file, give it by --secrets, and name it in the inventory: credential: NAME; docs/secrets.md shows how", name)
		}
	}
	return nil
}

// userLogins makes the logins of a person's run from flags and the person's inventory. Hosts that
// name a credential get that. Safe for concurrent use.
type userLogins struct {
	f     *UserLoginFlags
	inv   func() *inventory.Inventory
	named *Credentials
	base  transport.Credential // of all hosts

	mu   sync.Mutex
	made map[string]*transport.Credential // by the value in the inventory
}

func (f *UserLoginFlags) logins(ctx context.Context, inv func() *inventory.Inventory, store *secrets.Store, log *slog.Logger) (*userLogins, error) {
	o := &userLogins{f: f, inv: inv, named: NewCredentials(store), made: map[string]*transport.Credential{}}
	keys := transport.NewKeys(func(file string) ([]byte, error) {
		text, err := secretFrom(ctx, f.passphrase, f.passphraseCommand)
		if err == nil && text == "" {
			err = fmt.Errorf("%s is encrypted\nhint: --passphrase-env, --passphrase-command, or an ssh-agent", file)
		}
		return []byte(text), err
	})
	o.base.Keys, o.base.Others = keys, f.Keys
	if f.Keys == nil {
		o.base.Others = keys.Usual(log)
	}
	for _, file := range f.Keys {
		if err := keys.Check(file); err != nil {
			return nil, err
		}
	}
	if o.base.Agent = cmp.Or(f.Agent, os.Getenv("SSH_AUTH_SOCK")); o.base.Agent == "none" {
		o.base.Agent = ""
	}
	if f.become != "" { // each host would fail, one after the other
		if _, err := secretFrom(ctx, f.become, ""); err != nil {
			return nil, console.Invalid("--become-password-env: %w\nhint: set it, or let -K ask for the password", err)
		}
	}
	switch {
	case f.caKey != "" && f.caVault != "":
		return nil, console.Invalid("--ssh-ca-key and --ssh-ca-vault: one certificate authority signs, so give one of them")
	case f.caVault != "" && !store.HasVault():
		return nil, console.Invalid("--ssh-ca-vault needs a Vault\nhint: name it under vault: in the file of --secrets")
	}
	var err error
	if o.base.Signer, err = signerOf(store, f.caKey, f.caVault, f.certLifetime); err != nil {
		return nil, console.Invalid("--ssh-ca-key, --ssh-ca-vault, --ssh-cert-lifetime: %w", err)
	}
	return o, nil
}

// of is a transport.Config.Credential.
func (o *userLogins) of(h core.Host) (*transport.Credential, error) {
	if h.SSH.Credential != "" {
		return o.named.of(h)
	}
	var said inventory.Login
	if inv := o.inv(); inv != nil {
		said = inv.Login(h.Name)
	}
	key := ""
	if !said.None() { // an inventory has none for most hosts, and each call asks for it
		key = fmt.Sprintf("%q", said)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.made[key]; c != nil {
		return c, nil
	}
	c := o.base
	c.Identities = said.IdentityFiles
	if said.CertificateFile != "" {
		c.Certificates = []string{said.CertificateFile}
	}
	c.Password = func(ctx context.Context, _ core.Host) (string, error) { return o.f.passwordOf(ctx, said) }
	if f := o.f; said.BecomePassword != "" || f.becomeAnswer != "" || f.become != "" || f.becomeCommand != "" {
		c.BecomePassword = func(ctx context.Context, _ core.Host) (string, error) {
			text, err := secretFrom(ctx, f.become, f.becomeCommand)
			return cmp.Or(f.becomeAnswer, text, said.BecomePassword), err
		}
	}
	o.made[key] = &c
	return &c, nil
}

// passwordOf returns the password for a host, from the first of: the inventory's reference, the
// flags, the inventory itself.
func (f *UserLoginFlags) passwordOf(ctx context.Context, said inventory.Login) (string, error) {
	switch {
	case said.PasswordEnv != "":
		return secretFrom(ctx, said.PasswordEnv, "")
	case len(said.PasswordCommand) > 0:
		return printedBy(ctx, said.PasswordCommand)
	}
	text, err := secretFrom(ctx, f.password, f.passwordCommand)
	return cmp.Or(text, said.Password), err
}

// secretFrom reads a secret from an environment variable, or else from what a command prints.
func secretFrom(ctx context.Context, env, command string) (string, error) {
	if env != "" {
		v, ok := os.LookupEnv(env)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", env)
		}
		return v, nil
	}
	if command == "" {
		return "", nil
	}
	return printedBy(ctx, []string{"/bin/sh", "-c", command})
}

// printedBy returns the first line that a command prints.
func printedBy(ctx context.Context, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // the command of the person who types this one
	cmd.WaitDelay = time.Second
	out, err := cmd.Output() // it may hold the secret: it is not shown
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("secret command: %w", err)
	}
	text, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSuffix(text, "\r"), nil
}
