package servers

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// SimulatedVault answers as HashiCorp Vault's HTTP API does, as far as its documentation describes
// it, where Turnus asks: tokens with a time to live, AppRole, key-value engines of both versions,
// the SSH engine, namespaces. Any other request is answered with 404. It ends with its test.
type SimulatedVault struct {
	URL       string // https
	CAFile    string // PEM of the CA of its certificate
	Token     string // may do everything, for ever
	SSHCA     ssh.PublicKey
	Namespace string // when set, requests without it find nothing
	ClientCN  string // when set, requests over TLS without a certificate of this name are refused

	ca ssh.Signer

	mu     sync.Mutex
	news   chan struct{} // closed with the next request
	tokens map[string]*token
	roles  map[string]*role
	mounts map[string]string // path to version
	values map[string]map[string]any
	seen   []string
	broken []int                    // answers that come before all others
	late   map[string]chan struct{} // a request's answer waits for it
}

type token struct {
	ttl       time.Duration // 0: for ever
	until     time.Time
	renewable bool
	may       []string // prefixes of paths; empty: all
}

type role struct {
	secretID string
	ttl      time.Duration
	may      []string
}

// StartSimulatedVault runs a server with a key-value engine of version 2 at kv/, one of version 1
// at old/, and an SSH engine at ssh/.
func StartSimulatedVault(tb testing.TB) *SimulatedVault {
	tb.Helper()
	s := &SimulatedVault{
		Token: "root-" + random(), tokens: map[string]*token{}, roles: map[string]*role{}, news: make(chan struct{}),
		mounts: map[string]string{"kv/": "2", "old/": "1"}, values: map[string]map[string]any{}, late: map[string]chan struct{}{},
	}
	s.tokens[s.Token] = &token{}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err == nil {
		s.ca, err = ssh.NewSignerFromKey(key)
	}
	if err != nil {
		tb.Fatal(err)
	}
	s.SSHCA = s.ca.PublicKey()
	web := httptest.NewUnstartedServer(s)
	web.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it are of tests
	web.StartTLS()
	tb.Cleanup(web.Close)
	s.URL, s.CAFile = web.URL, filepath.Join(tb.TempDir(), "vault-ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(s.CAFile, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return s
}

func random() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Put keeps an entry: a path such as kv/fw/api, and its fields.
func (s *SimulatedVault) Put(path string, fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[path] = fields
}

// NewToken makes a token; ttl 0 is for ever. may are the prefixes of API paths that it may ask for,
// all when there are none.
func (s *SimulatedVault) NewToken(ttl time.Duration, renewable bool, may ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newToken(ttl, renewable, may)
}

func (s *SimulatedVault) newToken(ttl time.Duration, renewable bool, may []string) string {
	name := "hvs." + random()
	s.tokens[name] = &token{ttl: ttl, until: time.Now().Add(ttl), renewable: renewable, may: may}
	return name
}

// Revoke ends a token.
func (s *SimulatedVault) Revoke(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, name)
}

// RevokeAll ends all tokens but Token.
func (s *SimulatedVault) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.tokens {
		if name != s.Token {
			delete(s.tokens, name)
		}
	}
}

// AppRole lets a role log in for tokens that hold ttl.
func (s *SimulatedVault) AppRole(roleID, secretID string, ttl time.Duration, may ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles[roleID] = &role{secretID, ttl, may}
}

// Break makes the next answers these status codes.
func (s *SimulatedVault) Break(codes ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, codes...)
}

// Late lets the server act on the next request METHOD PATH immediately, but answer only after send.
func (s *SimulatedVault) Late(request string) (send func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := make(chan struct{})
	s.late[request] = sent
	return func() { close(sent) }
}

// Seen is how often a request METHOD PATH came, without the v1/ of its path.
func (s *SimulatedVault) Seen(request string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.seen {
		if r == request {
			n++
		}
	}
	return n
}

// Wait ends when a request came n times, or the test's context ends.
func (s *SimulatedVault) Wait(tb testing.TB, request string, n int) {
	tb.Helper()
	for limit := time.After(time.Minute); s.Seen(request) < n; {
		s.mu.Lock()
		news := s.news
		s.mu.Unlock()
		if s.Seen(request) >= n {
			return
		}
		select {
		case <-news:
		case <-limit:
			tb.Fatalf("%s came %d times, expected %d", request, s.Seen(request), n)
		}
	}
}

// Live are the tokens that hold, Token apart.
func (s *SimulatedVault) Live() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, t := range s.tokens {
		if name != s.Token && t.holds() {
			n++
		}
	}
	return n
}

func (t *token) holds() bool { return t.ttl == 0 || time.Now().Before(t.until) }

// ServeHTTP answers one request.
func (s *SimulatedVault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	code, answer, late := s.serve(r, path)
	if late != nil {
		select {
		case <-late:
		case <-r.Context().Done():
		}
	}
	if code >= 300 && code < 400 {
		w.Header().Set("Location", "https://elsewhere.invalid/v1/"+path)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if answer == nil && code != http.StatusNoContent {
		answer = object{"errors": []string{"said by the server about " + path}}
	}
	if answer != nil {
		_ = json.NewEncoder(w).Encode(answer) // the client is gone otherwise
	}
}

// serve notes a request and acts on it. Its answer waits for late, if that is not nil.
func (s *SimulatedVault) serve(r *http.Request, path string) (code int, answer object, late chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	request := r.Method + " " + path
	s.seen = append(s.seen, request)
	close(s.news)
	s.news = make(chan struct{})
	late = s.late[request]
	delete(s.late, request)
	var body object
	_ = json.NewDecoder(r.Body).Decode(&body) // empty is none
	code, answer = s.answer(r, path, body)
	if len(s.broken) > 0 {
		code, answer = s.broken[0], nil
		s.broken = s.broken[1:]
	}
	return code, answer, late
}

func (s *SimulatedVault) answer(r *http.Request, path string, body object) (int, object) {
	if s.Namespace != "" && r.Header.Get("X-Vault-Namespace") != s.Namespace {
		return http.StatusNotFound, nil
	}
	if s.ClientCN != "" && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != s.ClientCN) {
		return http.StatusForbidden, nil
	}
	if strings.HasPrefix(path, "auth/approle/login") {
		id, _ := body["role_id"].(string)
		known := s.roles[id]
		if known == nil || known.secretID != body["secret_id"] {
			return http.StatusBadRequest, nil
		}
		name := s.newToken(known.ttl, true, known.may)
		return http.StatusOK, object{"auth": object{"client_token": name, "lease_duration": int(known.ttl.Seconds()), "renewable": true}}
	}
	name := r.Header.Get("X-Vault-Token")
	t := s.tokens[name]
	if t == nil || !t.holds() {
		return http.StatusForbidden, nil
	}
	switch {
	case path == "auth/token/lookup-self":
		return http.StatusOK, object{"data": object{"ttl": int(t.ttl.Seconds()), "renewable": t.renewable}}
	case path == "auth/token/renew-self" && t.renewable:
		t.until = time.Now().Add(t.ttl)
		return http.StatusOK, object{"auth": object{"client_token": name, "lease_duration": int(t.ttl.Seconds()), "renewable": true}}
	case path == "auth/token/renew-self":
		return http.StatusBadRequest, nil
	case path == "auth/token/revoke-self":
		delete(s.tokens, name)
		return http.StatusNoContent, nil
	case strings.HasPrefix(path, "sys/internal/ui/mounts/"):
		return s.mountOf(strings.TrimPrefix(path, "sys/internal/ui/mounts/"))
	case !t.allows(path):
		return http.StatusForbidden, nil
	case strings.HasPrefix(path, "ssh/sign/") && r.Method == http.MethodPost:
		return s.sign(body)
	}
	return s.value(path)
}

func (t *token) allows(path string) bool {
	for _, prefix := range t.may {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return len(t.may) == 0
}

func (s *SimulatedVault) mountOf(path string) (int, object) {
	for at, version := range s.mounts {
		if strings.HasPrefix(path, at) {
			var options any
			if version == "2" {
				options = object{"version": "2"}
			}
			return http.StatusOK, object{"data": object{"path": at, "type": "kv", "options": options}}
		}
	}
	if strings.HasPrefix(path, "ssh/") {
		return http.StatusOK, object{"data": object{"path": "ssh/", "type": "ssh", "options": nil}}
	}
	return http.StatusForbidden, nil
}

func (s *SimulatedVault) value(path string) (int, object) {
	at, rest, _ := strings.Cut(path, "/")
	if s.mounts[at+"/"] == "2" {
		rest, ok := strings.CutPrefix(rest, "data/")
		fields, there := s.values[at+"/"+rest]
		switch {
		case !ok || !there:
			return http.StatusNotFound, nil
		case fields == nil: // deleted
			return http.StatusNotFound, object{"data": object{"data": nil, "metadata": object{"version": 1, "deletion_time": "2026-01-01T00:00:00Z"}}}
		}
		return http.StatusOK, object{"data": object{"data": fields, "metadata": object{"version": 1}}}
	}
	if fields := s.values[path]; s.mounts[at+"/"] == "1" && fields != nil {
		return http.StatusOK, object{"data": fields, "lease_duration": 2764800}
	}
	return http.StatusNotFound, nil
}

func (s *SimulatedVault) sign(body object) (int, object) {
	text := func(key string) string { v, _ := body[key].(string); return v }
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text("public_key")))
	ttl, bad := time.ParseDuration(text("ttl"))
	if err != nil || bad != nil || text("cert_type") != "user" {
		return http.StatusBadRequest, nil
	}
	options := map[string]string{}
	if given, ok := body["critical_options"].(object); ok {
		for name, v := range given {
			options[name], _ = v.(string)
		}
	}
	now := time.Now()
	cert := &ssh.Certificate{
		Key: key, CertType: ssh.UserCert, KeyId: "vault-token-" + random(), ValidPrincipals: strings.Split(text("valid_principals"), ","),
		ValidAfter: uint64(now.Add(-30 * time.Second).Unix()), ValidBefore: uint64(now.Add(ttl).Unix()),
		Permissions: ssh.Permissions{CriticalOptions: options, Extensions: map[string]string{"permit-pty": ""}},
	}
	if err := cert.SignCert(rand.Reader, s.ca); err != nil {
		return http.StatusInternalServerError, nil
	}
	return http.StatusOK, object{"data": object{"serial_number": "1", "signed_key": string(ssh.MarshalAuthorizedKey(cert))}}
}
