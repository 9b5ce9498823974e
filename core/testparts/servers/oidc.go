package servers

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// OIDCClient is the provider's client id of Turnus.
const OIDCClient = "turnus"

// OIDC is an OpenID Connect provider: discovery, keys, the device and the code grant with PKCE. Its
// fields may be changed between logins.
type OIDC struct {
	Issuer string
	Nonce  string // of ID tokens that are asked for with none

	key, foreign *rsa.PrivateKey

	mu      sync.Mutex
	claims  map[string]any // of the next person who logs in
	refuse  string         // an error instead
	waits   int            // polls of a device before it is let in
	codes   map[string]url.Values
	devices map[string]url.Values
	asked   map[string]int
}

// StartOIDC runs a provider over HTTP on this machine until the test ends.
func StartOIDC(tb testing.TB) *OIDC {
	tb.Helper()
	p := &OIDC{codes: map[string]url.Values{}, devices: map[string]url.Values{}, asked: map[string]int{}, claims: map[string]any{"sub": "alice"}}
	var err error
	if p.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		tb.Fatal(err)
	}
	if p.foreign, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		tb.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /device", p.device)
	mux.HandleFunc("POST /token", p.token)
	s := httptest.NewServer(mux)
	tb.Cleanup(s.Close)
	p.Issuer = s.URL
	return p
}

// Next sets who logs in next, after so many polls of a device; refuse is an error of the provider
// instead.
func (p *OIDC) Next(claims map[string]any, waits int, refuse string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims, p.waits, p.refuse = claims, waits, refuse
}

// Asked is how often a path was asked.
func (p *OIDC) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *OIDC) count(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[r.URL.Path]++
}

func (p *OIDC) discovery(w http.ResponseWriter, r *http.Request) {
	p.count(r)
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer": p.Issuer, "authorization_endpoint": p.Issuer + "/authorize", "token_endpoint": p.Issuer + "/token", "jwks_uri": p.Issuer + "/keys",
		"device_authorization_endpoint": p.Issuer + "/device", "id_token_signing_alg_values_supported": []string{"RS256", "none", "HS256"},
		"scopes_supported": []string{"openid", "profile", "email"},
	})
}

func (p *OIDC) keys(w http.ResponseWriter, r *http.Request) {
	p.count(r)
	pub := p.key.PublicKey
	writeJSON(w, http.StatusOK, map[string]any{"keys": []map[string]any{{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": b64(pub.N.Bytes()), "e": b64(big.NewInt(int64(pub.E)).Bytes()),
	}}})
}

// authorize logs every visitor in immediately, as a browser that has a session there.
func (p *OIDC) authorize(w http.ResponseWriter, r *http.Request) {
	p.count(r)
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || back.Hostname() != "127.0.0.1" || q.Get("client_id") != OIDCClient || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		http.Error(w, "not a login of Turnus", http.StatusBadRequest)
		return
	}
	answer := url.Values{"state": {q.Get("state")}}
	p.mu.Lock()
	if p.refuse != "" {
		answer.Set("error", p.refuse)
	} else {
		code := rand.Text()
		p.codes[code] = q
		answer.Set("code", code)
	}
	p.mu.Unlock()
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // a provider sends people back to who asked, and the test is that
}

func (p *OIDC) device(w http.ResponseWriter, r *http.Request) {
	p.count(r)
	_ = r.ParseForm()
	if r.Form.Get("client_id") != OIDCClient || !strings.Contains(r.Form.Get("scope"), "openid") {
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_client"})
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.devices[code] = r.Form
	p.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": p.Issuer + "/enter", "expires_in": 600, "interval": 1,
	})
}

func (p *OIDC) token(w http.ResponseWriter, r *http.Request) {
	p.count(r)
	_ = r.ParseForm()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, known := p.codes[r.Form.Get("code")]
	if r.Form.Get("grant_type") != "authorization_code" {
		asked, known = p.devices[r.Form.Get("device_code")]
	}
	sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
	switch {
	case !known || asked.Get("code_challenge") != b64(sum[:]):
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	case p.refuse != "":
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": p.refuse})
	case p.waits > 0:
		p.waits--
		writeJSON(w, http.StatusBadRequest, map[string]string{"error": "authorization_pending"})
	default:
		delete(p.codes, r.Form.Get("code"))
		claims := maps.Clone(p.claims)
		if nonce := asked.Get("nonce"); nonce != "" && claims["nonce"] == nil {
			claims["nonce"] = nonce
		}
		writeJSON(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "id_token": p.IDToken(claims)})
	}
}

// IDToken is one that is right except the claims that are given; nil takes one out.
func (p *OIDC) IDToken(claims map[string]any) string {
	return p.sign(map[string]any{"alg": "RS256", "kid": "1"}, claims, p.rs256(p.key))
}

// Forged are ID tokens that nobody may believe, by what is wrong with them.
func (p *OIDC) Forged(claims map[string]any) map[string]string {
	public := b64(p.key.N.Bytes()) // the one secret that a forger has
	hs := func(text string) string {
		mac := hmac.New(sha256.New, []byte(public))
		mac.Write([]byte(text))
		return b64(mac.Sum(nil))
	}
	none := func(string) string { return "" }
	right := p.IDToken(claims)
	head, rest, _ := strings.Cut(right, ".")
	_, signature, _ := strings.Cut(rest, ".")
	other := maps.Clone(claims)
	other["sub"] = "somebody-else"
	_, swapped, _ := strings.Cut(p.IDToken(other), ".")
	body, _, _ := strings.Cut(swapped, ".")
	return map[string]string{
		"alg none":          p.sign(map[string]any{"alg": "none"}, claims, none),
		"alg None":          p.sign(map[string]any{"alg": "None", "kid": "1"}, claims, none),
		"alg HS256":         p.sign(map[string]any{"alg": "HS256", "kid": "1"}, claims, hs),
		"another key":       p.sign(map[string]any{"alg": "RS256", "kid": "1"}, claims, p.rs256(p.foreign)),
		"an unknown key id": p.sign(map[string]any{"alg": "RS256", "kid": "2"}, claims, p.rs256(p.foreign)),
		"no signature":      strings.Join([]string{head, body, ""}, "."),
		"other contents":    strings.Join([]string{head, body, signature}, "."),
		"nonsense":          "a.b.c",
		"nothing":           "x",
	}
}

func (p *OIDC) rs256(key *rsa.PrivateKey) func(string) string {
	return func(text string) string {
		sum := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		if err != nil {
			panic(err) // a key of our own
		}
		return b64(signature)
	}
}

func (p *OIDC) sign(header, claims map[string]any, by func(string) string) string {
	now := time.Now()
	all := map[string]any{"iss": p.Issuer, "aud": OIDCClient, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "jti": rand.Text()}
	if p.Nonce != "" {
		all["nonce"] = p.Nonce
	}
	for name, value := range claims {
		if value == nil {
			delete(all, name)
		} else {
			all[name] = value
		}
	}
	text := b64(asJSON(header)) + "." + b64(asJSON(all))
	return text + "." + by(text)
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func asJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // values of tests
	}
	return text
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(asJSON(v))
}
