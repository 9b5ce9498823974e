package core

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSignWebhook(t *testing.T) {
	t.Parallel()
	// RFC 4231, test case 2
	const want = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
	body := "what do ya want for nothing?"
	if got := SignWebhook([]byte("Jefe"), []byte(body)); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	for what, tc := range map[string]struct {
		signature, secret, body string
		good                    bool
	}{
		"as signed":      {want, "Jefe", body, true},
		"another body":   {want, "Jefe", body + " ", false},
		"another secret": {want, "Jeff", body, false},
		"cut":            {want[:20], "Jefe", body, false},
		"another kind":   {"sha1=" + strings.Repeat("a", 40), "Jefe", body, false},
		"no signature":   {"", "Jefe", body, false},
		"no secret":      {SignWebhook(nil, []byte(body)), "", body, false},
	} {
		if got, err := WebhookSigned(tc.signature, []byte(tc.secret), strings.NewReader(tc.body)); err != nil || got != tc.good {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	broken := errors.New("broken")
	if good, err := WebhookSigned(want, []byte("Jefe"), iotest.ErrReader(broken)); good || !errors.Is(err, broken) {
		t.Errorf("a body that breaks off: %v, %v", good, err)
	}
	if good, err := WebhookSigned("none", []byte("Jefe"), iotest.ErrReader(broken)); good || err != nil {
		t.Errorf("without a signature the body is read: %v, %v", good, err)
	}
}
