package securefile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
)

// TLSFiles are PEM files. Cert, a chain, and Key go together.
type TLSFiles struct {
	CA        string // the CAs that sign the other side's certificate; for a client without it, the system's
	Cert, Key string // of this side
}

// TLSSource has the certificates, keys and CAs of files. It is safe for concurrent use.
type TLSSource struct {
	files    TLSFiles
	reported func(string)
	watch    *Watch

	mu  sync.Mutex
	now contents
}

// contents are not changed once they are read.
type contents struct {
	CAs *x509.CertPool
	own *tls.Certificate
}

// OpenTLS reads the files a first time; core.ErrInvalid names the wrong one. reported, if not nil,
// gets a line for each later change of the files that is taken over, or cannot be.
func OpenTLS(f TLSFiles, reported func(string)) (*TLSSource, error) {
	if (f.Cert == "") != (f.Key == "") {
		return nil, fmt.Errorf("a certificate and its key go together: %w", core.ErrInvalid)
	}
	if reported == nil {
		reported = func(string) {}
	}
	s := &TLSSource{files: f, reported: reported, watch: NewWatch(f.paths()...)}
	var err error
	if s.now, err = f.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// Client is how a connection to a server of that name is made now.
func (s *TLSSource) Client(name string) *tls.Config {
	now := s.current()
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: now.CAs}
	if now.own != nil {
		c.Certificates = []tls.Certificate{*now.own}
	}
	return c
}

// Dial opens a connection over TLS, as http.Transport has it, to the server of an address, by the
// files as they are now.
func (s *TLSSource) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w: %w", err, core.ErrInvalid)
	}
	c := s.Client(host)
	c.NextProtos = []string{"h2", "http/1.1"}
	d := tls.Dialer{Config: c}
	return d.DialContext(ctx, network, addr) //nolint:wrapcheck // ExplainTLS asks for what it is
}

// Certificate is this side's own as it is now; nil without one.
func (s *TLSSource) Certificate() *tls.Certificate { return s.current().own }

// Server returns the configuration of a listener. With a CA clients must have a certificate that it
// signed.
func (s *TLSSource) Server() *tls.Config {
	if s.files.CA == "" { // a listener may ask for clients' certificates otherwise
		return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			own := s.Certificate()
			if own == nil {
				return nil, fmt.Errorf("TLS: no certificate: %w", core.ErrInvalid)
			}
			return own, nil
		}}
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := s.current()
		c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
		if now.own != nil {
			c.Certificates = []tls.Certificate{*now.own}
		}
		if now.CAs != nil {
			c.ClientCAs, c.ClientAuth = now.CAs, tls.RequireAndVerifyClientCert
		}
		return c, nil
	}}
}

// current checks the files if that was not done just now. Files that do not fit, as between the
// writing of one and the other, leave the former contents in use, and are tried again when one
// changes.
func (s *TLSSource) current() contents {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watch.Changed(MaxAge) {
		return s.now
	}
	next, err := s.files.read()
	if err != nil {
		s.reported("TLS: " + s.files.names() + " was changed and cannot be used; the former one stays: " + err.Error())
		return s.now
	}
	s.now = next
	s.reported("TLS: " + s.files.names() + " was renewed")
	return s.now
}

// names returns the path by which an operator knows the files.
func (f TLSFiles) names() string {
	if f.Cert != "" {
		return f.Cert
	}
	return f.CA
}

func (f TLSFiles) paths() []string {
	var all []string
	for _, path := range []string{f.CA, f.Cert, f.Key} {
		if path != "" {
			all = append(all, path)
		}
	}
	return all
}

func (f TLSFiles) read() (c contents, err error) {
	if f.CA != "" {
		c.CAs = x509.NewCertPool()
		if err := addCAs(c.CAs, f.CA); err != nil {
			return c, fmt.Errorf("TLS: %w", err)
		}
	}
	if f.Cert != "" {
		own, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return c, fmt.Errorf("TLS: certificate %s, key %s: %w: %w", f.Cert, f.Key, err, core.ErrInvalid)
		}
		c.own = &own
	}
	return c, nil
}

// maxCAs bounds a file of CAs: the system's own, with all that there are, has a quarter of it.
const maxCAs = 1 << 20

// SystemCAs are the system's CAs and those of a file, which is read once. Errors wrap
// core.ErrInvalid and name the file.
func SystemCAs(path string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the CAs of the system: %w", err)
	}
	if err := addCAs(pool, path); err != nil {
		return nil, err
	}
	return pool, nil
}

func addCAs(pool *x509.CertPool, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w: %w", err, core.ErrInvalid)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxCAs+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", err, core.ErrInvalid)
	case len(text) > maxCAs:
		return fmt.Errorf("%s has more than %d bytes, expected some certificates in PEM: %w", path, maxCAs, core.ErrInvalid)
	case !pool.AppendCertsFromPEM(text):
		return fmt.Errorf("%s holds no certificate in PEM: %w", path, core.ErrInvalid)
	}
	return nil
}

// TLSHints name the settings of a client for certificates, for hints of errors.
type TLSHints struct{ CA, Cert, Name string }

// ExplainTLS returns what is wrong where err is of a TLS handshake, and what to do; else it is
// empty.
func ExplainTLS(err error, o TLSHints) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var plain tls.RecordHeaderError
	text := err.Error()
	switch {
	case errors.As(err, &unknown):
		return "no CA known here signed the server's certificate\nhint: " + o.CA + " names the file of the CA that did"
	case errors.As(err, &name):
		return "the server's certificate is for another name: " + name.Error() + "\nhint: " + o.Name + " gives the expected name; or ask by a name that it has"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired, or is not valid yet\nhint: renew it there; compare the clocks: date -u"
	case errors.As(err, &plain):
		return "the server does not speak TLS at this port\nhint: name its port that speaks TLS, or switch TLS on there (docs/operating-access.md)"
	case strings.Contains(text, "tls: certificate required"):
		return "the server wants a client's certificate\nhint: " + o.Cert
	case strings.Contains(text, "remote error: tls: bad certificate"), strings.Contains(text, "remote error: tls: unknown certificate"),
		strings.Contains(text, "remote error: tls: expired certificate"), strings.Contains(text, "remote error: tls: revoked certificate"):
		return "the server does not take this client's certificate\nhint: " + o.Cert + "; it must be signed by the CA that the server trusts, and be valid now"
	}
	return ""
}
