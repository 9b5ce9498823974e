package hostkeys

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// Pair is a fingerprint that a person vouches for.
type Pair struct{ Host, Fingerprint string }

// Pairs reads words as HOST SHA256:…, several pairs after one another.
func Pairs(words []string) ([]Pair, error) {
	var list []Pair
	for i := 0; i < len(words); i += 2 {
		if i+1 == len(words) {
			return nil, fmt.Errorf("%q has no fingerprint: expected HOST SHA256:…\nhint: turnus hostkeys scan prints them; --accept-all-new accepts every new key of the scan", words[i])
		}
		p := Pair{words[i], words[i+1]}
		if !isFingerprint(p.Fingerprint) || isFingerprint(p.Host) {
			return nil, fmt.Errorf("%q %q: expected HOST SHA256:…\nhint: turnus hostkeys scan prints them; --accept-all-new accepts every new key of the scan", p.Host, p.Fingerprint)
		}
		list = append(list, p)
	}
	return list, nil
}

// ParsePairs reads lines of HOST SHA256:…; # begins a comment.
func ParsePairs(text string) ([]Pair, error) {
	var list []Pair
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) != 2 || !isFingerprint(words[1]) {
			return nil, fmt.Errorf("line %d: %.80q: expected HOST SHA256:…", n, strings.TrimSpace(line))
		}
		list = append(list, Pair{words[0], words[1]})
	}
	return list, nil
}

// isFingerprint reports whether a text is SHA256: with 32 bytes of unpadded base64.
func isFingerprint(text string) bool {
	rest, ok := strings.CutPrefix(text, "SHA256:")
	return ok && len(rest) == 43
}

// Decision is the result for one key, or for a fingerprint that no key has.
type Decision struct {
	Result
	Key         ssh.PublicKey // nil if no key has the fingerprint
	Fingerprint string
	State       transport.KeyState
	Accepted    bool
	Why         string          // it was not accepted
	Drop        []ssh.PublicKey // known keys that it replaces
}

// ByFingerprint decides about pairs. Only a key that the host showed is accepted, and in place of a
// known one only with replace.
func ByFingerprint(seen map[string]Result, pairs []Pair, replace bool) []Decision {
	var list []Decision
	for _, p := range pairs {
		r, ok := seen[p.Host]
		r.Host.Name = p.Host
		d := Decision{Result: r, Fingerprint: p.Fingerprint}
		switch {
		case !ok:
			d.Why = "neither the inventory nor a jump host has this name: turnus hosts ls -i INVENTORY"
		case r.Err != nil:
			d.Why = r.Err.Error()
		default:
			d.byFingerprint(r, replace)
		}
		list = append(list, d)
	}
	return list
}

func (d *Decision) byFingerprint(r Result, replace bool) {
	var shown []string
	for _, k := range r.Keys {
		print := ssh.FingerprintSHA256(k.Key)
		shown = append(shown, k.Key.Type()+" "+print)
		if print != d.Fingerprint {
			continue
		}
		d.Key, d.State = k.Key, k.State
		switch {
		case k.State == transport.KeyRefused:
			d.Why = k.Err.Error()
		case k.State == transport.KeyChanged && !replace:
			d.Why = "another key is known for this host: ask why it changed, then add --replace"
		default:
			d.Accepted, d.Drop = true, notShown(r)
		}
		return
	}
	d.Why = "the host showed " + strings.Join(shown, ", ")
}

// notShown returns the known keys that the host did not show, if the key is in their place.
func notShown(r Result) []ssh.PublicKey {
	if !r.Has(transport.KeyChanged) {
		return nil
	}
	var list []ssh.PublicKey
	for _, known := range r.Known {
		shown := false
		for _, k := range r.Keys {
			shown = shown || transport.SameKey(k.Key, known)
		}
		if !shown {
			list = append(list, known)
		}
	}
	return list
}

// AllNew accepts the keys of hosts of which nothing is known. Every other key needs its
// fingerprint: a further key of a known host is passed over, a changed one refused, and so are keys
// of machines that share a name in known_hosts.
func AllNew(list []Result) []Decision {
	shared := conflicts(list)
	var out []Decision
	for _, r := range list {
		if r.Err != nil {
			out = append(out, Decision{Result: r, Why: r.Err.Error()})
			continue
		}
		for _, k := range r.Keys {
			d := Decision{Result: r, Key: k.Key, Fingerprint: ssh.FingerprintSHA256(k.Key), State: k.State}
			switch k.State {
			case transport.KeyKnown, transport.KeySigned, transport.KeyExtra:
				continue
			case transport.KeyRefused:
				d.Why = k.Err.Error()
			case transport.KeyChanged:
				d.Why = "the key has CHANGED: accept it by its fingerprint and --replace"
			case transport.KeyNew, transport.KeyUnverified:
				d.Accepted = !shared[r.Name]
				if !d.Accepted {
					d.Why = "hosts with the name " + r.Name + " showed different keys: give each a host_key_alias"
				}
			}
			out = append(out, d)
		}
	}
	return out
}

// conflicts returns the names in known_hosts for which hosts showed different keys of one type, or
// no common key: they may be different machines.
func conflicts(list []Result) map[string]bool {
	seen := map[string][]ssh.PublicKey{}
	found := map[string]bool{}
	for _, r := range list {
		first, common := len(seen[r.Name]) == 0, false
		for _, k := range r.Keys {
			same := func(s ssh.PublicKey) bool { return transport.SameKey(s, k.Key) }
			if slices.ContainsFunc(seen[r.Name], same) {
				common = true
				continue
			}
			if slices.ContainsFunc(seen[r.Name], func(s ssh.PublicKey) bool { return s.Type() == k.Key.Type() }) {
				found[r.Name] = true
				continue
			}
			seen[r.Name] = append(seen[r.Name], k.Key)
		}
		if len(r.Keys) > 0 && !first && !common {
			found[r.Name] = true
		}
	}
	return found
}

// Save writes the keys of decisions into the known_hosts files of their hosts, and removes what was
// pinned of these hosts at a first contact.
func Save(list []Decision) error {
	byFile, others := fileEdits(list)
	for file, edits := range byFile {
		if err := Write(file, others[file], edits); err != nil {
			return err
		}
		if err := transport.Unpin(file, core.Map(edits, func(e Edit) string { return e.Name })); err != nil {
			return err
		}
	}
	return nil
}

// fileEdits returns the changes of known_hosts that decisions ask for, by file, and the files that
// runs read.
func fileEdits(list []Decision) (byFile map[string][]Edit, others map[string][]string) {
	byFile, others = map[string][]Edit{}, map[string][]string{}
	for _, d := range list {
		if !d.Accepted || d.State == transport.KeyKnown {
			continue
		}
		byFile[d.File] = append(byFile[d.File], Edit{Name: d.Name, Add: []ssh.PublicKey{d.Key}, Drop: d.Drop})
		others[d.File] = d.Files
	}
	return byFile, others
}

// Writable refuses accepted keys that known_hosts could not make trusted.
func Writable(list []Decision) []Decision {
	for i := range list {
		switch d := &list[i]; {
		case !d.Accepted:
		case d.Pinned:
			d.Accepted, d.Why = false, "the inventory pins this host's keys, and known_hosts does not count: change host_key there, or see --pins"
		case d.File == "":
			d.Accepted, d.Why = false, "ssh_config names no known_hosts file for this host that exists"
		}
	}
	return list
}

// Pins returns the keys that an inventory would pin for hosts with accepted keys, by host.
func Pins(list []Decision) map[string][]string {
	pins := map[string][]string{}
	for _, d := range list {
		if !d.Accepted {
			continue
		}
		keep := append(slices.Clone(d.Known), d.Key)
		for _, key := range keep {
			line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
			dropped := slices.ContainsFunc(d.Drop, func(k ssh.PublicKey) bool { return transport.SameKey(k, key) })
			if !dropped && !slices.Contains(pins[d.Host.Name], line) {
				pins[d.Host.Name] = append(pins[d.Host.Name], line)
			}
		}
	}
	return pins
}
