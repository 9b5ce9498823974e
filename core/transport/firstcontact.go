package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// UnverifiedFile returns the file of the keys that were pinned at the first contact, beside the
// known_hosts file where they are added once they are accepted. It is another file, so that ssh
// does not trust them.
func UnverifiedFile(knownHosts string) string {
	if knownHosts == "" {
		return ""
	}
	return knownHosts + ".unverified"
}

// readPins returns the keys that were pinned at the first contact with a host. A line that cannot
// be read is an error: it may be the pin of this host, and without it any key would be a first one.
func readPins(file, name string) (text []byte, keys []ssh.PublicKey, err error) {
	text, err = securefile.Read(file, securefile.Rule{Most: maxKnownHosts, Shut: 0o022, Owned: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("keys of first contacts: %w", err)
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		names, key, err := pinOf(line)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w\nhint: correct the line, or remove it: then the next key of its host counts as the first (docs/hostkeys.md)", file, n, err)
		}
		if slices.Contains(names, name) {
			keys = append(keys, key)
		}
	}
	return text, keys, nil
}

func pinOf(line []byte) ([]string, ssh.PublicKey, error) {
	marker, names, key, _, _, err := ssh.ParseKnownHosts(bytes.TrimSpace(line))
	if err == nil && marker != "" {
		err = fmt.Errorf("marker @%s: expected a host and its key", marker)
	}
	return names, key, err
}

// pin adds the key of a host that has none, for good: on the disk before the login. It returns the
// keys that the host has by then: another process may have been first.
func pin(file, name string, key ssh.PublicKey) ([]ssh.PublicKey, error) {
	folder := filepath.Dir(file)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	unlock, err := securefile.LockFolder(folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	text, keys, err := readPins(file, name)
	if err != nil || len(keys) > 0 {
		return keys, err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	text = append(text, knownhosts.Line([]string{name}, key)+"\n"...)
	return []ssh.PublicKey{key}, securefile.Replace(file, text, 0o600)
}

// Unpin removes what was pinned at the first contact with hosts: a key of theirs was accepted in
// the known_hosts file.
func Unpin(knownHosts string, names []string) error {
	file := UnverifiedFile(knownHosts)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := securefile.LockFolder(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer unlock()
	text, _, err := readPins(file, "")
	if err != nil {
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	var left []byte
	for line := range bytes.Lines(text) {
		of, _, _ := pinOf(line) // read above
		if !slices.ContainsFunc(of, func(name string) bool { return slices.Contains(names, name) }) {
			left = append(left, line...)
		}
	}
	if len(left) == len(text) {
		return nil
	}
	return securefile.Replace(file, left, 0o600)
}

// mayPin returns why the key of an unknown host must not be pinned at its first contact; an empty
// what means that it may.
func (pr *proof) mayPin(at netip.Addr) (what, hint string) {
	e, scan := pr.e, pr.scan+" "+pr.e.name
	switch {
	case e.host.SSH.FirstContact != core.FirstContactPin:
		return "unknown host key", scan
	case len(pr.CAs)+len(pr.local) > 0:
		return "unknown host key", "first_contact: pin does not count, because a certificate authority may sign this host's key: sign it (ssh-keygen -s CA -h -n NAME), or " + scan
	case pr.pinFile == "":
		return "unknown host key", "first_contact: pin needs a known_hosts file: name one by UserKnownHostsFile in ssh_config, or " + scan
	case pr.elsewhere:
		return "unknown host key", "first_contact: pin does not count, because keys of " + e.addr + " are known without its host_key_alias: " + scan
	case !at.IsValid():
		return "unknown host key", "first_contact: pin needs an IP address as address: of a host behind a jump host; or " + scan
	case !slices.ContainsFunc(pr.leave, func(p netip.Prefix) bool { return p.Contains(at) }):
		return "unknown host key", "first_contact: pin counts only where turnus run --first-contact " + at.String() + " allows it; or " + scan
	}
	return "", ""
}

// unverifiedHint explains how a pinned key becomes a verified one.
func (pr *proof) unverifiedHint(why string, key ssh.PublicKey) string {
	command, inventory, _ := strings.Cut(pr.scan, " scan ")
	return fmt.Sprintf("%s. Compare it with the host's console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then:\n  %s %s && %s accept %s %s %s",
		why, pr.scan, pr.e.name, command, inventory, pr.e.name, ssh.FingerprintSHA256(key))
}

// firstContact decides about the key of a host of which nothing verified is known.
func (pr *proof) firstContact(at machine, key ssh.PublicKey) error {
	if len(pr.pinned) > 0 && !holds(pr.pinned, key) {
		return pr.changed(key, pr.pinned)
	}
	if what, hint := pr.mayPin(at.at); what != "" {
		return pr.refuse(key, what, hint)
	}
	if pr.e.host.SSH.Verified {
		return pr.refuse(key, "unverified host key", pr.unverifiedHint("a host gets no secrets until its key is accepted", key))
	}
	first := len(pr.pinned) == 0
	var err error
	if pr.pinned, err = pin(pr.pinFile, pr.name(), key); err != nil {
		return pr.e.invalid(fmt.Errorf("pin the key of a first contact: %w", err))
	}
	if !holds(pr.pinned, key) {
		return pr.changed(key, pr.pinned)
	}
	pr.unproved.Store(true)
	if first {
		pr.log.Warn("pinned the host key at the first contact; it is unverified", "host", pr.e.name, "key", key.Type()+" "+ssh.FingerprintSHA256(key), "accept", pr.scan+" "+pr.e.name)
	}
	return nil
}

// noSecrets is the error of a password for a host whose key is unverified.
func (e *endpoint) noSecrets(op, what, scan string, marks ...error) *Error {
	return e.fail(op, scan+" "+e.name+" shows the key; turnus hostkeys accept makes it a verified one (docs/hostkeys.md)", true,
		mark(fmt.Errorf("%s is not sent: the host key is unverified, pinned at the first contact", what), append(marks, core.ErrInvalid)...))
}

func holds(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return SameKey(k, key) })
}
