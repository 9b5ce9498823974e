package transport

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// expectHostKeyError checks that err refuses the key, wraps both errors, and
// contains each of words.
func expectHostKeyError(t *testing.T, err error, words ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Op != "host key" || !e.Before || !errors.Is(err, core.ErrHostKey) || !errors.Is(err, core.ErrUnreachable) {
		t.Fatalf("got %v, expected a refused host key", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error lacks %q:\n%v", w, err)
		}
	}
}

func TestHostKeyPinsAgainstOpenSSH(t *testing.T) {
	s, p := startSSHD(t)
	pinned := s.Host("web1")
	if _, err := run(t, p, pinned, "true"); err != nil {
		t.Fatal(err)
	}

	unknown := pinned
	unknown.SSH.HostKeys = nil
	_, err := run(t, p, unknown, "true")
	expectHostKeyError(t, err, "unknown host key", ssh.FingerprintSHA256(s.HostKey), "turnus hostkeys scan -i INVENTORY web1")

	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte(knownhosts.Line([]string{s.Addr()}, s.HostKey)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p2 := newPool(t, func(c *Config) { offers(c).Identities = offers(&p.cfg).Identities; c.KnownHosts = []string{file} })
	if _, err := run(t, p2, unknown, "true"); err != nil {
		t.Fatal(err)
	}

	other := newSigner(t).PublicKey()
	changed := pinned
	changed.SSH.HostKeys = []string{servers.AuthorizedKey(other)}
	_, err = run(t, p2, changed, "true") // known_hosts has the right key, but the pin rules
	expectHostKeyError(t, err, "CHANGED", "attack", "turnus hostkeys check", ssh.FingerprintSHA256(s.HostKey), ssh.FingerprintSHA256(other), "the inventory pins")
}

func TestHostCertificateAgainstOpenSSH(t *testing.T) {
	ca, stranger := newSigner(t), newSigner(t)
	key, public := servers.NewSSHKey(t)
	s := servers.StartSSHD(t, servers.Authorize(public), servers.HostCertificate(ca, "web1", "*.example.org"))
	with := func(signer ssh.Signer) *Pool {
		return newPool(t, func(c *Config) {
			offers(c).Identities, c.HostCAs = []string{key}, []string{servers.AuthorizedKey(signer.PublicKey())}
		})
	}
	host := func(name, alias string) core.Host {
		h := s.Host(name)
		h.SSH.HostKeys, h.SSH.HostKeyAlias = nil, alias
		return h
	}
	p := with(ca)
	for _, h := range []core.Host{host("web1", ""), host("x", "db.example.org")} {
		if _, err := run(t, p, h, "true"); err != nil {
			t.Errorf("%s: %v", h.Name, err)
		}
	}
	_, err := run(t, p, host("web2", ""), "true")
	expectHostKeyError(t, err, "certificate is for", "web2")
	_, err = run(t, p, host("web1", "web9"), "true")
	expectHostKeyError(t, err, "not for web9")
	_, err = run(t, with(stranger), host("web1", ""), "true")
	expectHostKeyError(t, err, "unknown host key")
	pinned := s.Host("web1") // a plain key that is pinned serves beside a foreign CA
	if _, err := run(t, with(stranger), pinned, "true"); err != nil {
		t.Error(err)
	}
}

func hostCert(tb testing.TB, ca, host ssh.Signer, change func(*ssh.Certificate)) ssh.Signer {
	tb.Helper()
	c := &ssh.Certificate{Key: host.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"h"}, ValidBefore: ssh.CertTimeInfinity}
	if change != nil {
		change(c)
	}
	if err := c.SignCert(rand.Reader, ca); err != nil {
		tb.Fatal(err)
	}
	s, err := ssh.NewCertSigner(c, host)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestHostCertificatesThatProveNothing(t *testing.T) {
	ca, key := newSigner(t), newSigner(t)
	tests := []struct {
		name   string
		change func(*ssh.Certificate)
		says   string
	}{
		{"good", nil, ""},
		{"expired", func(c *ssh.Certificate) { c.ValidBefore = uint64(time.Now().Add(-time.Hour).Unix()) }, "expired"},
		{"not yet", func(c *ssh.Certificate) { c.ValidAfter = uint64(time.Now().Add(time.Hour).Unix()) }, "not yet valid"},
		{"no principals", func(c *ssh.Certificate) { c.ValidPrincipals = nil }, "certificate is for"},
		{"a user's", func(c *ssh.Certificate) { c.CertType = ssh.UserCert }, "type 1"},
		{"critical option", func(c *ssh.Certificate) { c.CriticalOptions = map[string]string{"odd": ""} }, "critical option"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t, fmt.Sprintf("127.30.0.%d", i+1), func(f *fake) { f.signer = hostCert(t, ca, key, tt.change) })
			h := f.host("h")
			h.SSH.HostKeys = nil
			_, err := run(t, newPool(t, func(c *Config) { c.HostCAs = []string{servers.AuthorizedKey(ca.PublicKey())} }), h, "x")
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			expectHostKeyError(t, err, tt.says)
		})
	}
}

func TestKnownHosts(t *testing.T) {
	ca, key, other := newSigner(t), newSigner(t), newSigner(t)
	f := startFake(t, "127.30.1.1", func(f *fake) { f.signer = key })
	certified := startFake(t, "127.30.1.2", func(f *fake) {
		f.signer = hostCert(t, ca, key, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"127.30.1.2"} })
		f.cfg.AddHostKey(key) // as sshd: also the plain key
	})
	addr := func(f *fake) string { return f.listener.Addr().String() }
	line := func(k ssh.Signer) string { return servers.AuthorizedKey(k.PublicKey()) }
	tests := []struct {
		name  string
		fake  *fake
		alias string
		lines []string
		says  string // of the refusal; "" when it is accepted
	}{
		{"plain, port not 22", f, "", []string{xknownhosts.Line([]string{addr(f)}, key.PublicKey())}, ""},
		{"hashed", f, "", []string{xknownhosts.HashHostname(xknownhosts.Normalize(addr(f))) + " " + line(key)}, ""},
		{"wildcard", f, "", []string{"127.30.1.* " + line(key)}, ""},
		{"alias", f, "fw", []string{"fw " + line(key)}, ""},
		{"alias, but only the address is known", f, "fw", []string{xknownhosts.Line([]string{addr(f)}, key.PublicKey())}, "unknown host key"},
		{"other port", f, "", []string{"[127.30.1.1]:1 " + line(key)}, "unknown host key"},
		{"port 22 only", f, "", []string{"127.30.1.1 " + line(key)}, "unknown host key"},
		{"changed", f, "", []string{xknownhosts.Line([]string{addr(f)}, other.PublicKey())}, "CHANGED"},
		{"two keys, one right", f, "", []string{xknownhosts.Line([]string{addr(f)}, other.PublicKey()), xknownhosts.Line([]string{addr(f)}, key.PublicKey())}, ""},
		{"revoked", f, "", []string{"@revoked * " + line(key), xknownhosts.Line([]string{addr(f)}, key.PublicKey())}, "revoked"},
		{"authority", certified, "", []string{"@cert-authority * " + line(ca)}, ""},
		{"authority for others", certified, "", []string{"@cert-authority *.example.org " + line(ca)}, "unknown host key"},
		{"revoked authority", certified, "", []string{"@cert-authority * " + line(ca), "@revoked * " + line(ca)}, "revoked"},
		{"authority's key is no host's key", f, "", []string{"@cert-authority * " + line(key)}, "unknown host key"},
		{"unreadable lines are passed over", f, "", []string{"rubbish", "h ssh-ed25519 AAAA", "h odd-type " + strings.Fields(line(key))[1], xknownhosts.Line([]string{addr(f)}, key.PublicKey())}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "known_hosts")
			if err := os.WriteFile(file, []byte(strings.Join(tt.lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			h := tt.fake.host("h")
			h.SSH.HostKeys, h.SSH.HostKeyAlias = nil, tt.alias
			_, err := run(t, newPool(t, func(c *Config) { c.KnownHosts = []string{file} }), h, "x")
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			expectHostKeyError(t, err, tt.says)
		})
	}
}

// A server with several keys must be asked for the one that is known.
func TestTrapHostKeyAlgorithmsFollowWhatIsKnown(t *testing.T) { // go#29286, go#33366
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ssh.NewSignerFromKey(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	f := startFake(t, "127.30.2.1", func(f *fake) { f.cfg.AddHostKey(second) })
	h := f.host("h")
	for _, key := range []ssh.PublicKey{f.signer.PublicKey(), second.PublicKey()} {
		h.SSH.HostKeys = []string{servers.AuthorizedKey(key)}
		if _, err := run(t, newPool(t, nil), h, "x"); err != nil {
			t.Errorf("%s: %v", key.Type(), err)
		}
	}
}

func TestRevokedKeyIsRefusedThoughPinned(t *testing.T) {
	f := startFake(t, "127.30.3.1", nil)
	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte("@revoked * "+servers.AuthorizedKey(f.signer.PublicKey())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := run(t, newPool(t, func(c *Config) { c.KnownHosts = []string{file} }), f.host("h"), "x")
	expectHostKeyError(t, err, "revoked")
}

func FuzzKnownHosts(f *testing.F) {
	f.Add([]byte("h ssh-ed25519 AAAA\n@revoked * x\n#c\n\n|1|a|b c\n"))
	f.Add([]byte("@cert-authority *"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k, err := readKnownHosts([]string{file}, newPool(t, nil).cfg.Log)
		if err != nil {
			return
		}
		k.keys(net.JoinHostPort("h", "22"))
	})
}
