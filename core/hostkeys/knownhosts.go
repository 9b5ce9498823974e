package hostkeys

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the hash of OpenSSH's hashed host names
	"encoding/base64"
	"path"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core/transport"
)

// Edit is a change of the keys of one host in a known_hosts file.
type Edit struct {
	Name string // as known_hosts has it: host, or [host]:port
	Add  []ssh.PublicKey
	Drop []ssh.PublicKey
}

// Apply returns the text with the edits. All other lines stay as they are, also those that cannot
// be read.
func Apply(text []byte, edits []Edit) []byte {
	drop := slices.DeleteFunc(slices.Clone(edits), func(e Edit) bool { return len(e.Drop) == 0 })
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		for _, e := range drop {
			line = e.without(line)
		}
		out.Write(line)
	}
	if n := out.Len(); n > 0 && out.Bytes()[n-1] != '\n' {
		out.WriteByte('\n')
	}
	for _, e := range edits {
		for _, key := range e.Add {
			out.WriteString(knownhosts.Line([]string{e.Name}, key) + "\n")
		}
	}
	return out.Bytes()
}

// without returns a line that does not name e's host for a key to drop; nil if it named no other
// host.
func (e Edit) without(line []byte) []byte {
	names, dropped := e.named(line)
	if !dropped {
		return line
	}
	left := slices.DeleteFunc(slices.Clone(names), func(field string) bool { return isName(field, e.Name) })
	if len(left) == len(names) { // a pattern
		return line
	}
	if len(left) == 0 {
		return nil
	}
	return bytes.Replace(line, []byte(strings.Join(names, ",")), []byte(strings.Join(left, ",")), 1)
}

// named returns the names of a line, and whether it is a line of e's host for a key to drop.
func (e Edit) named(line []byte) (names []string, dropped bool) {
	marker, names, key, _, _, err := ssh.ParseKnownHosts(bytes.TrimSpace(line))
	if err != nil || marker != "" || !slices.ContainsFunc(e.Drop, func(k ssh.PublicKey) bool { return transport.SameKey(k, key) }) {
		return nil, false
	}
	return names, matches(names, e.Name)
}

// Left returns the numbers of the lines that still name a host for a key that an edit drops.
func Left(text []byte, e Edit) (lines []int) {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if _, dropped := e.named(line); dropped {
			lines = append(lines, n)
		}
	}
	return lines
}

// matches reports whether the names of a line mean a host, as OpenSSH reads them.
func matches(names []string, host string) bool {
	found := false
	for _, field := range names {
		pattern, negated := strings.CutPrefix(field, "!")
		ok := isName(pattern, host)
		if !ok && strings.ContainsAny(pattern, "*?") {
			// Brackets are literal here, and a class in path.Match.
			ok, _ = path.Match(strings.NewReplacer(`[`, `\[`, `]`, `\]`, `/`, `\x00`).Replace(pattern), host)
		}
		if ok && negated {
			return false
		}
		found = found || ok
	}
	return found
}

// isName reports whether a field is a host's name, plain or hashed.
func isName(field, host string) bool {
	if !strings.HasPrefix(field, "|1|") {
		return field == host || knownhosts.Normalize(field) == host
	}
	salt, hash, ok := strings.Cut(field[3:], "|")
	if !ok {
		return false
	}
	s, err := base64.StdEncoding.DecodeString(salt)
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, s)
	mac.Write([]byte(host))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil)) == hash
}
