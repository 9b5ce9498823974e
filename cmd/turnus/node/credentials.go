package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/transport"
)

// Credentials are the logins of this node's own file of secrets. Key files are read again when they
// change. Safe for concurrent use.
type Credentials struct {
	store *secrets.Store

	mu   sync.Mutex
	made map[string]*madeCredential
}

// madeCredential is one credential with its files read.
type madeCredential struct {
	from  *secrets.Credential
	watch *securefile.Watch
	cred  *transport.Credential
	err   error
}

// NewCredentials returns the credentials of a node's own file.
func NewCredentials(store *secrets.Store) *Credentials {
	return &Credentials{store: store, made: map[string]*madeCredential{}}
}

// of is a transport.Config.Credential: what the settings define for the host, by the name it gives.
func (c *Credentials) of(h core.Host) (*transport.Credential, error) {
	from, err := c.store.Credential(h)
	if err != nil {
		return nil, err
	}
	return c.get(from)
}

func (c *Credentials) get(from *secrets.Credential) (*transport.Credential, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.made[from.Name]
	if m == nil || m.from != from || m.watch.Changed(securefile.MaxAge) {
		m = &madeCredential{from: from, watch: securefile.NewWatch(filesOf(from)...)}
		m.cred, m.err = c.make(from)
		if m.err != nil {
			m.watch.Again() // the cause may end without a change of the files
			m.err = fmt.Errorf("credential %q: %s: %w", from.Name, from.Place(), m.err)
		}
		c.made[from.Name] = m
	}
	return m.cred, m.err
}

func filesOf(from *secrets.Credential) []string {
	var files []string
	for _, f := range from.IdentityFiles {
		files = append(files, f, f+"-cert.pub")
	}
	for _, f := range []string{from.CertificateFile, from.CAKey} {
		if f != "" {
			files = append(files, f)
		}
	}
	return files
}

// make reads the files of a credential.
func (c *Credentials) make(from *secrets.Credential) (*transport.Credential, error) {
	out := &transport.Credential{Name: from.Name, Identities: from.IdentityFiles, Agent: from.Agent, Reaches: from.Reaches}
	var passphrase func(string) ([]byte, error)
	if from.Passphrase != nil {
		passphrase = func(string) ([]byte, error) {
			return c.store.Login(context.Background(), from.Passphrase, core.Host{}) // the store bounds how long
		}
	}
	out.Keys = transport.NewKeys(passphrase)
	for _, file := range from.IdentityFiles {
		if err := out.Keys.Check(file); err != nil {
			return nil, err
		}
	}
	if from.CertificateFile != "" {
		if err := transport.CheckCertificate(from.CertificateFile); err != nil {
			return nil, err
		}
		out.Certificates = []string{from.CertificateFile}
	}
	if from.Agent != "" && !strings.Contains(from.Agent, "/") {
		if out.Agent = os.Getenv(from.Agent); out.Agent == "" {
			return nil, fmt.Errorf("agent: the environment variable %s is not set: %w\nhint: start an agent: eval \"$(ssh-agent)\" && ssh-add; or write identity_file: FILE in its place", from.Agent, core.ErrInvalid)
		}
	}
	if from.Password != nil {
		out.Password = func(ctx context.Context, h core.Host) (string, error) {
			value, err := c.store.Login(ctx, from.Password, h)
			defer clear(value)
			return string(value), err
		}
	}
	if from.BecomePassword != nil {
		out.BecomePassword = func(ctx context.Context, h core.Host) (string, error) {
			value, err := c.store.Login(ctx, from.BecomePassword, h)
			defer clear(value)
			return string(value), err
		}
	}
	var err error
	out.Signer, err = signerOf(c.store, from.CAKey, from.CAVault, from.CALifetime)
	return out, err
}

// check returns an error for each credential that cannot be used, before a host needs it.
func (c *Credentials) check(ctx context.Context) error {
	return errors.Join(core.Map(c.store.Credentials(), func(from *secrets.Credential) error { return c.CheckOne(ctx, from) })...)
}

// CheckOne checks that a credential can be used: its files and variables are there.
func (c *Credentials) CheckOne(ctx context.Context, from *secrets.Credential) error {
	_, err := c.get(from)
	for _, e := range []*secrets.Entry{from.Password, from.Passphrase, from.BecomePassword} {
		if err != nil || e == nil || !e.AtHand() {
			continue
		}
		value, failed := c.store.Login(ctx, e, core.Host{})
		clear(value)
		if failed != nil {
			err = fmt.Errorf("credential %q: %w", from.Name, failed)
		}
	}
	return err
}

// signerOf returns a signer of certificates by a key on this node, or by Vault; nil if there is no
// such setting.
func signerOf(store *secrets.Store, key, vault string, lifetime time.Duration) (*transport.Signer, error) {
	switch {
	case key != "":
		ca, err := transport.NewCA(key, lifetime, "turnus "+nodeName())
		if err != nil {
			return nil, err
		}
		return transport.NewSigner(ca.Certify)
	case vault == "":
		return nil, nil //nolint:nilnil // nobody signs
	}
	role, err := secrets.ParseSSHRole(vault)
	if err != nil {
		return nil, err
	}
	lifetime = cmp.Or(lifetime, transport.DefaultLifetime)
	if err := transport.CheckLifetime(lifetime); err != nil {
		return nil, err
	}
	return transport.NewSigner(func(ctx context.Context, r transport.CertificateRequest) (*ssh.Certificate, error) {
		return store.SignSSH(ctx, role, r.Key, r.Principals, lifetime, r.CriticalOptions())
	})
}

// WarnWithoutCredentials warns if this node can log in to no host.
func WarnWithoutCredentials(con *console.Console, n *Node) {
	if len(n.Secrets.Credentials()) == 0 {
		con.Report(con.Paint(console.Yellow, "warning: ") + "this node has no credentials, so it logs in to no host\n" +
			"hint: define them in a file, and give it by --secrets or TURNUS_SECRETS; docs/secrets.md shows how")
	}
}
