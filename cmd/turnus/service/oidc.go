package service

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/login"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/server"
)

// oidcFlags select the OpenID provider that a service trusts.
type oidcFlags struct {
	issuer, client, access, ca, server string
	session                            time.Duration
}

const defaultSession = 8 * time.Hour

func (f *oidcFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.issuer, "oidc-issuer", "", "OpenID Connect provider whose people may log in, as https://login.example.net/realm")
	fl.StringVar(&f.client, "oidc-client-id", "", "client that the provider has for Turnus: a public one, with device authorization or a loopback redirect")
	fl.StringVar(&f.access, "oidc-access", "", "file that gives people a tenant and a role by what the provider claims of them; read again when it changes")
	fl.StringVar(&f.server, "oidc-server", "", "HOST[:PORT] of the URL by which people reach this server: a login is for that server alone (default: they are on this machine)")
	fl.StringVar(&f.ca, "oidc-ca-file", "", "certificates, in PEM, of the certificate authority that signed the provider's")
	fl.DurationVar(&f.session, "oidc-session", defaultSession, "how long a login is good for: 1m to 24h")
	settings.NamesFiles(fl, "oidc-access", "oidc-ca-file")
}

// open makes the provider; nil where none is named.
func (f *oidcFlags) open() (*login.Provider, error) {
	if f.issuer == "" {
		if f.client != "" || f.access != "" || f.ca != "" || f.server != "" || f.session != 0 && f.session != defaultSession {
			return nil, console.Invalid("--oidc-client-id, --oidc-access, --oidc-ca-file, --oidc-server and --oidc-session need --oidc-issuer: also give it")
		}
		return nil, nil //nolint:nilnil // nobody logs in
	}
	if f.client == "" || f.access == "" {
		return nil, console.Invalid("--oidc-issuer needs --oidc-client-id and --oidc-access: without rules nobody has access (docs/operating-access.md#people)")
	}
	client, err := OutsideClient(f.ca)
	if err != nil {
		return nil, err
	}
	p, err := login.New(login.Config{Issuer: f.issuer, ClientID: f.client, Server: f.server, Session: f.session, Rules: login.RulesFile(f.access, server.Roles()), HTTP: client})
	if err != nil {
		return nil, fmt.Errorf("--oidc-issuer: %w", err)
	}
	return p, nil
}

// OutsideClient asks sites that the CAs of a file may have signed; without one the system's. The
// file is read again when it changes.
func OutsideClient(ca string) (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 30 * time.Second}
	if ca != "" {
		files, err := securefile.OpenTLS(securefile.TLSFiles{CA: ca}, nil)
		if err != nil {
			return nil, fmt.Errorf("read the CA of the OpenID provider: %w", err)
		}
		transport.TLSClientConfig, transport.DialTLSContext = files.Client(""), files.Dial
	}
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}, nil
}
