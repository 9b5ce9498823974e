package hostkeys

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"

	"github.com/turnus/turnus/core/transport"
)

// lookups is how many names are asked for at the same time.
const lookups = 32

// fingerprint is an SSHFP record (RFC 4255): algorithm and digest by their numbers there.
type fingerprint struct {
	algorithm, kind byte
	digest          []byte
}

const (
	digestSHA1   = 1
	digestSHA256 = 2 // RFC 6594
)

// Vouch is the answer of DNS about a host's keys.
type Vouch struct {
	Name    string // that was asked for
	Err     error  // there is no validated record
	records []fingerprint
}

// errNoRecord is why a key of a type without a record is not proved. The host may have another.
var errNoRecord = errors.New("DNS has no SSHFP record for this type of key")

// Key returns nil if a record has the SHA-256 fingerprint of a key. Digests of SHA-1 prove nothing.
func (v Vouch) Key(key ssh.PublicKey) error {
	if v.Err != nil {
		return v.Err
	}
	digest := sha256.Sum256(key.Marshal())
	differs, weak := false, false
	for _, r := range v.records {
		switch {
		case r.algorithm != sshfpAlgorithm(key.Type()):
		case r.kind == digestSHA256 && bytes.Equal(r.digest, digest[:]):
			return nil
		case r.kind == digestSHA256:
			differs = true
		case r.kind == digestSHA1:
			weak = true
		}
	}
	switch {
	case differs:
		return fmt.Errorf("the SSHFP records of %s have another fingerprint", v.Name)
	case weak:
		return fmt.Errorf("the SSHFP records of %s have SHA-1 fingerprints only: add SHA-256 (ssh-keygen -r %s)", v.Name, v.Name)
	}
	return errNoRecord
}

// sshfpAlgorithm is the number of a key's type in SSHFP records; 0 for a type that has none.
func sshfpAlgorithm(keyType string) byte {
	switch keyType {
	case ssh.KeyAlgoRSA:
		return 1
	case ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		return 3 // RFC 6594
	case ssh.KeyAlgoED25519:
		return 4 // RFC 7479
	}
	return 0
}

// dnsName is the name of a host in DNS: its name in known_hosts, else its name in the inventory; ""
// if neither is a full DNS name.
func dnsName(r Result) string {
	known := strings.Trim(r.Name, "[]")
	if host, _, err := net.SplitHostPort(r.Name); err == nil {
		known = host
	}
	for _, name := range []string{known, r.Host.Name} {
		if _, err := netip.ParseAddr(name); err != nil && strings.Contains(strings.TrimSuffix(name, "."), ".") {
			return name
		}
	}
	return ""
}

// LookUp asks for the SSHFP records of scanned hosts, and returns one Vouch for each.
func (r Resolver) LookUp(ctx context.Context, list []Result) []Vouch {
	out := make([]Vouch, len(list))
	var g errgroup.Group
	g.SetLimit(lookups)
	for i, one := range list {
		if one.Err != nil {
			continue
		}
		g.Go(func() error {
			v := &out[i]
			if v.Name = dnsName(one); v.Name == "" {
				v.Err = errors.New("neither its address nor its name in the inventory is a full DNS name")
			} else if v.records, v.Err = r.sshfp(ctx, v.Name); v.Err != nil {
				v.Err = fmt.Errorf("SSHFP of %s: %w", v.Name, v.Err)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in the result
	return out
}

// BySSHFP decides about the keys that DNS vouches for; vouches are those of list. It passes over
// known keys, and keys of a type without a record if another key of the host is proved.
func BySSHFP(list []Result, vouches []Vouch, replace bool) []Decision {
	var out []Decision
	for i, r := range list {
		v := vouches[i]
		if err := errors.Join(r.Err, v.Err); err != nil {
			out = append(out, Decision{Result: r, Why: err.Error()})
			continue
		}
		done := false
		for _, k := range r.Keys {
			if k.State == transport.KeyKnown || k.State == transport.KeySigned {
				done = true
				continue
			}
			d := Decision{Result: r, Key: k.Key, Fingerprint: ssh.FingerprintSHA256(k.Key), State: k.State}
			err := v.Key(k.Key)
			if errors.Is(err, errNoRecord) {
				continue
			}
			if done = true; err != nil {
				d.Why = err.Error()
			} else {
				d.byFingerprint(r, replace)
			}
			out = append(out, d)
		}
		if !done {
			out = append(out, Decision{Result: r, Why: errNoRecord.Error()})
		}
	}
	return out
}

// Proved reports whether DNS vouches for a key of the host, and contradicts none.
func (v Vouch) Proved(r Result) bool {
	proved := false
	for _, k := range r.Keys {
		switch err := v.Key(k.Key); {
		case err == nil:
			proved = true
		case !errors.Is(err, errNoRecord):
			return false
		}
	}
	return proved
}
