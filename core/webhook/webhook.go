// Package webhook owns how the body of a webhook is signed: by whoever sends one, and for whoever gets one. It must not know what bodies
// say, nor where they go.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Header is where Turnus puts the signature of what it sends.
const Header = "X-Turnus-Signature-256"

const scheme = "sha256="

// Sign is the signature of a body: the HMAC-SHA-256 under the secret in hex, behind "sha256=". A receiver compares it in constant time.
func Sign(secret, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return scheme + hex.EncodeToString(mac.Sum(nil))
}

// Signed tells, in constant time, whether a signature is that of a body. One that is none is refused before anything is read, and an empty
// secret signs nothing. Errors are those of reading the body.
func Signed(signature string, secret []byte, body io.Reader) (bool, error) {
	text, ok := strings.CutPrefix(signature, scheme)
	given, err := hex.DecodeString(text)
	if !ok || err != nil || len(given) != sha256.Size || len(secret) == 0 {
		return false, nil //nolint:nilerr // a signature that is none
	}
	mac := hmac.New(sha256.New, secret)
	if _, err := io.Copy(mac, body); err != nil {
		return false, fmt.Errorf("read a signed body: %w", err)
	}
	return hmac.Equal(given, mac.Sum(nil)), nil
}
