package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/server"
)

// acmeFlags have the API's certificate come from a CA that speaks ACME (RFC 8555).
type acmeFlags struct {
	names                      []string
	directory, email, ca, http string
}

func (f *acmeFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringArrayVar(&f.names, "acme-name", nil, "name of this server for which a certificate is fetched, and renewed, over ACME; you agree to the terms of the certificate authority (repeatable)")
	fl.StringVar(&f.directory, "acme-directory", acme.LetsEncryptURL, "URL of the certificate authority's directory")
	fl.StringVar(&f.email, "acme-email", "", "address that the certificate authority writes to")
	fl.StringVar(&f.ca, "acme-ca-file", "", "certificates, in PEM, of the certificate authority that signed the directory's own")
	fl.StringVar(&f.http, "acme-http", "", "address of a second listener, as :80, for the challenge over HTTP; without it the one over TLS has to come to --listen at port 443")
	settings.NamesFiles(fl, "acme-ca-file")
}

// check refuses what contradicts itself.
func (f *acmeFlags) check(certFile string) error {
	if len(f.names) == 0 {
		if f.email != "" || f.ca != "" || f.http != "" || f.directory != "" && f.directory != acme.LetsEncryptURL {
			return console.Invalid("--acme-directory, --acme-email, --acme-ca-file and --acme-http need --acme-name: also give it")
		}
		return nil
	}
	if certFile != "" {
		return console.Invalid("--acme-name and --tls-cert both name the origin of the certificate: give one")
	}
	for i, name := range f.names {
		f.names[i] = strings.ToLower(name) // as autocert keeps it
		if net.ParseIP(name) != nil || !strings.Contains(name, ".") || strings.ContainsAny(name, "/:* ") {
			return console.Invalid("--acme-name %s: expected the full name of this server, as turnus.example.net", name)
		}
	}
	if u, err := url.Parse(f.directory); err != nil || u.Scheme != "https" || u.Host == "" {
		return console.Invalid("--acme-directory %s: expected a URL with https", f.directory)
	}
	if f.http != "" {
		if _, _, err := net.SplitHostPort(f.http); err != nil {
			return console.Invalid("--acme-http %s: expected an address as :80", f.http)
		}
	}
	return nil
}

// acmeTime bounds one question to the CA.
const acmeTime = 30 * time.Second

// manager keeps account and certificates in the data folder.
func (f *acmeFlags) manager(data string) (*autocert.Manager, *acmePolls, error) {
	client, err := OutsideClient(f.ca)
	if err != nil {
		return nil, nil, err
	}
	polls := &acmePolls{next: client.Transport}
	client.Timeout, client.Transport = acmeTime, polls
	return &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(filepath.Join(data, "acme")), HostPolicy: autocert.HostWhitelist(f.names...), Email: f.email,
		Client: &acme.Client{DirectoryURL: f.directory, HTTPClient: client, UserAgent: "turnus/" + settings.Version()},
	}, polls, nil
}

// tlsConfig is how the API listens: with the certificate of files, or with one from ACME.
func (s *service) tlsConfig() *tls.Config {
	if s.acme == nil {
		return s.cert.Server()
	}
	base := &tls.Config{MinVersion: tls.VersionTLS12}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
		if s.cert != nil { // CAs of clients
			var err error
			if c, err = s.cert.Server().GetConfigForClient(hello); err != nil {
				return nil, err
			}
		}
		if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) { // the CA looks; it has no client's certificate, and asks for nothing more
			c.ClientAuth, c.NextProtos = tls.NoClientCert, []string{acme.ALPNProto}
		}
		c.GetCertificate = s.acmeCertificate
		return c, nil
	}
	return base
}

// acmeCertificate is the one of a name, fetched where there is none. It reports that there is none,
// or that it was not renewed in time.
func (s *service) acmeCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := s.acme.GetCertificate(hello)
	if !slices.Contains(s.f.acme.names, strings.ToLower(hello.ServerName)) || hello.Context().Err() != nil {
		return cert, err
	}
	text := ""
	switch poll, last := s.polls.reasons(); {
	case err != nil:
		if text = "no certificate for " + hello.ServerName + ": " + err.Error(); poll != "" {
			text += "; the CA looked: " + poll
		}
	case cert.Leaf != nil && overdue(cert.Leaf, time.Now()):
		if text = fmt.Sprintf("the certificate for %s ends at %s, and is not renewed", hello.ServerName, cert.Leaf.NotAfter.UTC().Format(time.RFC3339)); last != "" {
			text += ": " + last
		}
	}
	if text != "" && s.messages.Allow(text) {
		s.con.Message(s.con.Paint(console.Yellow, "ACME: ") + text)
	}
	return cert, err
}

// overdue reports whether a certificate should have been renewed: autocert begins when a third of
// its time is left, or 30 days if that is less.
func overdue(c *x509.Certificate, now time.Time) bool {
	return c.NotAfter.Sub(now) < min(c.NotAfter.Sub(c.NotBefore)/6, 15*24*time.Hour)
}

// afterChallenge refuses requests over a connection that was opened as the check of a challenge by
// the CA.
func afterChallenge(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && r.TLS.NegotiatedProtocol == acme.ALPNProto {
			http.Error(w, "this connection is for a challenge only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fetchCertificates connects to itself by each name, so that certificates are there before anybody
// comes, and problems are reported at the start. It ends with ctx.
func (s *service) fetchCertificates(ctx context.Context) {
	for _, name := range s.f.acme.names {
		dialer := tls.Dialer{Config: &tls.Config{ServerName: name, MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}} //nolint:gosec // nothing is said on it
		conn, err := dialer.DialContext(ctx, "tcp", s.listener.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
	}
}

// withoutPort leaves the name alone of what was asked for: autocert knows names, and some CAs add
// the port.
func withoutPort(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, _, err := net.SplitHostPort(r.Host); err == nil {
			r = r.WithContext(r.Context()) // a copy
			r.Host = name
		}
		next.ServeHTTP(w, r)
	})
}

// answerChallenges has certificates fetched, and serves the challenge over HTTP where that is
// listened for: everybody else is sent to https. Both end with ctx, and wg waits for them.
func (s *service) answerChallenges(ctx context.Context, wg *sync.WaitGroup) {
	wg.Go(func() { s.fetchCertificates(ctx) })
	if s.hear == nil {
		return
	}
	web := server.HTTP(withoutPort(s.acme.HTTPHandler(nil)), s.log)
	web.ReadTimeout, web.WriteTimeout = 10*time.Second, 10*time.Second
	wg.Go(func() { _ = web.Serve(s.hear) })
	wg.Go(func() { <-ctx.Done(); _ = web.Close() })
}
