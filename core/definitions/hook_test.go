package definitions

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHookNotifiesWhoHasTheSecret(t *testing.T) {
	const body = `{"ref": "refs/heads/main"}`
	sign := func(secret string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		return "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	for name, tc := range map[string]struct {
		secret, header, value, body string
		want                        int
	}{
		"GitHub":               {"s3cret", "X-Hub-Signature-256", sign("s3cret"), body, 202},
		"GitLab":               {"s3cret", "X-Gitlab-Token", "s3cret", body, 202},
		"another secret":       {"s3cret", "X-Hub-Signature-256", sign("other"), body, 401},
		"another body":         {"s3cret", "X-Hub-Signature-256", sign("s3cret"), body + " ", 401},
		"another token":        {"s3cret", "X-Gitlab-Token", "s3cre", body, 401},
		"none":                 {"s3cret", "X-Other", "", body, 401},
		"SHA-1":                {"s3cret", "X-Hub-Signature-256", "sha1=" + strings.Repeat("a", 40), body, 401},
		"cut":                  {"s3cret", "X-Hub-Signature-256", sign("s3cret")[:20], body, 401},
		"no secret, signed":    {"", "X-Hub-Signature-256", sign(""), body, 401},
		"no secret, token":     {"", "X-Gitlab-Token", "x", body, 401},
		"too large":            {"s3cret", "X-Hub-Signature-256", sign("s3cret"), strings.Repeat(" ", maxHook+1), 413},
		"large, without right": {"s3cret", "X-Hub-Signature-256", "", strings.Repeat(" ", maxHook+1), 401},
	} {
		t.Run(name, func(t *testing.T) {
			notifies := 0
			q := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(tc.body))
			q.Header.Set(tc.header, tc.value)
			a := httptest.NewRecorder()
			Hook{Secret: []byte(tc.secret), Notify: func() { notifies++ }}.ServeHTTP(a, q)
			if a.Code != tc.want || (notifies == 1) != (tc.want == 202) {
				t.Errorf("code %d, %d notifications, expected %d", a.Code, notifies, tc.want)
			}
		})
	}
	a := httptest.NewRecorder()
	Hook{Secret: []byte("x")}.ServeHTTP(a, httptest.NewRequest(http.MethodGet, "/hook", nil))
	if a.Code != 405 {
		t.Errorf("GET: %d", a.Code)
	}
}
