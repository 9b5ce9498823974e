package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// Credential is the means of a login, and the machines that may see them. It belongs to the process
// that dials: nothing of it comes out of a core.Host, which may have been written by others. It
// must not be changed after a pool has seen it.
type Credential struct {
	Name         string   // for errors
	Keys         *Keys    // reads the key files
	Identities   []string // key files that are offered first
	Certificates []string // certificate files for these keys, or for keys of the agent
	Others       []string // key files that are offered after the agent's keys
	Agent        string   // socket of an ssh-agent; "" for none
	Signer       *Signer  // has a certificate signed for each login; nil for none

	// Password returns the password for a host, or "" if there is none. It is called only after the
	// host has proved its key and asked for a password. Nil: there is none.
	Password func(ctx context.Context, h core.Host) (string, error)

	// BecomePassword returns the password that sudo asks the login for. It is called only after the
	// host has proved its key. Nil: there is none, and sudo must not ask.
	BecomePassword func(ctx context.Context, h core.Host) (string, error)

	// Reaches returns an error if the credential must not be offered to the machine that is dialled,
	// or through it. It gets the name as dialled and the address behind it, which is invalid if a jump
	// host resolves the name. Nil: it may be offered everywhere.
	Reaches func(dialled string, at netip.Addr) error
}

// Always returns a Config.Credential that offers c to every host.
func Always(c *Credential) func(core.Host) (*Credential, error) {
	return func(core.Host) (*Credential, error) { return c, nil }
}

// machine is one SSH server as it was dialled.
type machine struct {
	dialled string // name or IP address
	at      netip.Addr
}

// refusal is an address that the credential of an endpoint may not be offered to.
type refusal struct{ error }

// admit returns an error if e's credential may not be offered to m, or through m.
func (e *endpoint) admit(m machine) error {
	if e.cred.Reaches == nil {
		return nil
	}
	if err := e.cred.Reaches(m.dialled, m.at); err != nil {
		return &refusal{err}
	}
	return nil
}

// refusedHere is the error of a machine that e's credential may not be offered to.
func (e *endpoint) refusedHere(err error) *Error {
	return e.fail("resolve", "", true, mark(err, core.ErrInvalid, core.ErrUnreachable))
}

// target is e as a jump host dials it: only an IP address identifies a machine.
func (e *endpoint) target() machine {
	name, _, _ := net.SplitHostPort(e.addr) // resolve made it
	at, _ := netip.ParseAddr(name)
	return machine{name, at.Unmap()}
}

// machines are the servers between this process and the end of the connection, that end included.
func (c *conn) machines() []machine {
	if c == nil {
		return nil
	}
	return append(c.via.machines(), c.at)
}

// reach opens the byte stream to e, and returns which machine that is.
func (p *Pool) reach(ctx context.Context, e *endpoint, via *conn) (net.Conn, machine, error) {
	m := e.target()
	if via != nil {
		for _, hop := range append(via.machines(), m) {
			if err := e.admit(hop); err != nil {
				return nil, m, err
			}
		}
		c, err := via.tunnel(ctx, e.addr)
		if err != nil {
			return nil, m, err
		}
		return c, m, nil
	}
	c, err := dial(ctx, e)
	if err != nil {
		return nil, m, err
	}
	if socket, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		m.at = socket.Addr().Unmap()
	}
	return c, m, nil
}

// NewSigner makes the key.
func NewSigner(sign Certify) (*Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key for certificates: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, fmt.Errorf("key for certificates: %w", err)
	}
	return &Signer{sign: sign, signer: signer, known: map[string]*signed{}}, nil
}

// signerFor returns the key with its certificate for a login; nil if none are signed.
func (s *Signer) signerFor(ctx context.Context, e *endpoint) (ssh.Signer, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // there is nothing to sign with
	}
	h := e.host.SSH
	r := CertificateRequest{Key: s.signer.PublicKey(), Principals: h.Principals, SourceAddrs: h.SourceAddrs, ForceCommand: h.ForceCommand}
	if len(r.Principals) == 0 {
		r.Principals = []string{e.user}
	}
	cert, err := s.certificate(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", strings.Join(r.Principals, ", "), err)
	}
	return ssh.NewCertSigner(cert, s.signer)
}
