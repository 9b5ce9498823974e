package core

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// WebhookHeader is where Turnus puts the signature of what it sends.
const WebhookHeader = "X-Turnus-Signature-256"

const webhookScheme = "sha256="

// SignWebhook is the signature of a body: the HMAC-SHA-256 under the secret in hex, behind
// "sha256=". A receiver compares it in constant time.
func SignWebhook(secret, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return webhookScheme + hex.EncodeToString(mac.Sum(nil))
}

// WebhookSigned reports, in constant time, whether a signature is that of a body. A malformed
// signature is refused before the body is read, and an empty secret signs nothing. Errors are those
// of reading the body.
func WebhookSigned(signature string, secret []byte, body io.Reader) (bool, error) {
	text, ok := strings.CutPrefix(signature, webhookScheme)
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
