package transport

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core/testparts/servers"
)

// A scan sees a key of each type, logs in to nobody, and trusts nothing: the next one sees new keys
// again.
func TestScanKeysOfOpenSSH(t *testing.T) {
	var more []string
	dir := t.TempDir()
	for _, kind := range []string{"ecdsa", "rsa"} {
		file := filepath.Join(dir, kind)
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", kind, "-N", "", "-f", file).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
		more = append(more, "HostKey "+file)
	}
	ca := newSigner(t)
	key, public := servers.NewSSHKey(t)
	s := servers.StartSSHD(t, servers.SSHDConfig(more...), servers.Authorize(public), servers.HostCertificate(ca, "web1"))
	h := s.Host("web1")
	h.SSH.HostKeys = nil
	for _, trusted := range []bool{false, true} {
		p := newPool(t, func(c *Config) {
			offers(c).Identities = []string{key}
			if trusted {
				c.HostCAs = []string{servers.AuthorizedKey(ca.PublicKey())}
			}
		})
		for range 2 {
			shown, err := p.ScanKeys(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Compare(h, shown)
			if err != nil {
				t.Fatal(err)
			}
			var states []string
			for _, k := range got.Keys {
				states = append(states, k.Key.Type()+" "+string(k.State))
			}
			want := "ssh-ed25519 new, ecdsa-sha2-nistp256 new, ssh-rsa new"
			if trusted {
				want = "ssh-ed25519 signed, ecdsa-sha2-nistp256 extra, ssh-rsa extra"
			}
			if all := strings.Join(states, ", "); all != want {
				t.Errorf("keys %s, expected %s", all, want)
			}
			if k := got.Keys[0]; !SameKey(k.Key, s.HostKey) || k.CA == nil || !SameKey(k.CA, ca.PublicKey()) {
				t.Errorf("first key %+v, expected the one of the certificate", k)
			}
		}
	}
	if strings.Contains(s.Log(), "Accepted ") {
		t.Errorf("a scan logged in:\n%s", s.Log())
	}
}

// Nobody logs in to a jump host that is not proved.
func TestScanBehindAJumpHost(t *testing.T) {
	key, public := servers.NewSSHKey(t)
	jump, s := servers.StartSSHD(t, servers.Authorize(public)), servers.StartSSHD(t)
	h := s.Host("web1")
	h.SSH.HostKeys, h.SSH.ProxyJump = nil, []string{"bastion"}
	for _, known := range []bool{true, false} {
		b := jump.Host("bastion")
		if !known {
			b.SSH.HostKeys = nil
		}
		p := newPool(t, func(c *Config) { offers(c).Identities, c.Lookup = []string{key}, lookup(b) })
		shown, err := p.ScanKeys(t.Context(), h)
		if !known {
			expectHostKeyError(t, err, "bastion", "unknown host key")
		} else if err != nil || len(shown) != 1 || !SameKey(shown[0], s.HostKey) {
			t.Errorf("shown %v, %v", shown, err)
		}
	}
}

// A key that changed is one, whatever its type; a further type beside a proved key is not.
func TestStatesOfKeys(t *testing.T) {
	a, b := newSigner(t).PublicKey(), newSigner(t).PublicKey()
	for _, c := range []struct {
		known  []ssh.PublicKey
		proved bool
		want   KeyState
	}{{nil, false, KeyNew}, {nil, true, KeyExtra}, {[]ssh.PublicKey{b}, false, KeyChanged}, {[]ssh.PublicKey{b}, true, KeyChanged}} {
		if got, _ := unproved(a, c.known, c.proved); got != c.want {
			t.Errorf("known %d, proved %v: %s, expected %s", len(c.known), c.proved, got, c.want)
		}
	}
}

// A server that is no SSH server shows no key.
func TestScanOfGarbage(t *testing.T) {
	f := startFake(t, "127.35.9.1", func(f *fake) {
		f.onConn = func(c net.Conn) bool {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = c.Close()
			return false
		}
	})
	if shown, err := newPool(t, nil).ScanKeys(t.Context(), f.host("web1")); err == nil || len(shown) > 0 {
		t.Errorf("shown %v, %v", shown, err)
	}
}
