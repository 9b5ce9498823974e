package transport

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// proof holds the proofs of one endpoint's key: a CA's certificate first, the inventory's pins
// second, known_hosts third. Pins replace known_hosts: a pinned host must show a pinned key.
// Nothing accepts any key.
type proof struct {
	e       *endpoint
	scan    string          // the command that scans the inventory, for hints
	CAs     map[string]bool // may sign for every host
	local   []ssh.PublicKey // `@cert-authority` lines that name this host
	pins    []ssh.PublicKey
	known   []ssh.PublicKey
	revoked map[string]bool

	// Of a host with none of these, see firstContact.
	leave     []netip.Prefix
	pinFile   string
	pinned    []ssh.PublicKey // at the first contact
	elsewhere bool            // keys are known for the address that is dialled, and it has an alias
	unproved  atomic.Bool     // the accepted key is one of pinned
	log       *slog.Logger
}

func (t *trust) proof(e *endpoint) (*proof, error) {
	files, err := t.files(e)
	if err != nil {
		return nil, e.invalid(err)
	}
	pr := &proof{e: e, scan: t.scan, CAs: t.CAs, revoked: files.revoked, leave: t.leave, pinFile: UnverifiedFile(t.ownFile(e)), log: t.log}
	for _, line := range e.host.SSH.HostKeys {
		key, err := parsePin(line)
		if err != nil {
			return nil, e.invalid(err)
		}
		pr.pins = append(pr.pins, key)
	}
	if len(pr.pins) == 0 { // a look-up costs 44 µs in 3000 lines, 1.3 ms when they are hashed
		pr.known, pr.local = files.keys(e.trustAddr())
	}
	if len(pr.expected())+len(pr.CAs)+len(pr.local) == 0 && pr.pinFile != "" {
		if _, pr.pinned, err = readPins(pr.pinFile, pr.name()); err != nil {
			return nil, e.invalid(err)
		}
		if e.trustAddr() != e.addr {
			known, _ := files.keys(e.addr)
			_, pins, err := readPins(pr.pinFile, knownhosts.Normalize(e.addr))
			if err != nil {
				return nil, e.invalid(err)
			}
			pr.elsewhere = len(known)+len(pins) > 0
		}
	}
	return pr, nil
}

// name is the host as known_hosts has it.
func (pr *proof) name() string { return knownhosts.Normalize(pr.e.trustAddr()) }

// unverified implements verifier.
func (pr *proof) unverified() bool { return pr.unproved.Load() }

// algorithms orders the host key algorithms so that the server shows a key that
// can be proved, if it has one (go#29286, go#33366). The others stay at the end:
// a server without such a key is then refused with its fingerprint rather than
// with a failed negotiation.
func (pr *proof) algorithms() []string {
	all := ssh.SupportedAlgorithms().HostKeys
	var certs, plain []string
	for _, a := range all {
		if strings.Contains(a, "-cert-") {
			certs = append(certs, a)
		} else {
			plain = append(plain, a)
		}
	}
	var order []string
	add := func(list ...string) {
		for _, a := range list {
			if slices.Contains(all, a) && !slices.Contains(order, a) {
				order = append(order, a)
			}
		}
	}
	if len(pr.CAs)+len(pr.local) > 0 {
		add(ssh.CertAlgoED25519v01) // cheapest to verify
		add(certs...)
	}
	for _, key := range slices.Concat(pr.expected(), pr.pinned) {
		if key.Type() == ssh.KeyAlgoRSA {
			add(ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		add(key.Type())
	}
	add(ssh.KeyAlgoED25519)
	add(plain...)
	return order
}

// expected lists the plain keys of which the host must show one.
func (pr *proof) expected() []ssh.PublicKey {
	if len(pr.pins) > 0 {
		return pr.pins
	}
	return pr.known
}

// check implements verifier.
func (pr *proof) check(at machine, key ssh.PublicKey) error {
	known, err := pr.prove(key)
	if known || err != nil {
		return err
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	return pr.firstContact(at, key)
}

// prove reports whether a key is known as one of the host. It returns why the key must be refused;
// neither if no key of the host is known.
func (pr *proof) prove(key ssh.PublicKey) (known bool, err error) {
	if pr.isRevoked(key) {
		return false, pr.refuse(key, "key is revoked in known_hosts",
			"the host still uses a key that was declared compromised: give it a new one before anything else")
	}
	if cert, ok := key.(*ssh.Certificate); ok {
		if pr.signs(cert.SignatureKey) {
			err := pr.checkCertificate(cert)
			return err == nil, err
		}
		key = cert.Key // of a CA that nobody vouches for: the key itself may be known
	}
	switch expected := pr.expected(); {
	case holds(expected, key):
		return true, nil
	case len(expected) > 0:
		return false, pr.changed(key, expected)
	}
	return false, nil
}

func (pr *proof) isRevoked(key ssh.PublicKey) bool {
	if cert, ok := key.(*ssh.Certificate); ok {
		return pr.revoked[string(cert.Key.Marshal())] || pr.revoked[string(cert.SignatureKey.Marshal())]
	}
	return pr.revoked[string(key.Marshal())]
}

func (pr *proof) signs(signer ssh.PublicKey) bool {
	return pr.CAs[string(signer.Marshal())] || slices.ContainsFunc(pr.local, func(k ssh.PublicKey) bool {
		return bytes.Equal(k.Marshal(), signer.Marshal())
	})
}

// checkCertificate accepts a certificate for the host key alias, or without one
// for the address dialled or the inventory's name. Principals may have
// wildcards, as OpenSSH allows. A certificate without principals would prove
// any host to be any other, so it is refused.
func (pr *proof) checkCertificate(cert *ssh.Certificate) error {
	names := []string{pr.e.trustName}
	if pr.e.host.SSH.HostKeyAlias == "" && pr.e.name != pr.e.trustName {
		names = append(names, pr.e.name)
	}
	for _, name := range names {
		for _, principal := range cert.ValidPrincipals {
			if ok, err := path.Match(strings.ToLower(principal), strings.ToLower(name)); err != nil || !ok {
				continue
			}
			checker := ssh.CertChecker{IsHostAuthority: func(key ssh.PublicKey, _ string) bool { return pr.signs(key) }}
			if err := checker.CheckHostKey(net.JoinHostPort(principal, "22"), nil, cert); err != nil {
				return pr.refuse(cert.Key, "host certificate is not valid: "+err.Error(),
					"sign the host's key again with its CA (ssh-keygen -s CA -h -n NAME)")
			}
			return nil
		}
	}
	return pr.refuse(cert.Key, fmt.Sprintf("host certificate is for %q, not for %s", cert.ValidPrincipals, strings.Join(names, " or ")),
		"another host answered, or the certificate lacks this name (ssh-keygen -s CA -h -n NAME)")
}

func (pr *proof) changed(key ssh.PublicKey, expected []ssh.PublicKey) error {
	old := core.Map(expected, func(k ssh.PublicKey) string { return k.Type() + " " + ssh.FingerprintSHA256(k) })
	source := "known_hosts has"
	if len(pr.pins) > 0 {
		source = "the inventory pins"
	} else if len(pr.known) == 0 {
		source = "at the first contact it had"
	}
	return pr.refuse(key, "host key has CHANGED", fmt.Sprintf(
		"this may be an attack, or another machine answers at its address: %s %s.\nCompare: turnus hostkeys check -i INVENTORY %s",
		source, strings.Join(old, ", "), pr.e.name))
}

func (pr *proof) refuse(key ssh.PublicKey, what, hint string) *Error {
	err := fmt.Errorf("%s: %s %s", what, key.Type(), ssh.FingerprintSHA256(key))
	return pr.e.fail("host key", hint, true, mark(err, core.ErrHostKey, core.ErrUnreachable))
}
