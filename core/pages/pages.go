// Package pages owns the web pages that people open in a browser. Every page shows what the API
// shows to the same token, because it asks the API, in this process, with that token.
//
// It must not know the ledger, the queue or how the API finds its answers.
package pages

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/login"
)

//go:embed templates/*.html assets/*
var files embed.FS

// policy lets a page use what this server sends, and nothing else. Nothing inline runs, so that no
// output of a host can.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Pages answers requests of browsers. It is safe for concurrent use. It has a goroutine for each
// page that is open in some browser, which ends with the last request for its stream.
type Pages struct {
	api       http.Handler
	login     *login.Provider // nil: people paste tokens
	version   string
	log       *slog.Logger
	mux       http.Handler
	routes    *http.ServeMux
	templates map[string]*template.Template
	sessions  *sessions
	links     links
	livePages map[string]*livePage
	views     views
}

// Config is the parts of the pages.
type Config struct {
	API     http.Handler
	Version string
	Log     *slog.Logger
	Login   *login.Provider // nil: people paste tokens
	Keyring *keyring.Ring   // encrypts sessions, so that all servers know them; nil: this process alone does
}

// New makes the pages of an API.
func New(c Config) (*Pages, error) {
	p := &Pages{api: c.API, login: c.Login, version: c.Version, log: c.Log, templates: map[string]*template.Template{}, sessions: newSessions(c.Keyring), livePages: livePages(), views: views{open: map[viewKey]*view{}, pages: map[string]int{}}}
	for _, name := range []string{"login", "ended", "other", "live", "overview", "runlist", "run", "log", "host", "problem", "fleet", "calendar", "feed", "schedules", "schedule", "windows", "window", "playbooks", "playbook", "retry", "project", "queue", "audit", "notifications", "tokens", "settings"} {
		t, err := template.New("layout.html").Funcs(functions()).ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/approval.html", "templates/plan.html", "templates/feeds.html", "templates/"+name+".html")
		if err != nil {
			return nil, err
		}
		p.templates[name] = t
	}
	assets, err := fs.Sub(files, "assets")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", http.FileServerFS(assets)))
	mux.HandleFunc("GET /login", p.loginPage)
	mux.HandleFunc("POST /login", p.logIn)
	mux.HandleFunc("GET "+linkPath, p.followLink)
	if p.login != nil {
		mux.HandleFunc("GET "+openIDPath, p.beginOpenID)
		mux.HandleFunc("GET "+openIDBack, p.finishOpenID)
	}
	mux.HandleFunc("POST /logout", p.logout)
	mux.HandleFunc("GET /live", p.signedIn(p.live))
	mux.HandleFunc("GET /{$}", p.signedIn(p.livePage("/")))
	mux.HandleFunc("GET /runs", p.signedIn(p.livePage("/runs")))
	mux.HandleFunc("GET /runs/{run}", p.signedIn(p.run))
	mux.HandleFunc("GET /runs/{run}/grid.json", p.signedIn(p.gridData))
	mux.HandleFunc("GET /runs/{run}/forecast", p.signedIn(p.forecast))
	mux.HandleFunc("GET /runs/{run}/timeline.svg", p.signedIn(p.picture))
	mux.HandleFunc("GET /runs/{run}/timeline", p.signedIn(p.timeline))
	mux.HandleFunc("GET /runs/{run}/hosts/{job}", p.signedIn(p.hostLog))
	mux.HandleFunc("GET /runs/{run}/hosts/{job}/live", p.signedIn(p.liveLog))
	mux.HandleFunc("GET /runs/{run}/hosts/{job}/outputs/{step}/{stream}", p.signedIn(p.download))
	mux.HandleFunc("POST /runs/{run}/{verb}", p.signedIn(p.act))
	mux.HandleFunc("GET /hosts/{host}", p.signedIn(p.host))
	mux.HandleFunc("GET /hosts", p.signedIn(p.findHost))
	mux.HandleFunc("GET /fleet", p.signedIn(p.livePage("/fleet")))
	mux.HandleFunc("GET /calendar", p.signedIn(p.calendar))
	mux.HandleFunc("GET /queue", p.signedIn(p.livePage("/queue")))
	mux.HandleFunc("POST /queue/workers/{worker}/{verb}", p.signedIn(p.actWorker))
	mux.HandleFunc("GET /audit", p.signedIn(p.audit))
	mux.HandleFunc("GET /audit/export", p.signedIn(p.exportAudit))
	mux.HandleFunc("GET /notifications", p.signedIn(p.notifications))
	mux.HandleFunc("POST /notifications/{id}/retry", p.signedIn(p.retryNotification))
	mux.HandleFunc("GET /tokens", p.signedIn(p.tokens))
	mux.HandleFunc("POST /tokens/{id}/revoke", p.signedIn(p.revokeToken))
	mux.HandleFunc("GET /settings", p.signedIn(p.settings))
	p.feedRoutes(mux)
	p.scheduleRoutes(mux)
	p.windowRoutes(mux)
	p.playbookRoutes(mux)
	p.retryRoutes(mux)
	p.projectRoutes(mux)
	p.routes = mux
	p.mux = http.NewCrossOriginProtection().Handler(mux)
	return p, nil
}

// Serves reports whether a path is a page's, and not the API's.
func Serves(path string) bool {
	for _, prefix := range []string{"/assets/", "/live", "/login", "/logout", "/runs", "/hosts", "/fleet", "/calendar", "/schedules", "/windows", "/playbooks", "/project", "/queue", "/audit", "/notifications", "/tokens", "/settings"} {
		if path == strings.TrimSuffix(prefix, "/") || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/") {
			return true
		}
	}
	return path == "/"
}

// ServeHTTP implements http.Handler.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	compressed, done := compress(w, r)
	defer done()
	p.mux.ServeHTTP(compressed, r)
}

// visit is one request of a person who is logged in.
type visit struct {
	who    who
	client *client.Client
}

// signedIn hands on requests with a session, and sends others to the login, from where they come
// back.
func (p *Pages) signedIn(next func(http.ResponseWriter, *http.Request, visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, ok := p.sessions.read(r)
		if !ok {
			p.toLogin(w, r)
			return
		}
		v := visit{who: s.Who, client: p.client(r, s.Token)}
		if r.Method != http.MethodPost || p.own(w, r, v) {
			next(w, r, v)
		}
	}
}

// show renders a page. Nothing was written before, so that a failure can still be a page of its
// own.
func (p *Pages) show(w http.ResponseWriter, status int, name string, v visit, title string, data any) {
	var out bytes.Buffer
	err := p.templates[name].Execute(&out, page{Title: title, Who: v.who, Version: p.version, Now: time.Now(), Data: data})
	if err != nil {
		p.log.Error("a page was not made", "page", name, "err", err)
		http.Error(w, "this page cannot be shown; the server's log has the reason", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = strings.NewReader(marked(out.String(), v.who.Mark())).WriteTo(w)
}

// page is the data of every template.
type page struct {
	Title   string
	Who     who
	Version string
	Now     time.Time
	Data    any
}

// problem shows why a page cannot be shown, in the words of the API. A session that the API
// does not know any more ends.
func (p *Pages) problem(w http.ResponseWriter, r *http.Request, v visit, err error) {
	status, text := statusOf(err)
	switch {
	case errors.Is(err, context.Canceled): // the browser went away
		return
	case status == http.StatusUnauthorized:
		p.sessions.end(w)
		p.toLogin(w, r)
		return
	}
	title := http.StatusText(status)
	if status == http.StatusServiceUnavailable { // of a part: the service itself answers
		title = "Not available now"
	}
	p.show(w, status, "problem", v, title, text)
}

// statusOf returns the HTTP status of an error, and its text in the words of the API.
func statusOf(err error) (status int, text string) {
	status, text = http.StatusInternalServerError, err.Error()
	if errors.Is(err, core.ErrUnavailable) {
		status = http.StatusServiceUnavailable
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		text = cmp.Or(e.Detail, text)
		status = cmp.Or(e.Status, status)
	}
	return status, text
}
