package definitions

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"

	"github.com/turnus/turnus/core"
)

// maxHook bounds the body of a webhook; GitHub sends 25 MB at most.
const maxHook = 25 << 20

// Hook is the webhook of push events as GitHub, Gitea, Forgejo and GitLab send them. All that it
// does is Notify: it does not trust a body, only that its sender has the secret. It is safe for
// concurrent use.
type Hook struct {
	Secret []byte // empty: every request is refused
	Notify func()
}

// ServeHTTP answers 202 when it notified, 401 without the right secret, 405 and 413 to what is no
// event.
func (h Hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a webhook is sent with POST", http.StatusMethodNotAllowed)
		return
	}
	good, err := h.allowed(http.MaxBytesReader(w, r.Body, maxHook), r.Header)
	tooLarge := (*http.MaxBytesError)(nil)
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, "the event is too large", http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(w, "the event did not arrive whole", http.StatusBadRequest)
	case !good:
		http.Error(w, "the secret is not the right one", http.StatusUnauthorized)
	default:
		h.Notify()
		w.WriteHeader(http.StatusAccepted)
	}
}

// allowed checks a signature over the body, or GitLab's token, for which nothing is read.
func (h Hook) allowed(body io.Reader, header http.Header) (bool, error) {
	if len(h.Secret) == 0 {
		return false, nil
	}
	if token := header.Get("X-Gitlab-Token"); token != "" {
		a, b := sha256.Sum256([]byte(token)), sha256.Sum256(h.Secret) // of one length, so that it does not show
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1, nil
	}
	return core.WebhookSigned(header.Get("X-Hub-Signature-256"), h.Secret, body)
}
