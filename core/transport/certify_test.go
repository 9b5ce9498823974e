package transport

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// signer is one with a key of its own, and a server that trusts it.
func signer(t *testing.T, config ...string) (*CA, *servers.SSHD) {
	t.Helper()
	file, public := servers.NewSSHKey(t)
	a, err := NewCA(file, 0, "turnus test")
	if err != nil {
		t.Fatal(err)
	}
	trusted := filepath.Join(t.TempDir(), "ca.pub")
	write(t, trusted, ssh.MarshalAuthorizedKey(public))
	return a, servers.StartSSHD(t, servers.SSHDConfig(append(config, "TrustedUserCAKeys "+trusted)...))
}

func certified(t *testing.T, sign Certify) *Pool {
	t.Helper()
	signer, err := NewSigner(sign)
	if err != nil {
		t.Fatal(err)
	}
	return newPool(t, func(c *Config) { offers(c).Signer = signer })
}

func TestCertificatesSignedOnDemandAgainstOpenSSH(t *testing.T) {
	a, s := signer(t)
	var signed atomic.Int32
	p := certified(t, func(ctx context.Context, r CertificateRequest) (*ssh.Certificate, error) {
		signed.Add(1)
		return a.Certify(ctx, r)
	})
	h := s.Host("web1")
	for range 3 {
		if _, err := run(t, p, h, "true"); err != nil {
			t.Fatal(err)
		}
		p.Drop(h)
	}
	if n := signed.Load(); n != 1 {
		t.Errorf("signed %d certificates for three logins within their time, expected 1", n)
	}
	eventually(t, "sshd logs who logged in", func() bool { return strings.Contains(s.Log(), `ID turnus test`) })

	forced := h
	forced.SSH.ForceCommand = `export FORCED=yes; eval "$SSH_ORIGINAL_COMMAND"`
	out, err := run(t, p, forced, "echo forced: $FORCED")
	if err != nil || out != "forced: yes" {
		t.Errorf("got %q, %v, expected the forced command", out, err)
	}
	near := h
	near.SSH.SourceAddrs = []string{"127.0.0.0/8"}
	if _, err := run(t, p, near, "true"); err != nil {
		t.Error(err)
	}
	if signed.Load() != 3 {
		t.Errorf("signed %d certificates, expected 3, one for each content", signed.Load())
	}
}

// Each guard is sshd's, and the control is the test above: the same login with the right
// certificate works.
func TestCertificatesThatOpenSSHRefuses(t *testing.T) {
	a, s := signer(t)
	for name, c := range map[string]struct {
		change func(*core.SSH)
		sign   func(*ssh.Certificate)
		log    string
	}{
		"expired": {nil, func(c *ssh.Certificate) {
			c.ValidAfter, c.ValidBefore = uint64(time.Now().Add(-time.Hour).Unix()), uint64(time.Now().Add(-30*time.Minute).Unix())
		}, "expired"},
		"wrong principal": {func(s *core.SSH) { s.Principals = []string{"somebody"} }, nil, "not a listed principal"},
		"wrong source":    {func(s *core.SSH) { s.SourceAddrs = []string{"192.0.2.0/24"} }, nil, "not from a permitted source address"},
	} {
		t.Run(name, func(t *testing.T) {
			h := s.Host("web1")
			if c.change != nil {
				c.change(&h.SSH)
			}
			p := certified(t, a.Certify)
			if c.sign != nil { // past our own check, which would not send it
				r := CertificateRequest{Key: offers(&p.cfg).Signer.signer.PublicKey(), Principals: []string{s.User}}
				cert, err := a.Certify(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				c.sign(cert)
				if err := cert.SignCert(rand.Reader, a.key); err != nil {
					t.Fatal(err)
				}
				k := offers(&p.cfg).Signer.enter(certKey(r))
				k.cert, k.renew, k.until = cert, time.Now().Add(time.Hour), time.Now().Add(time.Hour)
			}
			_, err := run(t, p, h, "true")
			if !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), "signed for this login") {
				t.Errorf("got %v, expected a refusal that lists the certificate", err)
			}
			eventually(t, "sshd says "+c.log, func() bool { return strings.Contains(s.Log(), c.log) })
		})
	}
}

func TestKeysStayBesideCertificates(t *testing.T) {
	file, public := servers.NewSSHKey(t)
	s := servers.StartSSHD(t, servers.Authorize(public))
	h := s.Host("web1")
	a, _ := signer(t)
	p := certified(t, a.Certify)
	offers(&p.cfg).Identities = []string{file}
	if _, err := run(t, p, h, "true"); err != nil {
		t.Errorf("the host does not know the CA, but the key: %v", err)
	}
	away := certified(t, func(context.Context, CertificateRequest) (*ssh.Certificate, error) {
		return nil, errors.New("the authority is away")
	})
	offers(&away.cfg).Identities = []string{file}
	if _, err := run(t, away, h, "true"); err != nil {
		t.Errorf("the CA is away, but there is a key: %v", err)
	}
	away.Drop(h)
	offers(&away.cfg).Identities = nil
	if _, err := run(t, away, h, "true"); err == nil || !strings.Contains(err.Error(), "the authority is away") {
		t.Errorf("got %v, expected to hear why there is no certificate", err)
	}
}

func TestCertificatesAreRenewedBeforeTheyEnd(t *testing.T) {
	file, _ := servers.NewSSHKey(t)
	a, err := NewCA(file, 6*time.Minute, "")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		signed, away := 0, false
		c, err := NewSigner(func(ctx context.Context, r CertificateRequest) (*ssh.Certificate, error) {
			if signed++; away {
				return nil, errors.New("away")
			}
			return a.Certify(ctx, r)
		})
		if err != nil {
			t.Fatal(err)
		}
		get := func() error {
			_, err := c.certificate(t.Context(), CertificateRequest{Key: c.signer.PublicKey(), Principals: []string{"root"}})
			return err
		}
		for _, at := range []struct {
			after  time.Duration
			away   bool
			signed int
			ok     bool
		}{{0, false, 1, true}, {3 * time.Minute, false, 1, true}, {90 * time.Second, false, 2, true}, {5 * time.Minute, true, 3, true}, {2 * time.Minute, true, 4, false}} {
			<-time.After(at.after)
			away = at.away
			if err := get(); (err == nil) != at.ok || signed != at.signed {
				t.Errorf("after %v: got %v and %d signed, expected %v and %d", at.after, err, signed, at.ok, at.signed)
			}
		}
	})
}

// Memory follows what is in use: what failed and what has ended is forgotten, and there are not
// more than so many of the rest.
func TestCertificatesAreForgotten(t *testing.T) {
	file, _ := servers.NewSSHKey(t)
	a, err := NewCA(file, 6*time.Minute, "")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		away, signed := false, 0
		c, err := NewSigner(func(ctx context.Context, r CertificateRequest) (*ssh.Certificate, error) {
			if away {
				return nil, errors.New("away")
			}
			signed++
			return a.Certify(ctx, r)
		})
		if err != nil {
			t.Fatal(err)
		}
		get := func(command string) error {
			_, err := c.certificate(t.Context(), CertificateRequest{Key: c.signer.PublicKey(), Principals: []string{"root"}, ForceCommand: command})
			return err
		}
		kept := func(what string, expected int) {
			t.Helper()
			if len(c.known) != expected {
				t.Errorf("%d certificates are kept of %s, expected %d", len(c.known), what, expected)
			}
		}
		away = true
		for i := range 100 {
			if get(fmt.Sprint("fails ", i)) == nil {
				t.Fatal("signed by nobody")
			}
		}
		kept("100 that were not signed", 0)
		away = false
		if err := get("the first"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		for i := range maxCertificates + 10 {
			if err := get(fmt.Sprint("one ", i)); err != nil {
				t.Fatal(err)
			}
		}
		kept("too many", maxCertificates)
		before := signed
		if err := errors.Join(get(fmt.Sprint("one ", maxCertificates+9)), get("the first")); err != nil || signed != before+1 {
			t.Errorf("%v and %d more signed, expected one: for the one that ended first, not for the last", err, signed-before)
		}
		<-time.After(7 * time.Minute)
		if err := get("later"); err != nil {
			t.Fatal(err)
		}
		kept("one after all others have ended", 1)
	})
}

func TestCAThatGivesAnother(t *testing.T) {
	file, other := servers.NewSSHKey(t)
	a, err := NewCA(file, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		asked  func(*CertificateRequest)
		expect string
	}{
		"key":        {func(r *CertificateRequest) { r.Key = other }, "another key"},
		"principals": {func(r *CertificateRequest) { r.Principals = []string{"x"} }, "asked for"},
		"options":    {func(r *CertificateRequest) { r.ForceCommand = "" }, "force-command"},
	} {
		certs, err := NewSigner(func(ctx context.Context, r CertificateRequest) (*ssh.Certificate, error) {
			c.asked(&r)
			return a.Certify(ctx, r)
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = certs.certificate(t.Context(), CertificateRequest{Key: certs.signer.PublicKey(), Principals: []string{"root"}, ForceCommand: "id"})
		if err == nil || !strings.Contains(err.Error(), c.expect) {
			t.Errorf("%s: got %v, expected %q", name, err, c.expect)
		}
	}
	for _, lifetime := range []time.Duration{time.Second, 48 * time.Hour} {
		if _, err := NewCA(file, lifetime, ""); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%v: got %v", lifetime, err)
		}
	}
	locked, _, _ := encryptedKey(t, "x")
	if _, err := NewCA(locked, 0, ""); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "passphrase") {
		t.Errorf("got %v for a key with a passphrase", err)
	}
}

// A certificate for a host is valid for five minutes, and never for more than a day, whatever the
// CA signs. The control: sshd accepts the one that is valid for longer.
func TestCertificatesForHostsEndWithinADay(t *testing.T) {
	a, s := signer(t)
	h := s.Host("web1")
	signer, err := NewSigner(a.Certify)
	if err != nil {
		t.Fatal(err)
	}
	asked := CertificateRequest{Key: signer.signer.PublicKey(), Principals: []string{h.SSH.User}}
	cert, err := signer.certificate(t.Context(), asked)
	if err != nil || time.Until(time.Unix(int64(cert.ValidBefore), 0)) > 5*time.Minute {
		t.Errorf("the usual certificate: %v, valid before %d", err, cert.ValidBefore)
	}
	a.lifetime = maxLifetime
	if _, err := run(t, certified(t, a.Certify), h, "true"); err != nil {
		t.Errorf("valid for a day: %v", err)
	}
	for _, lifetime := range []time.Duration{maxLifetime + 2*time.Minute, 100 * 365 * 24 * time.Hour} {
		a.lifetime = lifetime
		if _, err := run(t, certified(t, a.Certify), h, "true"); err == nil || !strings.Contains(err.Error(), "valid for more than 24h") {
			t.Errorf("valid for %v: got %v", lifetime, err)
		}
		if cert, err = a.Certify(t.Context(), asked); err != nil {
			t.Fatal(err)
		}
		login, err := ssh.NewCertSigner(cert, signer.signer)
		if err != nil {
			t.Fatal(err)
		}
		client, err := ssh.Dial("tcp", net.JoinHostPort(h.Address, strconv.Itoa(h.SSH.Port)), &ssh.ClientConfig{
			User: h.SSH.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(login)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		})
		if err != nil {
			t.Fatalf("the control shows nothing: sshd refuses a certificate for %v: %v", lifetime, err)
		}
		_ = client.Close()
	}
}
