package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
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
	"github.com/spf13/cobra"
	"golang.org/x/oauth2"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/server"
)

// loginWithin is how long a person may take at the provider's site.
const loginWithin = 10 * time.Minute

type loginFlags struct {
	remote  remoteFlags
	name    string
	ca      string
	browser bool
}

func (a *app) loginCmd() *cobra.Command {
	var f loginFlags
	c := &cobra.Command{
		Use: "login", Short: "Log in to a server by its OpenID provider, and keep the session in a context", Args: cobra.NoArgs,
		Long: `Log in to a server by its OpenID provider, and keep the session in a context. The session
ends after the time that the server sets (8 hours), or with turnus logout.

Shows an address and a code, which are opened on any device. With --browser, or where the
provider knows no codes, a browser on this machine is sent there and comes back.`,
		Example: `  turnus login --server https://turnus.example.net --as prod
  turnus login --context prod --browser`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := a.Interruptible(cmd.Context())
			defer stop()
			return reported(a.login(ctx, &f))
		},
	}
	f.remote.add(c)
	fl := c.Flags()
	fl.StringVar(&f.name, "as", "", "name of the context to keep (default: the one that is asked, or the server's host)")
	fl.StringVar(&f.ca, "oidc-ca-file", "", "certificates, in PEM, of the certificate authority that signed the provider's")
	fl.BoolVar(&f.browser, "browser", false, "log in with a browser on this machine instead of a code")
	return c
}

func (a *app) login(ctx context.Context, f *loginFlags) error {
	target, err := f.remote.target()
	if err != nil {
		return err
	}
	target.Token, target.TokenFile = "", ""
	if target.CAFile, err = absolute(target.CAFile); err != nil {
		return err
	}
	c, err := clientOf(target, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	info, err := c.LoginInfo(ctx)
	if err != nil {
		return err
	}
	name, err := f.contextName(target)
	if err != nil {
		return err
	}
	if err := pin(&target, name, info); err != nil {
		return err
	}
	outside, err := service.OutsideClient(f.ca)
	if err != nil {
		return err
	}
	defer outside.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, outside), loginWithin)
	defer cancel()
	salt := rand.Text()
	idToken, err := a.idToken(ctx, info, login.Nonce(urlHost(target.Server), salt), f.browser)
	if err != nil {
		return fmt.Errorf("log in at %s: %w", info.Issuer, err)
	}
	session, err := c.Login(ctx, idToken, salt)
	if err != nil {
		return err
	}
	target.Token = session.Secret
	if err := a.keepLogin(name, target); err != nil {
		return err
	}
	session.Secret = ""
	if a.Output == "json" {
		return console.PrintJSON(a.Out, session)
	}
	a.Message(fmt.Sprintf("%s: %s of tenant %s, until %s; context %s", console.Printable(session.Name), session.Role, session.Tenant, console.LocalTime(session.Expires), name))
	return nil
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
func (f *loginFlags) contextName(target settings.Context) (string, error) {
	if name := cmp.Or(f.name, f.remote.context); name != "" {
		return name, nil
	}
	file, err := settings.LoadContexts()
	if err != nil {
		return "", err
	}
	if f.remote.server == "" && file.Current != "" && file.Contexts[file.Current].Server == target.Server {
		return file.Current, nil
	}
	return hostOf(target.Server), nil
}

// keepLogin writes the context, and chooses it: who logs in wants to ask that server.
func (a *app) keepLogin(name string, s settings.Context) error {
	file, err := settings.LoadContexts()
	if err != nil {
		return err
	}
	s.Login = true
	file.Contexts[name], file.Current = s, name
	return file.Save()
}

// idToken has the provider say who sits here.
func (a *app) idToken(ctx context.Context, info api.LoginInfo, nonce string, browser bool) (string, error) {
	provider, err := oidc.NewProvider(ctx, info.Issuer)
	if err != nil {
		return "", err
	}
	cfg := oauth2.Config{ClientID: info.ClientID, Endpoint: provider.Endpoint(), Scopes: login.Offered(provider, info.Scopes)}
	var token *oauth2.Token
	byCode := !browser && cfg.Endpoint.DeviceAuthURL != ""
	if byCode {
		token, err = a.byCode(ctx, cfg, nonce)
	} else {
		token, err = a.byBrowser(ctx, cfg, nonce)
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
	if byCode && checked.Nonce == "" {
		return "", errors.New("the provider puts no nonce into ID tokens that codes get, so they would be good for any server\nhint: turnus login --browser")
	}
	if checked.Nonce != nonce {
		return "", errors.New("the ID token is of another login: its nonce differs")
	}
	return raw, nil
}

// byCode is the device authorization grant (RFC 8628).
func (a *app) byCode(ctx context.Context, cfg oauth2.Config, nonce string) (*oauth2.Token, error) {
	verifier := oauth2.GenerateVerifier()
	code, err := cfg.DeviceAuth(ctx, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	if err != nil {
		return nil, err
	}
	a.Message("open " + console.Printable(code.VerificationURI) + " and enter the code " + console.Printable(code.UserCode))
	return cfg.DeviceAccessToken(ctx, code, oauth2.VerifierOption(verifier))
}

// byBrowser is the authorization code grant with PKCE, back to a port of this machine (RFC 8252).
func (a *app) byBrowser(ctx context.Context, cfg oauth2.Config, nonce string) (*oauth2.Token, error) {
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
		_, _ = w.Write([]byte("You may close this page and go on in the terminal.\n"))
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
	a.Message("open " + page)
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

func (a *app) logoutCmd() *cobra.Command {
	var r remoteFlags
	c := &cobra.Command{
		Use: "logout", Short: "End the session of a login, on the server and in the context", Args: cobra.NoArgs, Example: "  turnus logout\n  turnus logout --context prod",
		RunE: a.remote(&r, func(ctx context.Context, c *client.Client, _ []string) error {
			ended, err := c.Logout(ctx)
			if err != nil && !errors.Is(err, client.ErrNoToken) { // it had ended before
				return err
			}
			if err := forgetLogin(&r); err != nil {
				return err
			}
			if a.Output == "json" {
				return json.NewEncoder(a.Out).Encode(ended) //nolint:gosec // what has ended has no secret
			}
			a.Message("logged out of " + c.Server())
			return nil
		}),
	}
	r.add(c)
	return c
}

// forgetLogin takes the session out of the context that was asked.
func forgetLogin(r *remoteFlags) error {
	file, err := settings.LoadContexts()
	if err != nil {
		return err
	}
	name := cmp.Or(r.context, file.Current)
	s, known := file.Contexts[name]
	if r.server != "" || !known || !s.Login {
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
