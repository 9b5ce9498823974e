package servers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/acme"
)

// ACME is a CA that speaks ACME (RFC 8555): it checks a challenge over HTTP or TLS as a real one
// does, and signs what it is asked for. It does not verify the signatures of requests. The
// addresses that it checks stand for the ports 80 and 443 of each name.
type ACME struct {
	URL     string // of its directory
	CA      string // file with the CA of the directory's own certificate
	Signed  *CA
	OverTLS func() string // address that it checks for tls-alpn-01; nil: that is not offered
	HTTP    func() string // the same for http-01

	tb         testing.TB
	mu         sync.Mutex
	thumbprint string
	names      []string
	valid      map[string]bool   // names that were shown
	failed     map[string]string // looks that failed, by kind and name
	cert       []byte
	orders     int
	looked     []string // kinds of challenges that were checked
}

// StartACME runs one until the test ends.
func StartACME(tb testing.TB, dir string) *ACME {
	tb.Helper()
	a := &ACME{tb: tb, Signed: CommonCA(tb), valid: map[string]bool{}, failed: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dir", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"newNonce": a.at("/nonce"), "newAccount": a.at("/account"), "newOrder": a.at("/order"), "revokeCert": a.at("/revoke"), "keyChange": a.at("/key")})
	})
	mux.HandleFunc("/nonce", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("POST /account", a.account)
	mux.HandleFunc("POST /order", a.order)
	mux.HandleFunc("POST /order/1", func(w http.ResponseWriter, _ *http.Request) { a.state(w, http.StatusOK) })
	mux.HandleFunc("POST /authz/{name}", a.authorization)
	mux.HandleFunc("POST /challenge/{kind}/{name}", a.challenge)
	mux.HandleFunc("POST /finalize", a.finalize)
	mux.HandleFunc("POST /cert", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write(a.cert)
	})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Replay-Nonce", rand.Text())
		mux.ServeHTTP(w, r)
	}))
	tb.Cleanup(s.Close)
	a.URL, a.CA = s.URL+"/dir", filepath.Join(dir, "acme-ca.pem")
	if err := os.WriteFile(a.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		tb.Fatal(err)
	}
	return a
}

func (a *ACME) at(path string) string { return strings.TrimSuffix(a.URL, "/dir") + path }

// Orders returns how many certificates were asked for, and which challenges were checked.
func (a *ACME) Orders() (orders int, looked []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.orders, append([]string(nil), a.looked...)
}

// posted reads the payload of a signed request, and its header.
func posted(r *http.Request, payload, header any) {
	var jws struct{ Protected, Payload string }
	_ = json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&jws)
	for text, to := range map[string]any{jws.Payload: payload, jws.Protected: header} {
		if b, err := base64.RawURLEncoding.DecodeString(text); err == nil && to != nil {
			_ = json.Unmarshal(b, to)
		}
	}
}

func (a *ACME) account(w http.ResponseWriter, r *http.Request) {
	var header struct{ JWK struct{ X, Y string } }
	var payload struct {
		TermsOfServiceAgreed bool
	}
	posted(r, &payload, &header)
	number := func(s string) *big.Int {
		b, _ := base64.RawURLEncoding.DecodeString(s)
		return new(big.Int).SetBytes(b)
	}
	thumbprint, err := acme.JWKThumbprint(&ecdsa.PublicKey{Curve: elliptic.P256(), X: number(header.JWK.X), Y: number(header.JWK.Y)}) //nolint:staticcheck // a JWK has coordinates
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"type": "urn:ietf:params:acme:error:malformed", "detail": err.Error()})
		return
	}
	a.mu.Lock()
	a.thumbprint = thumbprint
	a.mu.Unlock()
	w.Header().Set("Location", a.at("/account/1"))
	answer(w, http.StatusCreated, map[string]string{"status": "valid"})
}

func (a *ACME) order(w http.ResponseWriter, r *http.Request) {
	var payload struct{ Identifiers []struct{ Value string } }
	posted(r, &payload, nil)
	a.mu.Lock()
	a.orders++
	a.names, a.cert, a.valid, a.failed = nil, nil, map[string]bool{}, map[string]string{}
	for _, id := range payload.Identifiers {
		a.names = append(a.names, id.Value)
	}
	a.mu.Unlock()
	a.state(w, http.StatusCreated)
}

// state answers with the order.
func (a *ACME) state(w http.ResponseWriter, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := map[string]any{"status": "pending", "finalize": a.at("/finalize"), "expires": time.Now().Add(time.Hour).Format(time.RFC3339)}
	var authorizations []string
	var ids []map[string]string
	ready := true
	for _, n := range a.names {
		authorizations = append(authorizations, a.at("/authz/"+n))
		ids = append(ids, map[string]string{"type": "dns", "value": n})
		ready = ready && a.valid[n]
	}
	o["authorizations"], o["identifiers"] = authorizations, ids
	switch {
	case a.cert != nil:
		o["status"], o["certificate"] = "valid", a.at("/cert")
	case ready:
		o["status"] = "ready"
	case len(a.failed) > 0:
		o["status"] = "invalid"
	}
	w.Header().Set("Location", a.at("/order/1"))
	answer(w, status, o)
}

func (a *ACME) authorization(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	a.mu.Lock()
	defer a.mu.Unlock()
	status := "pending"
	if a.valid[name] {
		status = "valid"
	}
	of, challenges := status, []map[string]any{}
	for kind, where := range map[string]func() string{"tls-alpn-01": a.OverTLS, "http-01": a.HTTP} {
		if where == nil {
			continue
		}
		c := map[string]any{"type": kind, "status": of, "url": a.at("/challenge/" + kind + "/" + name), "token": "token-of-" + kind}
		if detail, failed := a.failed[kind+" "+name]; failed {
			status, c["status"], c["error"] = "invalid", "invalid", map[string]string{"type": "urn:ietf:params:acme:error:unauthorized", "detail": detail}
		}
		challenges = append(challenges, c)
	}
	answer(w, http.StatusOK, map[string]any{"status": status, "identifier": map[string]string{"type": "dns", "value": name}, "challenges": challenges})
}

// challenge looks immediately.
func (a *ACME) challenge(w http.ResponseWriter, r *http.Request) {
	kind, name := r.PathValue("kind"), r.PathValue("name")
	a.mu.Lock()
	authorization := "token-of-" + kind + "." + a.thumbprint
	a.looked = append(a.looked, kind)
	a.mu.Unlock()
	var err error
	if kind == "http-01" {
		err = checkHTTP(a.HTTP(), name, "token-of-"+kind, authorization)
	} else {
		err = checkTLS(a.OverTLS(), name, authorization)
	}
	a.mu.Lock()
	if err != nil {
		a.tb.Logf("%s of %s: %v", kind, name, err)
		a.failed[kind+" "+name] = err.Error()
	} else {
		a.valid[name] = true
	}
	a.mu.Unlock()
	answer(w, http.StatusOK, map[string]string{"type": kind, "status": "processing", "url": a.at(r.URL.Path), "token": "token-of-" + kind}) // what came of it is in the authorization
}

func checkHTTP(addr, name, token, want string) error {
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/.well-known/acme-challenge/"+token, nil) //nolint:noctx,gosec // the client has a timeout; the test names the address
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	req.Host = net.JoinHostPort(name, port) // as pebble writes it
	client := &http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req) //nolint:gosec // the test names the address
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && strings.TrimSpace(string(text)) != want {
		err = fmt.Errorf("the challenge's page has %q", text)
	}
	return err
}

// checkTLS is RFC 8737.
func checkTLS(addr, name, authorization string) error {
	conn, err := tls.Dial("tcp", addr, &tls.Config{ServerName: name, NextProtos: []string{acme.ALPNProto}, InsecureSkipVerify: true}) //nolint:noctx,gosec // the certificate is the challenge
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	sum := sha256.Sum256([]byte(authorization))
	want, err := asn1.Marshal(sum[:])
	if err != nil {
		return err
	}
	for _, ext := range conn.ConnectionState().PeerCertificates[0].Extensions {
		if ext.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) && ext.Critical && bytes.Equal(ext.Value, want) {
			return nil
		}
	}
	return fmt.Errorf("the certificate of %s is not the challenge", name)
}

func (a *ACME) finalize(w http.ResponseWriter, r *http.Request) {
	var payload struct{ CSR string }
	posted(r, &payload, nil)
	der, err := base64.RawURLEncoding.DecodeString(payload.CSR)
	if err == nil {
		var csr *x509.CertificateRequest
		if csr, err = x509.ParseCertificateRequest(der); err == nil {
			a.mu.Lock()
			a.cert = a.Signed.SignRequest(a.tb, csr)
			a.mu.Unlock()
		}
	}
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"type": "urn:ietf:params:acme:error:badCSR", "detail": err.Error()})
		return
	}
	a.state(w, http.StatusOK)
}

func answer(w http.ResponseWriter, status int, v any) {
	kind := "application/json"
	if status >= 400 {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
