package secrets

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/armor"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

const (
	maxRecipients   = 100
	maxIdentityFile = 256 << 10
)

// parseRecipient reads a public key that secrets are encrypted to: age's own, or SSH's Ed25519 and
// RSA. Errors quote nothing: somebody may have given a private key.
func parseRecipient(text string) (age.Recipient, error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "ssh-"):
		r, err := agessh.ParseRecipient(text)
		if err != nil {
			return nil, errors.New("this is no SSH public key of the kinds ssh-ed25519 or ssh-rsa")
		}
		return r, nil
	case strings.HasPrefix(text, "age1"):
		found, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil || len(found) != 1 {
			return nil, errors.New("this is no age public key")
		}
		return found[0], nil
	case strings.HasPrefix(strings.ToUpper(text), "AGE-SECRET-KEY"):
		return nil, errors.New("a private key stands here, where public keys belong: it is no longer secret, so make another")
	}
	return nil, errors.New("this is no public key")
}

// Encrypt encrypts a value to all of the recipients, as armored text.
func Encrypt(value []byte, recipients []string) (string, error) {
	switch {
	case len(recipients) == 0:
		return "", fmt.Errorf("nobody could open it: no recipients are given: %w", core.ErrInvalid)
	case len(value) == 0 || len(value) > MaxValue:
		return "", fmt.Errorf("a value of %d bytes: expected 1 to %d: %w", len(value), MaxValue, core.ErrInvalid)
	}
	var to []age.Recipient
	for i, text := range recipients {
		r, err := parseRecipient(text)
		if err != nil {
			return "", fmt.Errorf("recipient %d: %w: %w", i+1, err, core.ErrInvalid)
		}
		to = append(to, r)
	}
	var out strings.Builder
	armored := armor.NewWriter(&out)
	w, err := age.Encrypt(armored, to...)
	if err != nil {
		return "", fmt.Errorf("encrypt: %w: %w", err, core.ErrInvalid)
	}
	if _, err := w.Write(value); err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	if err := errors.Join(w.Close(), armored.Close()); err != nil {
		return "", fmt.Errorf("encrypt: %w", err)
	}
	return out.String(), nil
}

// identities are the private keys of a node or a person.
type identities struct {
	files []string
	keys  []age.Identity
}

func readIdentities(files []string) (identities, error) {
	out := identities{files: files}
	for _, file := range files {
		data, err := readTrusted(file, maxIdentityFile, readableByOthers)
		if err != nil {
			return out, fmt.Errorf("identity: %w", err)
		}
		found, err := parseIdentities(data)
		clear(data)
		if err != nil {
			return out, fmt.Errorf("identity %s: %w: %w", file, err, core.ErrInvalid)
		}
		out.keys = append(out.keys, found...)
	}
	return out, nil
}

func parseIdentities(data []byte) ([]age.Identity, error) {
	if len(data) > maxIdentityFile {
		return nil, fmt.Errorf("the file is longer than %d KiB", maxIdentityFile>>10)
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN")) {
		key, err := agessh.ParseIdentity(data)
		if locked := (*ssh.PassphraseMissingError)(nil); errors.As(err, &locked) {
			return nil, errors.New("the SSH key has a passphrase, which nobody could give at night: use an age identity, or a key without one")
		}
		if err != nil {
			return nil, errors.New("this is no SSH private key of the kinds Ed25519 or RSA")
		}
		return []age.Identity{key}, nil
	}
	found, err := age.ParseIdentities(bytes.NewReader(data))
	if err != nil { // the library's error may quote the line
		return nil, errors.New("expected age identities (AGE-SECRET-KEY-1…), one a line, or one SSH private key")
	}
	return found, nil
}

// open decrypts armored ciphertext.
func (i identities) open(encrypted string) ([]byte, error) {
	if len(i.keys) == 0 {
		return nil, fmt.Errorf("this node has no identity to open it with: give --secrets-identity FILE: %w", core.ErrInvalid)
	}
	if len(encrypted) > MaxEncrypted {
		return nil, fmt.Errorf("its ciphertext is longer than %d KiB: %w", MaxEncrypted>>10, core.ErrInvalid)
	}
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(encrypted)), i.keys...)
	if none := (*age.NoIdentityMatchError)(nil); errors.As(err, &none) {
		return nil, fmt.Errorf("none of the %d identities here (%s) opens it: add this node's public key to recipients: and run turnus secrets rotate: %w",
			len(i.keys), strings.Join(i.files, ", "), core.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("its ciphertext is damaged: encrypt it again with turnus secrets encrypt: %w", core.ErrInvalid)
	}
	value, err := readAtMost(r, MaxValue)
	if err != nil {
		clear(value)
		return nil, fmt.Errorf("its ciphertext is damaged: encrypt it again with turnus secrets encrypt: %w", core.ErrInvalid)
	}
	return value, nil
}

// stanza is whom one ciphertext is encrypted to, as far as that shows: age keys are anonymous, SSH
// keys have a tag of 32 bits.
type stanza struct{ kind, tag string }

// stanzas reads the header of armored ciphertext.
func stanzas(encrypted string) ([]stanza, error) {
	if len(encrypted) > MaxEncrypted {
		return nil, fmt.Errorf("it is longer than %d KiB", MaxEncrypted>>10)
	}
	if !strings.HasPrefix(strings.TrimSpace(encrypted), armor.Header) {
		return nil, errors.New("it does not begin with " + armor.Header)
	}
	all, err := readAtMost(armor.NewReader(strings.NewReader(encrypted)), MaxEncrypted)
	if err != nil {
		return nil, errors.New("its armor is damaged")
	}
	lines := bufio.NewScanner(bytes.NewReader(all))
	lines.Buffer(nil, MaxEncrypted)
	if !lines.Scan() || lines.Text() != "age-encryption.org/v1" {
		return nil, errors.New("it is of no version that is known")
	}
	var out []stanza
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) > 1 && words[0] == "->":
			s := stanza{kind: words[1]}
			if strings.HasPrefix(s.kind, "ssh-") && len(words) > 2 {
				s.tag = words[2]
			}
			out = append(out, s)
		case len(words) > 0 && words[0] == "---":
			if len(out) == 0 {
				return nil, errors.New("it is encrypted for no recipient")
			}
			return out, nil
		}
	}
	return nil, errors.New("its header has no end")
}

// EncryptedTo reports whether ciphertext is encrypted to these recipients, as far as that shows
// without opening it: of age's own keys, which are anonymous, only their number does.
func EncryptedTo(encrypted string, recipients []string) bool {
	have, err := stanzas(encrypted)
	if err != nil {
		return false
	}
	want := core.Map(recipients, stanzaOf)
	order := func(a, b stanza) int { return compare(a.kind+" "+a.tag, b.kind+" "+b.tag) }
	slices.SortFunc(have, order)
	slices.SortFunc(want, order)
	return slices.Equal(have, want)
}

func stanzaOf(recipient string) stanza {
	if !strings.HasPrefix(recipient, "ssh-") {
		if strings.HasPrefix(recipient, "age1pq1") {
			return stanza{kind: "mlkem768x25519"}
		}
		return stanza{kind: "X25519"}
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(recipient))
	if err != nil {
		return stanza{kind: "ssh-"}
	}
	sum := sha256.Sum256(key.Marshal())
	return stanza{kind: key.Type(), tag: base64.RawStdEncoding.EncodeToString(sum[:4])}
}

// NewIdentity makes an age identity: the text of its file, and the public key that secrets are
// encrypted to.
func NewIdentity() (file []byte, public string, err error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, "", fmt.Errorf("make an identity: %w", err)
	}
	public = id.Recipient().String()
	return []byte("# public key: " + public + "\n" + id.String() + "\n"), public, nil
}
