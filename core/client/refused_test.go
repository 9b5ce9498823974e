package client

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// A server that wants a certificate is reported as such, however the request that it ended was cut
// off. One that wants none is not.
func TestWhyAServerEndsConnections(t *testing.T) {
	for _, c := range []struct {
		name   string
		wants  tls.ClientAuthType
		failed error
		said   string
	}{
		{"it wants a certificate", tls.RequireAnyClientCert, io.EOF, "certificate required"},
		{"it wants one, and the request knows of HTTP/2 only", tls.RequireAnyClientCert, errors.New("http2: client conn could not be established"), "certificate required"},
		{"it wants none", tls.NoClientCert, io.EOF, "EOF"},
		{"the request was not cut off", tls.RequireAnyClientCert, core.ErrNotFound, core.ErrNotFound.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.TLS = &tls.Config{ClientAuth: c.wants}
			s.EnableHTTP2 = true
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.StartTLS()
			t.Cleanup(s.Close)
			client, err := New(Config{Server: s.URL, CAs: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			if got := client.refusal(t.Context(), c.failed); !strings.Contains(got.Error(), c.said) {
				t.Errorf("reported %q, expected %q", got, c.said)
			}
		})
	}
}
