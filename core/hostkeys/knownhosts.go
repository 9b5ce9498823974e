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
	d := dropsOf(edits)
	var out bytes.Buffer
	for line := range bytes.Lines(text) {
		out.Write(d.without(line))
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

// drops is edits by the keys that they drop: a file of many lines is read once, however many edits
// there are.
type drops map[string][]Edit

func dropsOf(edits []Edit) drops {
	d := drops{}
	for _, e := range edits {
		for _, key := range e.Drop {
			d[string(key.Marshal())] = append(d[string(key.Marshal())], e)
		}
	}
	return d
}

// without returns a line that does not name a host for a key to drop; nil if it named no other
// host.
func (d drops) without(line []byte) []byte {
	names, of := d.named(line)
	left := slices.Clone(names)
	for _, e := range of {
		left = slices.DeleteFunc(left, func(field string) bool { return isName(field, e.Name) })
	}
	switch len(left) {
	case len(names): // it names none of the hosts, or by a pattern
		return line
	case 0:
		return nil
	}
	return bytes.Replace(line, []byte(strings.Join(names, ",")), []byte(strings.Join(left, ",")), 1)
}

// named returns the names of a line, and the edits whose hosts it names for a key that they drop.
func (d drops) named(line []byte) (names []string, of []Edit) {
	if len(d) == 0 {
		return nil, nil
	}
	marker, names, key, _, _, err := ssh.ParseKnownHosts(bytes.TrimSpace(line))
	if err != nil || marker != "" {
		return nil, nil
	}
	for _, e := range d[string(key.Marshal())] {
		if matches(names, e.Name) {
			of = append(of, e)
		}
	}
	return names, of
}

// Left returns the number of the first line that still names a host for a key that an edit drops,
// and the name; 0 if there is none.
func Left(text []byte, edits []Edit) (line int, name string) {
	d := dropsOf(edits)
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if _, of := d.named(line); len(of) > 0 {
			return n, of[0].Name
		}
	}
	return 0, ""
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
