package pages

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/testparts/servers"
)

// peopleAPI is an API that opens a session for an ID token of its provider.
type peopleAPI struct {
	*fakeAPI
	login *login.Provider
	outs  int // logouts
}

func (f *peopleAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /v1/login":
		var in api.Login
		_ = json.NewDecoder(r.Body).Decode(&in)
		w.Header().Set("Content-Type", "application/problem+json")
		if _, err := f.login.Verify(r.Context(), in.IDToken, in.Salt, r.Host); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(api.Problem{Title: "Unauthorized", Status: http.StatusUnauthorized, Detail: err.Error()})
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(api.Token{Secret: "good"})
	case "POST /v1/logout":
		f.mu.Lock()
		f.outs++
		f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(api.Token{})
	default:
		f.fakeAPI.ServeHTTP(w, r)
	}
}

// organisation is pages whose people log in by a provider.
func organisation(t *testing.T) (*servers.OIDC, *peopleAPI, *httptest.Server, *http.Client) {
	t.Helper()
	p := servers.StartOIDC(t)
	p.Next(map[string]any{"sub": "1", "groups": "noc"}, 0, "")
	rules := login.Rules{Access: []login.Rule{{Claim: "groups", Value: "noc", Tenant: "*", Role: "operator"}}}
	l, err := login.New(login.Config{Issuer: p.Issuer, ClientID: servers.OIDCClient, Session: time.Hour, Rules: func() (login.Rules, error) { return rules, nil }})
	if err != nil {
		t.Fatal(err)
	}
	f := &peopleAPI{fakeAPI: newFake(), login: l}
	made, err := New(Config{API: f, Version: "test", Log: slog.New(slog.DiscardHandler), Login: l})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(made)
	t.Cleanup(web.Close)
	browser := web.Client()
	browser.Jar, _ = cookiejar.New(nil)
	return p, f, web, browser
}

// A person goes to the provider and comes back to the page that was asked for; the logout also ends
// the session at the API.
func TestOpenIDLogin(t *testing.T) {
	_, f, web, browser := organisation(t)
	_, text := get(t, browser, web.URL+"/hosts/web1")
	if !strings.Contains(text, `href="/login/openid?next=%2Fhosts%2Fweb1"`) {
		t.Fatalf("the login does not lead to the provider: %s", text)
	}
	resp, text := get(t, browser, web.URL+"/login/openid?next=%2Fhosts%2Fweb1")
	if resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/hosts/web1" {
		t.Fatalf("%d at %s: %s", resp.StatusCode, resp.Request.URL, text)
	}
	out, err := browser.PostForm(web.URL+"/logout", asAnn("acme", nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = out.Body.Close()
	if resp, _ := get(t, browser, web.URL+"/"); resp.Request.URL.Path != "/login" || f.outs != 1 {
		t.Errorf("after the logout: %s, %d logouts at the API", resp.Request.URL, f.outs)
	}
}

// Nobody can finish a login that another browser began, or repeat one, or be led elsewhere by it.
func TestOpenIDLoginIsOfTheBrowserThatBegan(t *testing.T) {
	_, _, web, browser := organisation(t)
	stop := func(next *http.Request, _ []*http.Request) error {
		if next.URL.Path == openIDBack {
			return http.ErrUseLastResponse
		}
		return nil
	}
	began := *browser
	began.CheckRedirect = stop
	resp, _ := get(t, &began, web.URL+"/login/openid?next=https://evil.example.net/")
	back, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	other := *browser
	other.Jar, _ = cookiejar.New(nil)
	if resp, text := get(t, &other, back.String()); resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "did not begin that login") {
		t.Errorf("another browser: %d %s", resp.StatusCode, text)
	}
	wrong := *back
	wrong.RawQuery = url.Values{"state": {"guessed"}, "code": {back.Query().Get("code")}}.Encode()
	keep := browser.Jar.Cookies(back) // a wrong state ends the attempt
	if resp, _ := get(t, browser, wrong.String()); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a state of nobody: %d", resp.StatusCode)
	}
	if resp, _ := get(t, browser, back.String()); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("after a wrong state: %d", resp.StatusCode)
	}
	browser.Jar.SetCookies(back, withPath(keep))
	if resp, text := get(t, browser, back.String()); resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/" || resp.Request.URL.Host != back.Host {
		t.Errorf("the browser that began: %d at %s: %s", resp.StatusCode, resp.Request.URL, text)
	}
	browser.Jar.SetCookies(back, withPath(keep))
	if resp, _ := get(t, browser, back.String()); resp.StatusCode == http.StatusOK {
		t.Errorf("a code counts twice: %s", resp.Request.URL)
	}
}

// withPath are cookies as the server sets them: a jar does not return their attributes.
func withPath(cookies []*http.Cookie) []*http.Cookie {
	for _, c := range cookies {
		c.Path, c.Secure = "/", true
	}
	return cookies
}

// A refusal of the provider or the API is shown at the login.
func TestOpenIDLoginThatIsRefused(t *testing.T) {
	p, f, web, browser := organisation(t)
	p.Next(nil, 0, "access_denied")
	if resp, text := get(t, browser, web.URL+"/login/openid"); resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "access_denied") {
		t.Errorf("%d: %s", resp.StatusCode, text)
	}
	p.Next(map[string]any{"sub": "2", "groups": "nobody"}, 0, "")
	if resp, text := get(t, browser, web.URL+"/login/openid"); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "no rule of the access file") {
		t.Errorf("%d: %s", resp.StatusCode, text)
	}
	if f.outs != 0 {
		t.Error("a login that failed logged somebody out")
	}
}

// With a key ring a session holds at every server, and after a restart; without one it ends with
// the process. A cookie that nobody encrypted is no session, whatever the ring accepts.
func TestSessionsOfSeveralServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ring")
	if _, err := keyring.New(path); err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Open(path, keyring.Options{AcceptPlain: true, Reported: func(s string) { t.Log(s) }, Refused: func(s string) { t.Error(s) }})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		first, second *sessions
		holds         bool
	}{
		"one ring":           {newSessions(ring), newSessions(ring), true},
		"none":               {newSessions(nil), newSessions(nil), false},
		"only the first has": {newSessions(ring), newSessions(nil), false},
		"only the other has": {newSessions(nil), newSessions(ring), false},
	} {
		w := httptest.NewRecorder()
		c.first.begin(w, session{Token: "good"})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(w.Result().Cookies()[0])
		if one, ok := c.second.read(r); ok != c.holds || ok && one.Token != "good" {
			t.Errorf("%s: %+v %t", name, one, ok)
		}
	}
	plain := httptest.NewRequest(http.MethodGet, "/", nil)
	plain.AddCookie(&http.Cookie{Name: cookieName, Value: "eyJ0IjoiZ29vZCIsImUiOiIyMDk5LTAxLTAxVDAwOjAwOjAwWiJ9"})
	if one, ok := newSessions(ring).read(plain); ok {
		t.Errorf("a session that nobody encrypted: %+v", one)
	}
	login := httptest.NewRecorder()
	newSessions(ring).set(login, ticketCookie, session{Token: "good", Expires: time.Now().Add(time.Hour)}, time.Hour)
	swapped := httptest.NewRequest(http.MethodGet, "/", nil)
	swapped.AddCookie(&http.Cookie{Name: cookieName, Value: login.Result().Cookies()[0].Value})
	if one, ok := newSessions(ring).read(swapped); ok {
		t.Errorf("the cookie of a login that has begun is a session: %+v", one)
	}
}
