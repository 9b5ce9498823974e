package pages

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// sessionTime is how long a login holds. A token that ends or is revoked before ends it, too,
// because the API refuses it.
const sessionTime = 12 * time.Hour

// cookieName binds the cookie to this host, to https and to the whole site (RFC 6265bis, __Host-).
// Browsers keep it over plain http on this machine only.
const cookieName = "__Host-turnus"

// maxToken bounds what is taken for a token.
const maxToken = 4096

// who is the person that a session is for.
type who struct {
	Name, Tenant string
	Roles        []string
}

// Operates reports whether the person may change runs.
func (w who) Operates() bool { return w.has("operator") }

// Approves reports whether the person may approve.
func (w who) Approves() bool { return w.has("approver") }

func (w who) has(role string) bool {
	return slices.Contains(w.Roles, role) || slices.Contains(w.Roles, "admin")
}

// session is what the cookie holds, encrypted.
type session struct {
	Token   string    `json:"t"`
	Who     who       `json:"w"`
	Expires time.Time `json:"e"`
}

// sessions encrypts cookies with a key of this process: nothing is stored, and after a restart
// people log in again.
type sessions struct{ seal cipher.AEAD }

func newSessions() *sessions {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return &sessions{seal: aead}
}

func (s *sessions) begin(w http.ResponseWriter, one session) {
	one.Expires = time.Now().Add(sessionTime)
	plain, _ := json.Marshal(one)                                                                   // three texts and a time
	value := base64.RawURLEncoding.EncodeToString(s.seal.Seal(nil, nil, plain, []byte(cookieName))) //nolint:gosec // the AEAD makes a nonce for each
	http.SetCookie(w, cookie(value, int(sessionTime/time.Second)))
}

func (s *sessions) end(w http.ResponseWriter) { http.SetCookie(w, cookie("", -1)) }

func cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// read returns the session of a request; ok is false without one, and for one that this process did
// not make or that is over.
func (s *sessions) read(r *http.Request) (one session, ok bool) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return one, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return one, false
	}
	plain, err := s.seal.Open(nil, nil, sealed, []byte(cookieName))
	if err != nil || json.Unmarshal(plain, &one) != nil {
		return session{}, false
	}
	return one, time.Now().Before(one.Expires)
}

// loginView is the login page: where it leads to, and what was wrong.
type loginView struct{ Next, Problem string }

func (p *Pages) loginPage(w http.ResponseWriter, r *http.Request) {
	p.show(w, http.StatusOK, "login", visit{}, "Log in", loginView{Next: within(r.FormValue("next"))})
}

// login takes a token that somebody pasted, if the API knows it.
func (p *Pages) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 2*maxToken)
	token, next := strings.TrimSpace(r.PostFormValue("token")), within(r.PostFormValue("next"))
	if token == "" || len(token) > maxToken || strings.ContainsAny(token, "\r\n") {
		p.show(w, http.StatusUnprocessableEntity, "login", visit{}, "Log in", loginView{next, "Paste a token: turnus admin tokens create NAME --role viewer makes one."})
		return
	}
	c := client.InProcess(&transport{api: p.api, token: token})
	me, err := c.Whoami(r.Context())
	if err != nil {
		p.show(w, http.StatusUnauthorized, "login", visit{}, "Log in", loginView{next, "The server does not know this token, or it has expired."})
		return
	}
	p.sessions.begin(w, session{Token: token, Who: whoOf(me)})
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // within lets only paths of these pages through
}

func whoOf(me api.Whoami) who { return who{me.Name, me.Tenant, me.Roles} }

func (p *Pages) logout(w http.ResponseWriter, r *http.Request) {
	p.sessions.end(w)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (p *Pages) toLogin(w http.ResponseWriter, r *http.Request) {
	to := "/login"
	if r.Method == http.MethodGet && r.URL.Path != "/" && !strings.HasSuffix(r.URL.Path, "/live") {
		to += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// within is a path of these pages; whatever else is asked for is the overview, so that no link
// leads away after a login.
func within(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n") || !Serves(u.Path) {
		return "/"
	}
	return next
}
