package telemetry

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

// pair is a certificate for 127.0.0.1 that signs itself, and its PEM.
func pair(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "turnus"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// get asks a listener; status 0 is that no answer came.
func get(t *testing.T, c *tls.Config, url, token string) int {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

func listening(t *testing.T, c ListenConfig) *Listener {
	t.Helper()
	l, err := Listen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	l.Handle("GET /metrics", NewRegistry("v1", 0))
	l.Health(func() error { return nil }, func() error { return nil })
	return l
}

func TestListen(t *testing.T) {
	t.Parallel()
	open := listening(t, ListenConfig{Address: "127.0.0.1:0"})
	if got := get(t, nil, "http://"+open.Addr()+"/metrics", ""); got != 200 {
		t.Errorf("status %d", got)
	}
	asked := listening(t, ListenConfig{Address: "127.0.0.1:0", Token: "secret"})
	for token, status := range map[string]int{"secret": 200, "": 401, "guess": 401} {
		if got := get(t, nil, "http://"+asked.Addr()+"/metrics", token); got != status {
			t.Errorf("token %q: status %d, expected %d", token, got, status)
		}
	}
	if got := get(t, nil, "http://"+asked.Addr()+"/healthz", ""); got != 200 {
		t.Errorf("status %d of what needs no token", got)
	}
}

// With a CA of clients' certificates nobody else is answered.
func TestListenToCertificates(t *testing.T) {
	t.Parallel()
	server, serverPEM := pair(t)
	client, clientPEM := pair(t)
	stranger, _ := pair(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(clientPEM)
	l := listening(t, ListenConfig{Address: "0.0.0.0:0", Clients: true, TLS: &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	}})
	_, port, err := net.SplitHostPort(l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(serverPEM)
	for _, tc := range []struct {
		certs  []tls.Certificate
		status int
	}{{[]tls.Certificate{client}, 200}, {[]tls.Certificate{stranger}, 0}, {nil, 0}} {
		if got := get(t, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: tc.certs}, "https://127.0.0.1:"+port+"/metrics", ""); got != tc.status {
			t.Errorf("status %d, expected %d", got, tc.status)
		}
	}
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	server, _ := pair(t)
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}
	for name, c := range map[string]ListenConfig{
		"no port":                     {Address: "127.0.0.1"},
		"every address, nothing else": {Address: ":0"},
		"a token in the clear":        {Address: "0.0.0.0:0", Token: "secret"},
		"TLS, and everybody may ask":  {Address: "0.0.0.0:0", TLS: config},
		"certificates without TLS":    {Address: "0.0.0.0:0", Clients: true},
	} {
		if l, err := Listen(t.Context(), c); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				_ = l.Close()
			}
		}
	}
}
