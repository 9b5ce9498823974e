package transport

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// thief is a server that takes any password, and counts them.
func thief(t *testing.T, ip string) (*fake, *atomic.Int32) {
	t.Helper()
	var got atomic.Int32
	return startFake(t, ip, func(f *fake) {
		f.cfg.NoClientAuth = false
		f.cfg.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { got.Add(1); return nil, nil }
	}), &got
}

// only admits these addresses and names.
func only(may ...string) func(string, netip.Addr) error {
	return func(dialled string, at netip.Addr) error {
		if slices.Contains(may, at.String()) || slices.Contains(may, dialled) {
			return nil
		}
		return errors.New("not an address of this credential")
	}
}

// A password goes to the addresses of its credential only. The address that was dialled counts,
// after the name was looked up, and every machine on the way. Each attack works without Reaches.
func TestFaultS1PasswordStaysWithItsAddresses(t *testing.T) {
	direct, gotDirect := thief(t, "127.32.7.1")
	byName, gotByName := thief(t, "127.0.0.1")
	behind, gotBehind := thief(t, "127.32.7.2")
	jump := startFake(t, "127.32.7.3", nil) // lets everybody in, and forwards where it likes

	named := byName.host("named")
	named.Address = "localhost"
	tunnelled := behind.host("tunnelled")
	tunnelled.SSH.ProxyJump = []string{"evil-jump"}
	for _, tt := range []struct {
		name string
		host core.Host
		may  []string // the credential's addresses: all but the thief's
		got  *atomic.Int32
	}{
		{"the host itself", direct.host("direct"), []string{"127.32.7.9"}, gotDirect},
		{"a name for another address", named, []string{"127.32.7.9"}, gotByName},
		{"a jump host that pretends to be the host", tunnelled, []string{"127.32.7.2"}, gotBehind},
		{"a host behind a jump host", tunnelled, []string{"127.32.7.3"}, gotBehind},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cred := &Credential{Password: func(context.Context, core.Host) (string, error) { return "hunter2", nil }, Reaches: only(tt.may...)}
			pool := func() *Pool {
				return newPool(t, func(c *Config) {
					c.Credential = func(h core.Host) (*Credential, error) {
						if h.Name == "evil-jump" { // the attacker needs no credential of the worker's there
							return &Credential{}, nil
						}
						return cred, nil
					}
					c.Lookup = lookup(jump.host("evil-jump"))
				})
			}
			before := tt.got.Load()
			_, err := run(t, pool(), tt.host, "x")
			var e *Error
			if !errors.As(err, &e) || e.Op != "resolve" || !errors.Is(err, core.ErrUnreachable) || !strings.Contains(err.Error(), "not an address of this credential") {
				t.Errorf("got %v, expected a refusal", err)
			}
			if tt.got.Load() != before {
				t.Error("the thief has the password")
			}
			cred = &Credential{Password: cred.Password}
			if _, err := run(t, pool(), tt.host, "x"); err != nil || tt.got.Load() == before {
				t.Errorf("negative control: without the limit the thief gets the password; got %v", err)
			}
		})
	}
}

// A host without a credential is not dialled, not even to see whether it lets everybody in.
func TestFaultS1NoCredentialNoDial(t *testing.T) {
	f := startFake(t, "127.32.7.4", nil)
	p := newPool(t, func(c *Config) {
		c.Credential = func(core.Host) (*Credential, error) { return nil, core.ErrNotFound }
	})
	if _, err := run(t, p, f.host("h"), "x"); !errors.Is(err, core.ErrNotFound) || f.count() != 0 {
		t.Errorf("got %v with %d connections", err, f.count())
	}
	if _, err := run(t, newPool(t, nil), f.host("h"), "x"); err != nil || f.count() != 1 {
		t.Errorf("negative control: %v with %d connections", err, f.count())
	}
}

// A jump host that the inventory does not know logs in as the host behind it, with that host's
// limits.
func TestUnknownJumpHostIsOfTheHostBehindIt(t *testing.T) {
	p := newPool(t, nil)
	h := core.Host{Name: "web", Customer: "acme", Groups: []string{"edge"}, SSH: core.SSH{Credential: "fleet", ProxyJump: []string{"ops@192.0.2.1:2222"}}}
	r, err := p.resolve(h)
	if err != nil {
		t.Fatal(err)
	}
	j := r[0].host
	if j.Customer != "acme" || !slices.Equal(j.Groups, h.Groups) || j.SSH.Credential != "fleet" || j.SSH.User != "ops" {
		t.Errorf("got %+v", j)
	}
}

// Certificates that are no files, or never end, cannot use up the worker.
func TestFaultS1CertificateFilesAreBounded(t *testing.T) {
	if err := CheckCertificate("/dev/zero"); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("got %v", err)
	}
}
