package authorizedkey

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// key is a line of authorized_keys.
type key struct{ options, kind, blob, comment string }

func (k key) String() string {
	return strings.TrimSpace(strings.TrimSpace(k.options+" "+k.kind+" "+k.blob) + " " + k.comment)
}

var keyType = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(ssh|ecdsa|sk-ssh|sk-ecdsa|webauthn-sk-ecdsa)-[A-Za-z0-9@.-]+$`)
})

// parse reads a line of authorized_keys.
func parse(line string) (key, error) {
	if strings.ContainsAny(line, "\r\n") {
		return key{}, errors.New("expected one line for each key")
	}
	first, rest := word(line)
	var k key
	if !keyType().MatchString(first) {
		k.options = first
		first, rest = word(rest)
	}
	if !keyType().MatchString(first) {
		return key{}, errors.New("expected a public key such as ssh-ed25519 AAAA… anna@laptop")
	}
	k.kind = first
	k.blob, k.comment = word(rest)
	data, err := base64.StdEncoding.DecodeString(k.blob)
	if err != nil || len(data) < 4 {
		return key{}, fmt.Errorf("the data of the %s key is not whole", k.kind)
	}
	if n := binary.BigEndian.Uint32(data); uint64(n) > uint64(len(data)-4) || string(data[4:4+n]) != k.kind {
		return key{}, fmt.Errorf("the data of the key is not that of a %s key, or is not whole", k.kind)
	}
	return k, nil
}

// word cuts the first word off a line; blanks within double quotes do not end it.
func word(line string) (first, rest string) {
	line = strings.TrimLeft(line, " \t")
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return line[:i], strings.TrimSpace(line[i:])
		}
	}
	return line, ""
}

// edit returns the content of authorized_keys as it should be. Comments, empty lines and lines that
// no one can read stay, the latter unless the list is exclusive.
func edit(p Params, content string) string {
	var wanted []key
	for _, text := range p.Keys {
		if k, err := parse(strings.TrimSpace(text)); err == nil { // Validate was asked before
			wanted = append(wanted, k)
		}
	}
	done := map[string]bool{}
	var out strings.Builder
	for l := range strings.Lines(content) {
		text := strings.TrimSpace(l)
		if text == "" || strings.HasPrefix(text, "#") {
			out.WriteString(l)
			continue
		}
		is, err := parse(text)
		at := slices.IndexFunc(wanted, func(k key) bool { return err == nil && k.kind == is.kind && k.blob == is.blob })
		switch {
		case at < 0 && p.Exclusive:
		case at < 0:
			out.WriteString(l)
		case p.State == "absent", done[is.blob]:
		default:
			done[is.blob] = true
			want := wanted[at]
			want.comment = cmp.Or(want.comment, is.comment)
			if want != is {
				l = want.String() + "\n"
			}
			out.WriteString(l)
		}
	}
	text := out.String()
	for _, k := range wanted {
		if p.State == "absent" || done[k.blob] {
			continue
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += k.String() + "\n"
	}
	return text
}

// blobs is the data of the keys that a file has.
func blobs(content string) []string {
	var all []string
	for l := range strings.Lines(content) {
		if k, err := parse(strings.TrimSpace(l)); err == nil {
			all = append(all, k.blob)
		}
	}
	return all
}
