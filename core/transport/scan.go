package transport

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// keyTypes are the host key algorithms of one connection each, the certificate first: it also has
// the plain key.
func keyTypes() [][]string {
	return [][]string{
		{ssh.CertAlgoED25519v01, ssh.KeyAlgoED25519},
		{
			ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
			ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		},
		{ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
	}
}

// errSeen ends a handshake whose only purpose was the host key.
var errSeen = errors.New("host key seen")

// recorder is a verifier that accepts no key and remembers the one that the server proved to have.
type recorder struct {
	want []string
	key  atomic.Pointer[ssh.PublicKey] // a handshake behind a jump host may outlive its caller
}

func (r *recorder) algorithms() []string { return r.want }

func (r *recorder) check(_ machine, key ssh.PublicKey) error {
	r.key.Store(&key)
	return errSeen
}

func (r *recorder) unverified() bool { return false }

// ScanKeys returns the keys that a host shows, one of each type that it offers; *ssh.Certificate
// where it has one. Jump hosts are verified and logged in to as for a run. ScanKeys ends every
// connection to the host itself before authentication, and trusts no key.
func (p *Pool) ScanKeys(ctx context.Context, h core.Host) ([]ssh.PublicKey, error) {
	r, err := p.resolve(h)
	if err != nil {
		return nil, err
	}
	var shown []ssh.PublicKey
	var offered []string // by the host, once it has refused a type
	var refusal error
	for _, want := range keyTypes() {
		if offered != nil && !slices.ContainsFunc(want, func(a string) bool { return slices.Contains(offered, a) }) {
			continue
		}
		rec := &recorder{want: want}
		_, err := p.dialRoute(ctx, r, rec)
		none, without := errors.AsType[*ssh.AlgorithmNegotiationError](err)
		switch key := rec.key.Load(); {
		case key != nil:
			shown = append(shown, *key)
		case without && none.What == "host key":
			offered, refusal = none.RequestedAlgorithms, err
		default:
			return nil, err
		}
	}
	if len(shown) == 0 {
		return nil, refusal
	}
	return shown, nil
}

// ScanCommand returns the command that scans the key of a host, for hints.
func (p *Pool) ScanCommand(host string) string { return p.trust.scan + " " + host }

// Jumps returns the jump hosts on the way to a host, outermost first.
func (p *Pool) Jumps(h core.Host) ([]core.Host, error) {
	r, err := p.resolve(h)
	if err != nil {
		return nil, err
	}
	return core.Map(r[:len(r)-1], func(e *endpoint) core.Host { return e.host }), nil
}

// KeyState classifies a key that a host shows, as a run would.
type KeyState string

// The states of keys.
const (
	KeyKnown      KeyState = "known"
	KeySigned     KeyState = "signed"     // by a trusted CA, for this host
	KeyUnverified KeyState = "unverified" // pinned at the first contact
	KeyNew        KeyState = "new"        // no key of the host is known
	KeyExtra      KeyState = "extra"      // the host proved another key, and none of this type is known
	KeyChanged    KeyState = "changed"    // another key is known
	KeyRefused    KeyState = "refused"    // revoked, or its certificate is not valid
)

// HostKey is a key that a host showed.
type HostKey struct {
	Key   ssh.PublicKey // never a certificate
	CA    ssh.PublicKey // signed the key's certificate; nil without one
	State KeyState
	Was   []ssh.PublicKey // of KeyChanged: the known keys
	Err   error           // of KeyRefused
}

// HostKeys compares the keys that a host showed with those that runs accept.
type HostKeys struct {
	Name   string          // of the host in known_hosts
	Pinned bool            // runs accept the inventory's pins only, and no key of known_hosts
	Files  []string        // known_hosts files that runs read
	File   string          // the first of them, where keys are added; may not exist
	Known  []ssh.PublicKey // plain keys that runs accept
	Keys   []HostKey       // that the host showed
}

// Compare judges the keys that a host showed as runs do. It dials nothing.
func (p *Pool) Compare(h core.Host, shown []ssh.PublicKey) (HostKeys, error) {
	e, err := p.endpoint(h)
	if err != nil {
		return HostKeys{}, err
	}
	pr, err := p.trust.proof(e)
	if err != nil {
		return HostKeys{}, err
	}
	out := HostKeys{
		Name: knownhosts.Normalize(e.trustAddr()), Pinned: len(pr.pins) > 0,
		Files: p.trust.list, File: p.trust.ownFile(e), Known: pr.expected(),
	}
	if e.knownHosts != nil { // of ssh_config
		out.Files = e.knownHosts
	}
	for _, key := range shown {
		out.Keys = append(out.Keys, pr.judge(key))
	}
	proved := slices.ContainsFunc(out.Keys, func(k HostKey) bool { return k.State == KeyKnown || k.State == KeySigned || k.State == KeyUnverified })
	for i := range out.Keys {
		if k := &out.Keys[i]; k.State == "" {
			k.State, k.Was = unproved(k.Key, slices.Concat(out.Known, pr.pinned), proved)
		}
	}
	return out, nil
}

// judge leaves the state empty if neither a CA nor a known key proves the key.
func (pr *proof) judge(key ssh.PublicKey) HostKey {
	k := HostKey{Key: key}
	cert, signed := key.(*ssh.Certificate)
	if signed {
		k.Key, k.CA = cert.Key, cert.SignatureKey
		signed = pr.signs(k.CA)
	}
	switch known, err := pr.prove(key); {
	case known && signed:
		k.State = KeySigned
	case known:
		k.State = KeyKnown
	case err == nil && holds(pr.pinned, k.Key):
		k.State = KeyUnverified
	case signed, pr.isRevoked(key):
		k.State, k.Err = KeyRefused, err
	}
	return k
}

// unproved returns the state of a key that nothing proves. A known host may have got a key of a
// further type: that is no change if it still has a key that proves it.
func unproved(key ssh.PublicKey, known []ssh.PublicKey, proved bool) (KeyState, []ssh.PublicKey) {
	var same []ssh.PublicKey
	for _, k := range known {
		if k.Type() == key.Type() {
			same = append(same, k)
		}
	}
	switch {
	case len(same) > 0:
		return KeyChanged, same
	case proved:
		return KeyExtra, nil
	case len(known) > 0:
		return KeyChanged, known
	}
	return KeyNew, nil
}

// SameKey reports whether two keys are one.
func SameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }
