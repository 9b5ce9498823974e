package transport

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestUserCertificateAgainstOpenSSH(t *testing.T) {
	ca := newSigner(t)
	file, public := servers.NewSSHKey(t)
	caFile := filepath.Join(t.TempDir(), "ca.pub")
	write(t, caFile, ssh.MarshalAuthorizedKey(ca.PublicKey()))
	s := servers.StartSSHD(t, servers.SSHDConfig("TrustedUserCAKeys "+caFile))
	cert := &ssh.Certificate{Key: public, CertType: ssh.UserCert, ValidPrincipals: []string{s.User}, ValidBefore: ssh.CertTimeInfinity}
	if err := cert.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "cert.pub")
	write(t, elsewhere, ssh.MarshalAuthorizedKey(cert))

	h := s.Host("web1")
	plain := func() *Pool { return newPool(t, func(c *Config) { offers(c).Identities = []string{file} }) }
	_, err := run(t, plain(), h, "true")
	if !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), ssh.FingerprintSHA256(public)) || !strings.Contains(err.Error(), "accepts publickey") {
		t.Errorf("without its certificate: got %v, expected a refusal that lists the key", err)
	}
	with := plain()
	offers(&with.cfg).Certificates = []string{elsewhere}
	if _, err := run(t, with, h, "true"); err != nil {
		t.Error(err)
	}
	write(t, file+"-cert.pub", ssh.MarshalAuthorizedKey(cert))
	if _, err := run(t, plain(), h, "true"); err != nil {
		t.Error(err)
	}
}

func write(tb testing.TB, file string, text []byte) {
	tb.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
}

func encryptedKey(tb testing.TB, passphrase string) (file string, public ssh.PublicKey, key ed25519.PrivateKey) {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	if err != nil {
		tb.Fatal(err)
	}
	file = filepath.Join(tb.TempDir(), "id")
	write(tb, file, pem.EncodeToMemory(block))
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return file, signer.PublicKey(), key
}

func TestEncryptedKey(t *testing.T) {
	file, public, _ := encryptedKey(t, "open sesame")
	s := servers.StartSSHD(t, servers.Authorize(public))
	asked := 0
	with := func(passphrase func(string) ([]byte, error)) *Pool {
		return newPool(t, func(c *Config) { offers(c).Keys, offers(c).Identities = NewKeys(passphrase), []string{file} })
	}
	p := with(func(string) ([]byte, error) { asked++; return []byte("open sesame"), nil })
	if asked != 0 {
		t.Error("asked for the passphrase before any server wanted the key")
	}
	for range 2 {
		if err := p.Probe(testContext(t), s.Host("web1")); err != nil {
			t.Fatal(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times for the passphrase, expected once", asked)
	}
	err := with(func(string) ([]byte, error) { return []byte("wrong"), nil }).Probe(testContext(t), s.Host("web1"))
	if !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "wrong") {
		t.Errorf("wrong passphrase: got %v", err)
	}
	err = with(nil).Probe(testContext(t), s.Host("web1"))
	if !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), "encrypted") {
		t.Errorf("no passphrase: got %v", err)
	}
}

// A passphrase that could not be fetched is asked for again; one that does not fit is not.
func TestPassphraseThatWasUnavailable(t *testing.T) {
	t.Parallel()
	file, public, _ := encryptedKey(t, "open sesame")
	asked, answer, failed := 0, "open sesame", fmt.Errorf("the vault is sealed: %w", core.ErrUnavailable)
	sign := func(k *Keys) error {
		t.Helper()
		id, err := k.load(file)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := id.signer.Sign(rand.Reader, []byte("data"))
		if err == nil {
			err = public.Verify([]byte("data"), signature)
		}
		if (id.locked.failed() == nil) != (err == nil) {
			t.Errorf("it reports %v, expected %v", id.locked.failed(), err)
		}
		return err
	}
	passphrase := func(string) ([]byte, error) { asked++; return []byte(answer), failed }
	k := NewKeys(passphrase)
	if err := sign(k); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("got %v, expected that it is unavailable", err)
	}
	failed = nil
	if err := errors.Join(sign(k), sign(k)); err != nil || asked != 2 {
		t.Errorf("got %v, asked %d times, expected 2", err, asked)
	}
	k, asked, answer = NewKeys(passphrase), 0, "close sesame"
	first, second := sign(k), sign(k)
	if first == nil || second == nil || asked != 1 {
		t.Errorf("got %v and %v, asked %d times for a passphrase that does not fit, expected once", first, second, asked)
	}
}

func TestAgent(t *testing.T) {
	file, public, key := encryptedKey(t, "never typed")
	s := servers.StartSSHD(t, servers.Authorize(public))
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { _ = agent.ServeAgent(ring, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait(); _ = os.RemoveAll(dir) })

	p := newPool(t, func(c *Config) { offers(c).Agent = socket })
	if out, err := run(t, p, s.Host("web1"), "env"); err != nil || strings.Contains(out, "SSH_AUTH_SOCK=") {
		t.Errorf("no login, or the agent is forwarded: %v\n%s", err, out)
	}
	if out := envWithForwardedAgent(t, s, ring); !strings.Contains(out, "SSH_AUTH_SOCK=") {
		t.Errorf("negative control: this server forwards no agent at all:\n%s", out)
	}
	offers(&p.cfg).Identities = []string{file} // the agent signs for a named key that is encrypted
	if _, err := run(t, p, s.Host("web2"), "true"); err != nil {
		t.Error(err)
	}
}

// envWithForwardedAgent returns the environment on the host of a client that forwards its agent.
func envWithForwardedAgent(t *testing.T, s *servers.SSHD, ring agent.Agent) string {
	t.Helper()
	client, err := ssh.Dial("tcp", s.Addr(), &ssh.ClientConfig{
		User: s.User, Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(ring.Signers)}, HostKeyCallback: ssh.FixedHostKey(s.HostKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(agent.ForwardToAgent(client, ring), agent.RequestAgentForwarding(session)); err != nil {
		t.Fatal(err)
	}
	out, err := session.Output("env")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestPassword(t *testing.T) {
	const secret = "correct horse"
	accept := func(_ ssh.ConnMetadata, b []byte) (*ssh.Permissions, error) {
		if string(b) != secret {
			return nil, errors.New("no")
		}
		return nil, nil
	}
	ask := func(c ssh.ConnMetadata, q ssh.KeyboardInteractiveChallenge, questions ...string) (*ssh.Permissions, error) {
		a, err := q("", "", questions, make([]bool, len(questions)))
		if err != nil || len(a) != 1 {
			return nil, errors.New("no")
		}
		return accept(c, []byte(a[0]))
	}
	byPassword := startFake(t, "127.32.0.1", func(f *fake) { f.cfg.NoClientAuth = false; f.cfg.PasswordCallback = accept })
	byQuestion := startFake(t, "127.32.0.2", func(f *fake) {
		f.cfg.NoClientAuth = false
		f.cfg.KeyboardInteractiveCallback = func(c ssh.ConnMetadata, q ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			return ask(c, q, "Password: ")
		}
	})
	byCode := startFake(t, "127.32.0.3", func(f *fake) {
		f.cfg.NoClientAuth = false
		f.cfg.KeyboardInteractiveCallback = func(c ssh.ConnMetadata, q ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			return ask(c, q, "Password: ", "Code: ")
		}
	})
	var tries int
	bothWays := startFake(t, "127.32.0.4", func(f *fake) {
		f.cfg.NoClientAuth = false
		count := func() (*ssh.Permissions, error) { tries++; return nil, errors.New("no") }
		f.cfg.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return count() }
		f.cfg.KeyboardInteractiveCallback = func(ssh.ConnMetadata, ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) { return count() }
	})
	creds := map[string]*Credential{}
	gives := func(h core.Host, password string, err error) core.Host {
		creds[h.Name] = &Credential{Password: func(context.Context, core.Host) (string, error) { return password, err }}
		return h
	}
	tests := []struct {
		name string
		host core.Host
		says string
	}{
		{"password", gives(byPassword.host("a"), secret, nil), ""},
		{"keyboard-interactive", gives(byQuestion.host("c"), secret, nil), ""},
		{"a second question is not answered", gives(byCode.host("d"), secret, nil), "only a password can be given"},
		{"none", byPassword.host("e"), "accepts password"},
		{"it cannot be had", gives(byPassword.host("f"), "", errors.New("TEST_NONE is not set")), "TEST_NONE is not set"},
		{"too long", gives(byPassword.host("g"), strings.Repeat("x", maxPasswordLen+1), nil), "expected at most 4096"},
		{"wrong, by both methods", gives(bothWays.host("h"), "bad", nil), "login refused"},
	}
	p := newPool(t, named(creds))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := run(t, p, tt.host, "x")
			if tt.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Op != "authenticate" || !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, expected %q", err, tt.says)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error shows the password: %v", err)
			}
		})
	}
	if tries != 1 {
		t.Errorf("a wrong password was tried %d times, expected once", tries)
	}
}

// A password is never given to a server whose key is not proved.
func TestPasswordIsNotGivenBeforeTheKeyIsProved(t *testing.T) {
	asked := false
	f := startFake(t, "127.32.1.1", func(f *fake) {
		f.cfg.NoClientAuth = false
		f.cfg.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { asked = true; return nil, nil }
	})
	h := f.host("h")
	h.SSH.HostKeys = nil
	p := newPool(t, func(c *Config) {
		offers(c).Password = func(context.Context, core.Host) (string, error) { t.Error("password was fetched"); return "x", nil }
	})
	_, err := run(t, p, h, "x")
	expectHostKeyError(t, err)
	if asked {
		t.Error("the server saw a password")
	}
}

func TestLimitedTriesUnderMaxAuthTries(t *testing.T) {
	var files []string
	var last ssh.PublicKey
	for range 9 {
		file, public := servers.NewSSHKey(t)
		files, last = append(files, file), public
	}
	s := servers.StartSSHD(t, servers.Authorize(last))
	p := newPool(t, func(c *Config) { offers(c).Others = files })
	_, err := run(t, p, s.Host("web1"), "true")
	if !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), "login refused") || strings.Contains(s.Log(), "Too many authentication failures") {
		t.Errorf("got %v, expected a refusal before the server's limit", err)
	}
	offers(&p.cfg).Identities = files[8:] // these go first
	if _, err := run(t, p, s.Host("web1"), "true"); err != nil {
		t.Error(err)
	}
}

func TestKeyFilesThatCannotServe(t *testing.T) {
	file, _ := servers.NewSSHKey(t)
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	rubbish := filepath.Join(t.TempDir(), "rubbish")
	write(t, rubbish, bytes.Repeat([]byte("x"), 100))
	for name, says := range map[string]string{file: "chmod 600", rubbish: "no key found", "/nonexistent/key": "no such file"} {
		err := NewKeys(nil).Check(name)
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, expected %q", name, err, says)
		}
	}
}
