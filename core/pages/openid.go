package pages

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/login"
)

// The login by the OpenID provider leads away from these pages and back: the state of it is with
// the browser, in an encrypted cookie of its own.
const (
	openIDPath   = "/login/openid"
	openIDBack   = "/login/back"
	ticketCookie = "__Host-turnus-login"
	ticketTime   = 10 * time.Minute // for a person to log in at the provider
)

// ticket is the content of the cookie of a login that has begun.
type ticket struct {
	login.Ticket
	Next    string    `json:"next"`
	Expires time.Time `json:"e"`
}

// beginOpenID sends the browser to the provider.
func (p *Pages) beginOpenID(w http.ResponseWriter, r *http.Request) {
	next := within(r.FormValue("next"))
	back, err := p.backTo(r)
	if err != nil {
		p.refuseLogin(w, next, err)
		return
	}
	page, t, err := p.login.Begin(r.Context(), back, r.Host)
	if err != nil {
		p.refuseLogin(w, next, err)
		return
	}
	p.sessions.set(w, ticketCookie, ticket{t, next, time.Now().Add(ticketTime)}, ticketTime)
	http.Redirect(w, r, page, http.StatusSeeOther) //nolint:gosec // the provider's own page
}

// finishOpenID takes the browser that the provider sends back, if this is the browser that began.
func (p *Pages) finishOpenID(w http.ResponseWriter, r *http.Request) {
	var t ticket
	begun := p.sessions.get(r, ticketCookie, &t) && time.Now().Before(t.Expires)
	p.sessions.clear(w, ticketCookie)
	next := within(t.Next)
	if !begun || r.FormValue("state") != t.State {
		p.loginAgain(w, http.StatusBadRequest, next, "This browser did not begin that login, or began it more than 10 minutes ago. Log in again.")
		return
	}
	code := r.FormValue("code")
	if code == "" {
		p.loginAgain(w, http.StatusForbidden, next, "The OpenID provider refuses: "+cmp.Or(r.FormValue("error_description"), r.FormValue("error"), "it names no reason"))
		return
	}
	back, err := p.backTo(r)
	if err != nil {
		p.refuseLogin(w, next, err)
		return
	}
	idToken, err := p.login.Finish(r.Context(), back, code, t.Ticket)
	if err != nil {
		p.refuseLogin(w, next, err)
		return
	}
	made, err := p.client(r, "").Login(r.Context(), idToken, t.Salt)
	if err != nil {
		p.refuseLogin(w, next, err)
		return
	}
	p.enter(w, r, made.Secret, next)
}

// backTo is the address of finishOpenID, as people reach this server. A server with a name is
// behind https; without one it is on the person's own machine.
func (p *Pages) backTo(r *http.Request) (string, error) {
	host, err := p.login.Host(r.Host)
	if err != nil {
		return "", err
	}
	scheme := "https://"
	if name, _, _ := strings.Cut(host, ":"); r.TLS == nil && core.ThisMachine(name) {
		scheme = "http://"
	}
	return scheme + host + openIDBack, nil
}

// refuseLogin shows the login with the reason why the last one failed.
func (p *Pages) refuseLogin(w http.ResponseWriter, next string, err error) {
	p.log.Warn("login by the OpenID provider failed", "err", err)
	status, text := statusOf(err)
	p.loginAgain(w, status, next, text)
}

func (p *Pages) loginAgain(w http.ResponseWriter, status int, next, problem string) {
	p.show(w, status, "login", visit{}, "Log in", p.loginView(next, problem))
}

// client asks the API as the browser whose request r is, with a token.
func (p *Pages) client(r *http.Request, token string) *client.Client {
	return client.InProcess(&transport{api: p.api, token: token, host: r.Host})
}
