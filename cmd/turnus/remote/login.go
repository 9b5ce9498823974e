package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/server"
)

// loginWithin is how long a person may take at the provider's site.
const loginWithin = 10 * time.Minute

// LoginFlags define where a person logs in, and how.
type LoginFlags struct {
	Flags
	Name       string // of the context to keep; "" for that of the server
	ProviderCA string // file
	Browser    bool
}

// Login logs a person in, and keeps the session in a context, whose name it returns.
func (f *LoginFlags) Login(ctx context.Context, con *console.Console) (_ api.Token, kept string, err error) {
	session, kept, err := f.login(ctx, con)
	return session, kept, Reported(err)
}

func (f *LoginFlags) login(ctx context.Context, con *console.Console) (session api.Token, name string, err error) {
	target, err := f.Target()
	if err != nil {
		return session, name, err
	}
	target.Token, target.TokenFile = "", ""
	for _, file := range []*string{&target.CAFile, &target.CertFile, &target.KeyFile} { // the context is used in other folders
		if *file, err = settings.Absolute(*file); err != nil {
			return session, name, err
		}
	}
	c, err := ClientOf(target, 0)
	if err != nil {
		return session, name, err
	}
	defer c.Close()
	info, err := c.LoginInfo(ctx)
	if err != nil {
		return session, name, err
	}
	if name, err = f.contextName(target); err != nil {
		return session, name, err
	}
	if err := pin(&target, name, info); err != nil {
		return session, name, err
	}
	outside, err := service.OutsideClient(f.ProviderCA)
	if err != nil {
		return session, name, err
	}
	defer outside.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, outside), loginWithin)
	defer cancel()
	salt := rand.Text()
	token, err := idToken(ctx, con, info, login.Nonce(urlHost(target.Server), salt), f.Browser)
	if err != nil {
		return session, name, fmt.Errorf("log in at %s: %w", info.Issuer, err)
	}
	if session, err = c.Login(ctx, token, salt); err != nil {
		return session, name, err
	}
	target.Token = session.Secret
	if err := keepLogin(name, target); err != nil {
		return session, name, err
	}
	session.Secret = ""
	return session, name, nil
}

// pin keeps where people log in to a server, and as which client: a context that has it refuses
// another.
func pin(target *settings.Context, name string, info api.LoginInfo) error {
	file, err := settings.LoadContexts()
	if err != nil {
		return err
	}
	for _, known := range slices.Sorted(maps.Keys(file.Contexts)) {
		c := file.Contexts[known]
		if c.Issuer == "" || known != name && c.Server != target.Server || c.Issuer == info.Issuer && c.ClientID == info.ClientID {
			continue
		}
		return console.Invalid("context %s logs in at %s as client %s, and %s now names %s and client %s\nhint: ask its admin; if that is right, turnus context rm %s forgets the old one",
			known, c.Issuer, c.ClientID, target.Server, console.Printable(info.Issuer), console.Printable(info.ClientID), known)
	}
	u, err := url.Parse(info.Issuer)
	if err != nil || u.Scheme != "https" && !core.ThisMachine(u.Hostname()) {
		return console.Invalid("server %s names the OpenID provider %s: expected https", target.Server, console.Printable(info.Issuer))
	}
	target.Issuer, target.ClientID = info.Issuer, info.ClientID
	return nil
}

// contextName is where the session is kept.
func (f *LoginFlags) contextName(target settings.Context) (string, error) {
	if name := cmp.Or(f.Name, f.Context); name != "" {
		return name, nil
	}
	file, err := settings.LoadContexts()
	if err != nil {
		return "", err
	}
	if f.Server == "" && file.Current != "" && file.Contexts[file.Current].Server == target.Server {
		return file.Current, nil
	}
	return hostOf(target.Server), nil
}

// keepLogin writes the context, and chooses it: a person who logs in wants to ask that server.
func keepLogin(name string, s settings.Context) error {
	file, err := settings.LoadContexts()
	if err != nil {
		return err
	}
	s.Login = true
	file.Contexts[name], file.Current = s, name
	return file.Save()
}

// idToken has the provider identify the person at this terminal.
func idToken(ctx context.Context, con *console.Console, info api.LoginInfo, nonce string, browser bool) (string, error) {
	provider, err := oidc.NewProvider(ctx, info.Issuer)
	if err != nil {
		return "", err
	}
	cfg := oauth2.Config{ClientID: info.ClientID, Endpoint: provider.Endpoint(), Scopes: login.Offered(provider, info.Scopes)}
	var token *oauth2.Token
	codes := !browser && cfg.Endpoint.DeviceAuthURL != ""
	if codes {
		token, err = byCode(ctx, con, cfg, nonce)
	} else {
		token, err = byBrowser(ctx, con, cfg, nonce)
	}
	if err != nil {
		return "", err
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return "", errors.New("the provider gave no ID token: its client must be allowed the scope openid")
	}
	checked, err := provider.Verifier(&oidc.Config{ClientID: info.ClientID}).Verify(ctx, raw)
	if err != nil {
		return "", err
	}
	if codes && checked.Nonce == "" {
		return "", errors.New("the provider puts no nonce into ID tokens that codes get, so they would be good for any server\nhint: turnus login --browser")
	}
	if checked.Nonce != nonce {
		return "", errors.New("the ID token is of another login: its nonce differs")
	}
	return raw, nil
}

// byCode is the device authorization grant (RFC 8628).
func byCode(ctx context.Context, con *console.Console, cfg oauth2.Config, nonce string) (*oauth2.Token, error) {
	verifier := oauth2.GenerateVerifier()
	code, err := cfg.DeviceAuth(ctx, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	if err != nil {
		return nil, err
	}
	con.Report("open " + console.Printable(code.VerificationURI) + " and enter the code " + console.Printable(code.UserCode))
	return cfg.DeviceAccessToken(ctx, code, oauth2.VerifierOption(verifier))
}

// byBrowser is the authorization code grant with PKCE, back to a port of this machine (RFC 8252).
func byBrowser(ctx context.Context, con *console.Console, cfg oauth2.Config, nonce string) (*oauth2.Token, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	cfg.RedirectURL = "http://" + l.Addr().String() + "/callback"
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	type answer struct {
		code string
		err  error
	}
	came := make(chan answer, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("state") != state { // not the answer to what was asked
			http.Error(w, "This is not the login that was begun here.", http.StatusBadRequest)
			return
		}
		got := answer{code: q.Get("code")}
		if got.code == "" {
			got.err = fmt.Errorf("the provider refuses: %s", console.Printable(cmp.Or(q.Get("error_description"), q.Get("error"), "without a reason")))
		}
		select {
		case came <- got:
		default:
		}
		_, _ = w.Write([]byte("You may close this page and continue in the terminal.\n"))
	})
	web := server.HTTP(mux, slog.New(slog.DiscardHandler))
	served := make(chan struct{})
	go func() { defer close(served); _ = web.Serve(l) }()
	defer func() {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the last page is sent
		defer cancel()
		if web.Shutdown(down) != nil {
			_ = web.Close()
		}
		<-served
	}()
	page := cfg.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	con.Report("open " + page)
	openPage(page)
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case got := <-came:
		if got.err != nil {
			return nil, got.err
		}
		return cfg.Exchange(ctx, got.code, oauth2.VerifierOption(verifier))
	}
}

// openPage shows a page where there is a desktop; the message also has it. It does not wait: the
// program may be the browser itself, which stays open after the login.
func openPage(page string) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return
	}
	cmd := exec.Command(path, page) //nolint:gosec,noctx // the provider's page, as one argument; it outlives the login
	if cmd.Start() == nil {
		_ = cmd.Process.Release()
	}
}

// ForgetLogin takes the session out of the context whose server and token were asked. Flags and the
// environment may name others.
func (f *Flags) ForgetLogin() error {
	asked, err := f.Target()
	if err != nil {
		return err
	}
	file, err := settings.LoadContexts()
	if err != nil {
		return err
	}
	name := cmp.Or(f.Context, file.Current)
	s, known := file.Contexts[name]
	if !known || !s.Login || asked.Server != s.Server || asked.Token != s.Token || asked.TokenFile != s.TokenFile {
		return nil
	}
	s.Token, s.Login = "", false
	file.Contexts[name] = s
	return file.Save()
}

// urlHost is HOST[:PORT] of a URL.
func urlHost(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	return u.Host
}

// hostOf is the host of a URL, as a name.
func hostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return server
	}
	return u.Hostname()
}
