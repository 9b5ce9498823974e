package pages

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/keyring"
)

// sessionTime is how long a login holds. A token that ends or is revoked before also ends it,
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

// Label names the person and the tenant, which names of tokens begin with.
func (w who) Label() string {
	if w.Everyone() || strings.HasPrefix(w.Name, w.Tenant+"/") {
		return w.Name
	}
	return w.Name + " of " + w.Tenant
}

// Mark identifies the person for whom a page was made: the browser may log in as another person
// while the page is open.
func (w who) Mark() string {
	if w.Name == "" {
		return ""
	}
	return seenOf(w.Tenant + "\x00" + w.Name)
}

// others reports whether a stream with a mark is of a page of another person. Without a mark it is
// anybody's.
func (w who) others(mark string) bool { return mark != "" && mark != w.Mark() }

// fieldAs is the field of a form for the mark of the person for whom the form was made. Templates
// leave it empty, because an open page is the same for all people with the same rights. No text of
// others can be it: HTML of others has no <.
const (
	fieldAs  = "as"
	unmarked = `<input type="hidden" name="` + fieldAs + `">`
)

// marked fills in for whom the forms of a page are made.
func marked(html, mark string) string {
	return strings.ReplaceAll(html, unmarked, strings.TrimSuffix(unmarked, ">")+` value="`+mark+`">`)
}

// refusedForm is a form that was not made for the person.
type refusedForm struct {
	Page   string // that it is on
	Marked bool   // it was made for another person
}

// own reads a form, and reports whether it was made for the person. If the browser logged in as
// another person after that, or no page made the form, own shows a page about it.
func (p *Pages) own(w http.ResponseWriter, r *http.Request, v visit) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		p.show(w, http.StatusBadRequest, "problem", v, "Nothing was done", "the form cannot be read: "+err.Error())
		return false
	}
	if mark := r.PostForm.Get(fieldAs); mark != v.who.Mark() {
		p.show(w, http.StatusConflict, "other", v, "Nothing was done", refusedForm{p.pageOf(r), mark != ""})
		return false
	}
	return true
}

// pageOf returns the address of the page that a form is on; the overview if that is no page which a
// link can lead to.
func (p *Pages) pageOf(r *http.Request) string {
	u, err := url.Parse(r.Referer())
	if err != nil {
		return "/"
	}
	if _, pattern := p.routes.Handler(&http.Request{Method: http.MethodGet, URL: u, Host: r.Host}); pattern == "" {
		return "/"
	}
	return within(u.RequestURI())
}

// Operates reports whether the person may change runs.
func (w who) Operates() bool { return w.has("operator") }

// Approves reports whether the person may approve.
func (w who) Approves() bool { return w.has("approver") }

// Admin reports whether the person may manage tokens.
func (w who) Admin() bool { return w.has("admin") }

// Everyone reports whether the person sees all tenants.
func (w who) Everyone() bool { return w.Tenant == "*" }

func (w who) has(role string) bool {
	return slices.Contains(w.Roles, role) || slices.Contains(w.Roles, "admin")
}

// session is the content of the cookie, which is encrypted.
type session struct {
	Token   string    `json:"t"`
	Who     who       `json:"w"`
	Expires time.Time `json:"e"`
}

// sessions encrypts cookies; nothing is stored. With a key ring every server with that ring reads
// them, also after a restart. Without one this process alone does.
type sessions struct {
	ring *keyring.Ring
	own  cipher.AEAD // nil with a ring
}

func newSessions(ring *keyring.Ring) *sessions {
	if ring != nil {
		return &sessions{ring: ring}
	}
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
	return &sessions{own: aead}
}

func (s *sessions) begin(w http.ResponseWriter, one session) {
	one.Expires = time.Now().Add(sessionTime)
	s.set(w, cookieName, one, sessionTime)
}

func (s *sessions) end(w http.ResponseWriter) { s.clear(w, cookieName) }

// read returns the session of a request; ok is false without one, and for one that ended or that
// none of these servers made.
func (s *sessions) read(r *http.Request) (one session, ok bool) {
	if !s.get(r, cookieName, &one) {
		return session{}, false
	}
	return one, time.Now().Before(one.Expires)
}

// set keeps a value in a browser, as JSON that only these servers can read and make.
func (s *sessions) set(w http.ResponseWriter, name string, value any, age time.Duration) {
	plain, _ := json.Marshal(value) // texts and times
	place := keyring.Context("pages", name)
	var encrypted []byte
	if s.ring != nil {
		encrypted = s.ring.Encrypt(plain, place)
	} else {
		encrypted = s.own.Seal(nil, nil, plain, place) //nolint:gosec // the AEAD makes a nonce for each
	}
	http.SetCookie(w, cookie(name, base64.RawURLEncoding.EncodeToString(encrypted), int(age/time.Second)))
}

func (s *sessions) clear(w http.ResponseWriter, name string) { http.SetCookie(w, cookie(name, "", -1)) }

// get reads what set kept; ok is false if there is nothing, or something that set did not make.
func (s *sessions) get(r *http.Request, name string, value any) (ok bool) {
	c, err := r.Cookie(name)
	if err != nil {
		return false
	}
	encrypted, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return false
	}
	place := keyring.Context("pages", name)
	var plain []byte
	if s.ring == nil {
		plain, err = s.own.Open(nil, nil, encrypted, place)
	} else if _, made := keyring.KeyOf(encrypted); made { // a ring may accept bytes that nobody encrypted; a session never
		plain, err = s.ring.Open(encrypted, place)
	} else {
		return false
	}
	return err == nil && json.Unmarshal(plain, value) == nil
}

func cookie(name, value string, age int) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// loginView is the login page: where it leads to, what was wrong, and whether an OpenID provider is
// asked.
type loginView struct {
	Next, Problem string
	OpenID        bool
}

func (p *Pages) loginView(next, problem string) loginView {
	return loginView{next, problem, p.login != nil}
}

func (p *Pages) loginPage(w http.ResponseWriter, r *http.Request) {
	p.loginAgain(w, http.StatusOK, within(r.FormValue("next")), "")
}

// logIn takes a token that somebody pasted, if the API knows it.
func (p *Pages) logIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 2*maxToken)
	token, next := strings.TrimSpace(r.PostFormValue("token")), within(r.PostFormValue("next"))
	if token == "" || len(token) > maxToken || strings.ContainsAny(token, "\r\n") {
		p.loginAgain(w, http.StatusUnprocessableEntity, next, "Paste a token: turnus admin tokens create NAME --role viewer makes one.")
		return
	}
	p.enter(w, r, token, next)
}

// enter begins a session with a token that the API knows, and continues to next. The cookie has a
// session of the API instead of a token that somebody pasted, so that a logout ends it at all
// servers, and with it each copy of the cookie.
func (p *Pages) enter(w http.ResponseWriter, r *http.Request, token, next string) {
	c := p.client(r, token)
	me, err := c.Whoami(r.Context())
	if err == nil {
		var opened api.Token
		if opened, err = c.OpenSession(r.Context()); err == nil {
			token = opened.Secret
		} else if status, _ := statusOf(err); status == http.StatusConflict { // the token is of a session
			err = nil
		}
	}
	if err != nil {
		status, text := statusOf(err)
		if status == http.StatusUnauthorized {
			text = "The server does not know this token, or it has expired."
		}
		p.loginAgain(w, status, next, text)
		return
	}
	p.sessions.begin(w, session{Token: token, Who: whoOf(me)})
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // within lets only paths of these pages through
}

func whoOf(me api.Whoami) who { return who{me.Name, me.Tenant, me.Roles} }

// logout ends the session here and at the API, with everywhere all sessions of the person. A token
// that somebody pasted stays valid.
func (p *Pages) logout(w http.ResponseWriter, r *http.Request) {
	if s, ok := p.sessions.read(r); ok {
		if !p.own(w, r, visit{who: s.Who}) {
			return
		}
		c := p.client(r, s.Token)
		out := c.Logout
		if r.PostFormValue("everywhere") != "" {
			out = c.LogoutEverywhere
		}
		if _, err := out(r.Context()); err != nil {
			if status, text := statusOf(err); status != http.StatusConflict && status != http.StatusUnauthorized {
				p.log.Warn("a session was not ended at the API", "err", err)
				p.sessions.end(w)
				p.loginAgain(w, status, "/", "This browser is logged out, but at the server the session stays valid, for everybody with a copy of the cookie: "+text+". Log in again, and choose Log out everywhere in the settings.")
				return
			}
		}
	}
	p.sessions.end(w)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// toLogin leads a request without a session to the login. A stream gets an event, because a
// browser would ask again for ever, and a form is kept.
func (p *Pages) toLogin(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/live"):
		newEvents(w).send("login", "1")
		return
	case r.Method != http.MethodGet && p.keepForm(w, r):
		return
	}
	to := "/login"
	if r.Method == http.MethodGet && r.URL.Path != "/" {
		to += "?next=" + url.QueryEscape(r.URL.RequestURI())
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// keptForm is a form that came without a session, to be sent again.
type keptForm struct {
	Action string
	Fields []keptField
}

type keptField struct{ Name, Value string }

// keepForm shows what a form had, and a button that sends it again. It is sent only when a person
// presses the button, and refused if that is another person. keepForm reports whether it could read
// the form.
func (p *Pages) keepForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if r.ParseForm() != nil {
		return false
	}
	kept := keptForm{Action: r.URL.RequestURI()}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, value := range r.PostForm[name] {
			kept.Fields = append(kept.Fields, keptField{name, value})
		}
	}
	p.show(w, http.StatusUnauthorized, "ended", visit{}, "Log in again", kept)
	return true
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
