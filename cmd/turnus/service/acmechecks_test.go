package service

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestACMEReasons(t *testing.T) {
	a := &answering{}
	l := &acmePolls{next: a}
	const invalid = `{"status":"invalid","identifier":{"type":"dns","value":"x.example.net"},"challenges":[{"type":"http-01"},{"type":"tls-alpn-01","error":{"type":"u:ietf:unauthorized","detail":"nobody\nthere"}}]}`
	const poll = `tls-alpn-01 of "x.example.net": "nobody\nthere"`
	for _, c := range []struct {
		what, poll, last string
		answering
	}{
		{"nothing was said yet", "", "", answering{"application/json", `{"newOrder":"https://x"}`, nil}},
		{"it is away", "", "refused", answering{"", "", errors.New("refused")}},
		{"a look that failed", poll, poll, answering{"application/json; charset=utf-8", invalid, nil}},
		{"a nonce that it does not want, which is sent again", poll, poll, answering{"application/problem+json", `{"type":"urn:ietf:params:acme:error:badNonce","detail":"JWS has an invalid anti-replay nonce","status":400}`, nil}},
		{"a certificate is not read along", poll, poll, answering{"application/pem-certificate-chain", invalid + "x", nil}},
		{"it refuses", poll, `urn:ietf:params:acme:error:rejectedIdentifier: "not this one"`, answering{"application/problem+json", `{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"not this one","status":400}`, nil}},
		{"a look that went well", "", "", answering{"application/json", strings.Replace(invalid, "invalid", "valid", 1), nil}},
	} {
		*a = c.answering
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := l.RoundTrip(req)
		if (err != nil) != (c.err != nil) {
			t.Fatalf("%s: %v", c.what, err)
		}
		if err == nil {
			text, err := io.ReadAll(resp.Body)
			if err != nil || string(text) != c.text || resp.Body.Close() != nil {
				t.Errorf("%s: passed on %q, %v", c.what, text, err)
			}
		}
		if poll, last := l.reasons(); poll != c.poll || last != c.last {
			t.Errorf("%s: got %q and %q, expected %q and %q", c.what, poll, last, c.poll, c.last)
		}
	}
}

func TestACMEOverdue(t *testing.T) {
	now := time.Now()
	for left, want := range map[time.Duration]bool{60 * 24 * time.Hour: false, 16 * 24 * time.Hour: false, 14 * 24 * time.Hour: true, -time.Hour: true} {
		c := &x509.Certificate{NotBefore: now.Add(left - 90*24*time.Hour), NotAfter: now.Add(left)}
		if got := overdue(c, now); got != want {
			t.Errorf("%v before its end: %v", left, got)
		}
	}
	for left, want := range map[time.Duration]bool{29 * 24 * time.Hour: false, 14 * 24 * time.Hour: true} { // of a year: it is renewed 30 days before
		c := &x509.Certificate{NotBefore: now.Add(left - 365*24*time.Hour), NotAfter: now.Add(left)}
		if got := overdue(c, now); got != want {
			t.Errorf("a year's, %v before its end: %v", left, got)
		}
	}
}

func TestACMENamesAreLowerCase(t *testing.T) {
	f := acmeFlags{names: []string{"Turnus.Example.net"}, directory: "https://ca.example.net"}
	if err := f.check(""); err != nil || f.names[0] != "turnus.example.net" {
		t.Errorf("%v, %v", f.names, err)
	}
}

// answering is a CA, and its next answers.
type answering struct {
	kind, text string
	err        error
}

func (a *answering) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(strings.NewReader(a.text))}, nil
}
