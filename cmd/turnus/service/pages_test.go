package service

import (
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/pages"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/server"
)

// site is two servers of one service, its ledger and its queue. Nobody works on its runs.
type site struct {
	t       testing.TB
	ledger  *ledger.Ledger
	queue   *memory.Queue
	catalog *catalog.Catalog // of the first server
	web     [2]*httptest.Server
	pages   [2]*pages.Pages
}

func newSite(t testing.TB) *site { return newSiteOn(t, ledger.Memory) }

// newSiteOn is newSite on an empty database.
func newSiteOn(t testing.TB, database string) *site {
	t.Helper()
	s := &site{t: t}
	path := filepath.Join(t.TempDir(), "ring")
	if _, err := keyring.New(path); err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Open(path, keyring.Options{Reported: func(text string) { t.Log(text) }, Refused: func(text string) { t.Error(text) }})
	if err != nil {
		t.Fatal(err)
	}
	if s.ledger, err = ledger.Open(t.Context(), database, ledger.Options{Private: database == ledger.Memory}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.ledger.Close() })
	q := memory.New(memory.Options{})
	s.queue = q
	t.Cleanup(q.Shutdown)
	for i, name := range []string{"one", "two"} {
		ctl, err := controller.New(controller.Config{Name: name, Ledger: s.ledger, Queue: q, Board: q})
		if err != nil {
			t.Fatal(err)
		}
		defs, err := catalog.New(catalog.Config{Ledger: s.ledger, Board: q, Controller: ctl})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			s.catalog = defs
		}
		api, err := server.New(server.Config{Ledger: s.ledger, Controller: ctl, Queue: q, Board: q, Feed: q, Catalog: defs, Backend: "memory", Version: "test", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(api.Close)
		if s.pages[i], err = pages.New(pages.Config{API: api, Version: "test", Log: slog.New(slog.DiscardHandler), Keyring: ring}); err != nil {
			t.Fatal(err)
		}
		s.web[i] = httptest.NewServer(beside(s.pages[i], api))
		t.Cleanup(s.web[i].Close)
	}
	return s
}

// token makes a token; without a tenant it is of all of them.
func (s *site) token(name, tenant, role string) (secret, id string) {
	s.t.Helper()
	secret, made, err := s.ledger.NewToken(s.t.Context(), "test", ledger.Token{Name: name, Tenant: tenant, AllTenants: tenant == "", Roles: []string{role}})
	if err != nil {
		s.t.Fatal(err)
	}
	return secret, made.ID
}

// ask sends a request with the cookies, to one of the servers. A form is of the person whose
// session it is. It follows no redirect.
func (s *site) ask(at int, method, path string, form url.Values, cookies ...*http.Cookie) *http.Response {
	s.t.Helper()
	resp := s.send(at, method, path, form, cookies)
	_ = resp.Body.Close()
	return resp
}

// markedFor finds for whom a page was made.
var markedFor = regexp.MustCompile(`data-as="([^"]*)"`)

func (s *site) send(at int, method, path string, form url.Values, cookies []*http.Cookie) *http.Response {
	s.t.Helper()
	if method == http.MethodPost && path != "/login" {
		page := s.send(at, http.MethodGet, "/settings", nil, cookies)
		text, err := io.ReadAll(page.Body)
		_ = page.Body.Close()
		mark := markedFor.FindSubmatch(text)
		if err != nil || mark == nil {
			s.t.Fatalf("the settings page does not name its person: status %d, %v", page.StatusCode, err)
		}
		form = maps.Clone(form)
		if form == nil {
			form = url.Values{}
		}
		form.Set("as", string(mark[1]))
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.web[at].URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range cookies {
		req.AddCookie(c)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

func (s *site) logIn(at int, token string, cookies ...*http.Cookie) *http.Cookie {
	s.t.Helper()
	resp := s.ask(at, "POST", "/login", url.Values{"token": {token}}, cookies...)
	if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 {
		s.t.Fatalf("login: %d %v", resp.StatusCode, resp.Header)
	}
	return resp.Cookies()[0]
}

// in reports whether a cookie is a session at one of the servers.
func (s *site) in(at int, cookie *http.Cookie) bool {
	s.t.Helper()
	resp := s.ask(at, "GET", "/settings", nil, cookie)
	switch {
	case resp.StatusCode == http.StatusOK:
		return true
	case resp.StatusCode == http.StatusSeeOther && strings.HasPrefix(resp.Header.Get("Location"), "/login"):
		return false
	}
	s.t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	return false
}

// A copy of a cookie is worth nothing after the logout, at no server, and a login never takes the
// session that the browser brought.
func TestALogoutHoldsAtEveryServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	secret, id := s.token("ann", "acme", "admin")
	stolen, second := s.logIn(0, secret), s.logIn(1, secret)
	if strings.Contains(stolen.Value, secret) || stolen.Value == second.Value {
		t.Error("a cookie shows the token, or two logins share one")
	}
	s.ask(0, "POST", "/logout", nil, stolen)
	if s.in(0, stolen) || s.in(1, stolen) {
		t.Error("the cookie holds after its logout")
	}
	if !s.in(0, second) || !s.in(1, second) {
		t.Error("control: the other session ended")
	}

	third := s.logIn(1, secret, second) // fixation: a session that was there is not taken over
	if third.Value == second.Value {
		t.Error("a login continues with the session that the browser brought")
	}
	s.ask(1, "POST", "/logout", url.Values{"everywhere": {"1"}}, third)
	fresh := s.logIn(0, secret)
	if s.in(1, second) || s.in(1, third) || !s.in(1, fresh) {
		t.Error("expected that all sessions of before end, and that the token stays")
	}
	// The end of the token ends its sessions.
	s.ask(0, "POST", "/tokens/"+id+"/revoke", nil, fresh)
	if s.in(0, fresh) {
		t.Error("the session holds after its token was revoked")
	}
}

// The link of turnus up logs one browser in as the first admin, once. There is none if the token is
// revoked or gone, or if browsers would keep no session.
func TestLoginLinkOfUp(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	secret, id := s.token("admin", "acme", "admin")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	up := &service{f: &Flags{listen: "127.0.0.1:0"}, data: &DataDir{Path: t.TempDir()}, ledger: s.ledger, pages: s.pages[0], listener: listener}
	if link := up.loginLink(t.Context()); link != "" {
		t.Errorf("without a token: %s", link)
	}
	if err := os.WriteFile(filepath.Join(up.data.Path, "admin.token"), []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, err := url.Parse(up.loginLink(t.Context()))
	if err != nil || link.Host != listener.Addr().String() || strings.Contains(link.String(), secret) {
		t.Fatalf("%s, %v", link, err)
	}
	resp := s.ask(0, "GET", link.RequestURI(), nil)
	if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 || !s.in(0, resp.Cookies()[0]) {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	if again := s.ask(0, "GET", link.RequestURI(), nil); again.StatusCode != http.StatusUnauthorized || len(again.Cookies()) != 0 {
		t.Errorf("a second time: %d %v", again.StatusCode, again.Header)
	}
	up.f.listen = "0.0.0.0:8470"
	if link := up.loginLink(t.Context()); link != "" {
		t.Errorf("where browsers keep no session: %s", link)
	}
	up.f.listen = "127.0.0.1:0"
	s.ask(0, "POST", "/tokens/"+id+"/revoke", nil, resp.Cookies()[0])
	if link := up.loginLink(t.Context()); link != "" {
		t.Errorf("of a revoked token: %s", link)
	}
}
