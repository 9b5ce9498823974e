package transport

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// CertificateRequest is the content of a user certificate.
type CertificateRequest struct {
	Key          ssh.PublicKey
	Principals   []string // at least one
	SourceAddrs  []string // addresses and networks that it may be used from; empty: any
	ForceCommand string   // the command that sshd runs instead of any other; "": the command that is asked for
}

// Certify has a short-lived user certificate signed. It is called within a login, by many
// goroutines at the same time, and is asked again before a certificate ends.
type Certify func(ctx context.Context, r CertificateRequest) (*ssh.Certificate, error)

// Signer has short-lived certificates signed for one key of this process, which is never written to
// a disk. Safe for concurrent use.
type Signer struct {
	sign   Certify
	signer ssh.Signer

	mu    sync.Mutex
	known map[string]*signed // by certKey
}

// signed is a certificate, and who is having it signed.
type signed struct {
	turn  chan struct{} // holds one token
	users int           // who have it signed, or wait for that
	cert  *ssh.Certificate
	renew time.Time // from then on another is asked for
	until time.Time
}

// certificate gives one that holds for a while. One caller has it signed, the others wait.
func (c *Signer) certificate(ctx context.Context, r CertificateRequest) (*ssh.Certificate, error) {
	key := certKey(r)
	k := c.enter(key)
	defer c.leave(key, k)
	select {
	case <-k.turn:
		defer func() { k.turn <- struct{}{} }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	cert, renew := k.cert, k.renew
	c.mu.Unlock()
	if cert != nil && time.Now().Before(renew) {
		return cert, nil
	}
	made, err := c.sign(ctx, r)
	if err == nil {
		err = r.check(made)
	}
	if err != nil {
		if cert != nil && uint64(time.Now().Add(time.Second).Unix()) < cert.ValidBefore {
			return cert, nil // the old one holds for a while
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	until := time.Unix(int64(made.ValidBefore), 0)
	k.cert, k.renew, k.until = made, until.Add(-time.Until(until)/3), until
	return made, nil
}

// certKey identifies certificates by their content.
func certKey(r CertificateRequest) string {
	return fmt.Sprintf("%q %q %q", r.Principals, r.SourceAddrs, r.ForceCommand)
}

func (c *Signer) enter(key string) *signed {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.known[key]
	if k == nil {
		c.makeRoom()
		k = &signed{turn: make(chan struct{}, 1)}
		k.turn <- struct{}{}
		c.known[key] = k
	}
	k.users++
	return k
}

// leave forgets what was not signed, or has ended, with its last user.
func (c *Signer) leave(key string, k *signed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.users--; k.users == 0 && !k.until.After(time.Now()) {
		delete(c.known, key)
	}
}

// maxCertificates bounds what is kept. Certificates that many hosts share are needed again and
// again; of those for one host each, only the latest is needed.
const maxCertificates = 1024

// makeRoom forgets what has ended, and of too many the one that ends first. Certificates in use
// stay. It needs c.mu.
func (c *Signer) makeRoom() {
	first := ""
	for key, k := range c.known {
		switch {
		case k.users > 0:
		case !k.until.After(time.Now()):
			delete(c.known, key)
		case first == "" || k.until.Before(c.known[first].until):
			first = key
		}
	}
	if len(c.known) >= maxCertificates {
		delete(c.known, first)
	}
}

// maxLifetime bounds a certificate: what never ends is not signed on demand.
const maxLifetime = 24 * time.Hour

// check sees to it that what a CA gave is what was asked for: sshd's answer to another would
// puzzle.
func (r CertificateRequest) check(c *ssh.Certificate) error {
	now := time.Now()
	switch {
	case c == nil || c.CertType != ssh.UserCert:
		return errors.New("the CA gave no user certificate")
	case string(c.Key.Marshal()) != string(r.Key.Marshal()):
		return errors.New("the CA signed another key than the one it was asked to sign")
	case c.ValidBefore > uint64(now.Add(maxLifetime+time.Minute).Unix()):
		return fmt.Errorf("the CA gave a certificate that is valid for more than %v: let its role give short ones", maxLifetime)
	case c.ValidBefore <= uint64(now.Unix()):
		return errors.New("the CA gave a certificate that has expired: compare the clocks")
	case len(c.ValidPrincipals) == 0 || slices.ContainsFunc(r.Principals, func(p string) bool { return !slices.Contains(c.ValidPrincipals, p) }):
		return fmt.Errorf("the CA gave a certificate for %q, asked for %q", c.ValidPrincipals, r.Principals)
	}
	for name, value := range r.CriticalOptions() {
		if c.CriticalOptions[name] != value { // more than was asked for are the CA's to add
			return fmt.Errorf("the CA gave a certificate without the %s that was asked for: let its role allow that critical option", name)
		}
	}
	return nil
}

// CA signs certificates with a key on this machine.
type CA struct {
	key      ssh.Signer
	lifetime time.Duration
	keyID    string // of certificates, as sshd logs it
}

// NewCA reads the private key of a CA from a file that others cannot read. Certificates hold for
// lifetime, 1 minute to a day; 5 minutes when zero. keyID is what sshd logs of a login. Errors wrap
// core.ErrInvalid.
func NewCA(file string, lifetime time.Duration, keyID string) (*CA, error) {
	lifetime = cmp.Or(lifetime, DefaultLifetime)
	if err := CheckLifetime(lifetime); err != nil {
		return nil, err
	}
	id, err := NewKeys(nil).read(expandHome(file))
	if err != nil {
		return nil, fmt.Errorf("CA key: %w: %w", core.ErrInvalid, err)
	}
	if id.locked != nil {
		return nil, fmt.Errorf("CA key: %w: %s has a passphrase, and nobody could give it at night: use a key without one, or Vault", core.ErrInvalid, file)
	}
	return &CA{key: id.signer, lifetime: lifetime, keyID: keyID}, nil
}

// DefaultLifetime of certificates that are signed on demand.
const DefaultLifetime = 5 * time.Minute

// CheckLifetime refuses what is too short for a login, or too long for a certificate that nobody
// revokes.
func CheckLifetime(d time.Duration) error {
	if d < time.Minute || d > maxLifetime {
		return fmt.Errorf("certificates for %v: expected 1m to %v: %w", d, maxLifetime, core.ErrInvalid)
	}
	return nil
}

// skew is how far a host's clock may be behind.
const skew = time.Minute

// Certify is a Certify. The certificate allows commands and forwarding, which jump hosts need, and
// nothing else: no terminal, no agent, no X11.
func (a *CA) Certify(_ context.Context, r CertificateRequest) (*ssh.Certificate, error) {
	var serial [8]byte
	if _, err := rand.Read(serial[:]); err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	now := time.Now()
	cert := &ssh.Certificate{
		Key: r.Key, CertType: ssh.UserCert, KeyId: a.keyID, Serial: binary.BigEndian.Uint64(serial[:]), ValidPrincipals: r.Principals,
		ValidAfter:  uint64(now.Add(-skew).Unix()),
		ValidBefore: uint64(now.Add(a.lifetime).Unix()),
		Permissions: ssh.Permissions{CriticalOptions: r.CriticalOptions(), Extensions: map[string]string{"permit-port-forwarding": ""}},
	}
	if err := cert.SignCert(rand.Reader, a.key); err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return cert, nil
}

// CriticalOptions are the request's, as certificates have them.
func (r CertificateRequest) CriticalOptions() map[string]string {
	out := map[string]string{}
	if len(r.SourceAddrs) > 0 {
		out["source-address"] = strings.Join(r.SourceAddrs, ",")
	}
	if r.ForceCommand != "" {
		out["force-command"] = r.ForceCommand
	}
	return out
}
