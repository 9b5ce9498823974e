package transport

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// trusting makes pools of one user: each is another process with the same known_hosts file, which
// does not exist at first. They may pin keys in these networks.
func trusting(t *testing.T, networks ...string) (pool func(change func(*Config)) *Pool, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "ssh", "known_hosts")
	return func(change func(*Config)) *Pool {
		return newPool(t, func(c *Config) {
			c.KnownHosts, c.NewKnownHosts = []string{file}, true
			for _, n := range networks {
				c.FirstContact = append(c.FirstContact, netip.MustParsePrefix(n))
			}
			if change != nil {
				change(c)
			}
		})
	}, file
}

// asking is an unknown host whose inventory asks for a first contact.
func asking(f *fake, name string) core.Host {
	h := f.host(name)
	h.SSH.HostKeys, h.SSH.FirstContact = nil, core.FirstContactPin
	return h
}

func pinsOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(UnverifiedFile(file))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func knows(t *testing.T, file string, f *fake, key ssh.PublicKey) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(knownhosts.Line([]string{f.listener.Addr().String()}, key)+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestFirstContactPinsTheKeyForGood(t *testing.T) {
	f := startFake(t, "127.36.1.1", nil)
	pool, file := trusting(t, "127.36.1.0/24")
	for range 2 { // the second is another process
		if _, err := run(t, pool(nil), asking(f, "web1"), "x"); err != nil {
			t.Fatal(err)
		}
		want := knownhosts.Line([]string{f.listener.Addr().String()}, f.signer.PublicKey()) + "\n"
		if got := pinsOf(t, file); got != want {
			t.Errorf("pinned %q, expected %q", got, want)
		}
	}
	st, err := os.Stat(UnverifiedFile(file))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("known_hosts, which ssh trusts, is there: %v", err)
	}
}

// An inventory asks for a first contact: the settings of the process decide.
func TestFirstContactNeedsTheLeaveOfTheProcess(t *testing.T) {
	f := startFake(t, "127.36.2.1", nil)
	jump := startFake(t, "127.36.2.2", nil)
	behind := asking(startFake(t, "127.0.0.1", nil), "web1") // where the jump host finds its name
	behind.Address, behind.SSH.ProxyJump = "localhost", []string{"bastion"}
	ca := servers.AuthorizedKey(newSigner(t).PublicKey())
	for name, c := range map[string]struct {
		networks []string
		change   func(*core.Host, *Config)
		says     string
	}{
		"control: asked for and allowed": {[]string{"127.36.2.1/32"}, nil, ""},
		"not allowed":                    {nil, nil, "turnus run --first-contact 127.36.2.1"},
		"another network":                {[]string{"127.36.3.0/24", "::/0"}, nil, "turnus run --first-contact 127.36.2.1"},
		"not asked for":                  {[]string{"0.0.0.0/0"}, func(h *core.Host, _ *Config) { h.SSH.FirstContact = "" }, "turnus hostkeys scan -i INVENTORY web1"},
		"refused by an inner layer":      {[]string{"0.0.0.0/0"}, func(h *core.Host, _ *Config) { h.SSH.FirstContact = "refuse" }, "turnus hostkeys scan -i INVENTORY web1"},
		"a CA may vouch for it":          {[]string{"0.0.0.0/0"}, func(_ *core.Host, c *Config) { c.HostCAs = []string{ca} }, "certificate authority"},
		"a name behind a jump host": {[]string{"0.0.0.0/0"}, func(h *core.Host, c *Config) {
			*h, c.Lookup = behind, lookup(jump.host("bastion"))
		}, "needs an IP address"},
	} {
		pool, file := trusting(t, c.networks...)
		h := asking(f, "web1")
		p := pool(func(cfg *Config) {
			if c.change != nil {
				c.change(&h, cfg)
			}
		})
		_, err := run(t, p, h, "x")
		if c.says == "" {
			if err != nil || pinsOf(t, file) == "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		t.Run(name, func(t *testing.T) { expectHostKeyError(t, err, "unknown host key", c.says) })
		if pinsOf(t, file) != "" {
			t.Errorf("%s: a key is pinned", name)
		}
	}
}

// A key that is not the one of before is refused, whatever the inventory asks for.
func TestAttackKeyChangedAfterTheFirstContact(t *testing.T) {
	other := startFake(t, "127.36.4.2", nil)
	var swapped atomic.Bool
	f := startFake(t, "127.36.4.1", func(f *fake) {
		f.onConn = func(c net.Conn) bool {
			if swapped.Load() {
				other.serve(c)
				return false
			}
			return true
		}
	})
	pool, file := trusting(t, "127.36.0.0/16")
	h, p := asking(f, "web1"), pool(nil)
	if _, err := run(t, p, h, "x"); err != nil {
		t.Fatal(err)
	}
	pinned := pinsOf(t, file)
	p.Drop(h)
	swapped.Store(true)
	for _, p := range []*Pool{p, pool(nil)} { // the same process, and another one
		_, err := run(t, p, h, "x")
		expectHostKeyError(t, err, "CHANGED", "at the first contact it had", ssh.FingerprintSHA256(f.signer.PublicKey()), ssh.FingerprintSHA256(other.signer.PublicKey()))
	}
	unasked := h
	unasked.SSH.FirstContact = ""
	_, err := run(t, pool(nil), unasked, "x")
	expectHostKeyError(t, err, "CHANGED")
	if got := pinsOf(t, file); got != pinned {
		t.Errorf("pins are now %q", got)
	}
	swapped.Store(false) // control: the pinned key still serves
	if _, err := run(t, pool(nil), h, "x"); err != nil {
		t.Error(err)
	}
}

func TestAttackFirstContactInPlaceOfAKnownKey(t *testing.T) {
	f := startFake(t, "127.36.5.1", nil)
	pool, file := trusting(t, "0.0.0.0/0")
	knows(t, file, f, newSigner(t).PublicKey())
	h := asking(f, "web1")
	_, err := run(t, pool(nil), h, "x")
	expectHostKeyError(t, err, "CHANGED", "known_hosts has")
	h.SSH.HostKeyAlias = "fresh" // a name of which nothing is known
	_, err = run(t, pool(nil), h, "x")
	expectHostKeyError(t, err, "unknown host key", "without its host_key_alias")
	if got := pinsOf(t, file); got != "" {
		t.Errorf("pinned %q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, pool(nil), h, "x"); err != nil { // control
		t.Error(err)
	}
	if _, err := run(t, pool(nil), asking(f, "web1"), "x"); err != nil {
		t.Error(err)
	}
	h.SSH.HostKeyAlias = "fresher" // the address has a pin already
	_, err = run(t, pool(nil), h, "x")
	expectHostKeyError(t, err, "unknown host key", "without its host_key_alias")
}

// Nothing secret is sent to a host whose key is unverified, neither before nor after its pin.
func TestAttackSecretsForAnUnverifiedHost(t *testing.T) {
	var given, commands []string
	var mu sync.Mutex
	note := func(list *[]string, what string) {
		mu.Lock()
		defer mu.Unlock()
		*list = append(*list, what)
	}
	f := startFake(t, "127.36.6.1", func(f *fake) {
		f.onExec = func(_ ssh.Channel, command, _ string) uint32 { note(&commands, command); return 1 }
	})
	asks := startFake(t, "127.36.6.2", func(f *fake) {
		f.cfg.NoClientAuth = false
		f.cfg.PasswordCallback = func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			note(&given, string(password))
			return &ssh.Permissions{}, nil
		}
	})
	pool, file := trusting(t, "127.36.6.0/24")
	withPassword := func(c *Config) {
		offers(c).Password = func(context.Context, core.Host) (string, error) { return "right horse", nil }
		offers(c).BecomePassword = offers(c).Password
	}
	secret := asking(f, "web1")
	secret.SSH.Verified = true
	elevate := func() error {
		_, err := pool(withPassword).Run(testContext(t), asking(f, "web1"), Exec{Command: "id", Become: core.Become{User: "root"}})
		return err
	}
	command := "turnus hostkeys scan -i INVENTORY web1 && turnus hostkeys accept -i INVENTORY web1 " + ssh.FingerprintSHA256(f.signer.PublicKey())
	for _, before := range []bool{true, false} {
		_, err := run(t, pool(nil), secret, "x")
		expectHostKeyError(t, err, "unverified host key", "gets no secrets", command)
		if before != (pinsOf(t, file) == "") {
			t.Errorf("before the first contact %v: pins %q", before, pinsOf(t, file))
		}
		if _, err := run(t, pool(nil), asking(f, "web1"), "x"); err != nil {
			t.Fatal(err)
		}
	}
	commands = nil
	if err := elevate(); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "the password for sudo is not sent: the host key is unverified") || !strings.Contains(err.Error(), "turnus hostkeys scan") {
		t.Errorf("become: %v", err)
	}
	_, err := run(t, pool(withPassword), asking(asks, "db1"), "x")
	if err == nil || !strings.Contains(err.Error(), "the password is not sent: the host key is unverified") || !strings.Contains(err.Error(), "turnus hostkeys scan -i INVENTORY db1") {
		t.Errorf("login: %v", err)
	}
	if len(given)+len(commands) > 0 {
		t.Errorf("passwords %q were sent, and %d commands ran", given, len(commands))
	}

	// Control: the same hosts with keys that were accepted.
	knows(t, file, f, f.signer.PublicKey())
	if _, err := run(t, pool(nil), secret, "x"); err != nil {
		t.Error(err)
	}
	if err := elevate(); err != nil { // the fake takes any command
		t.Errorf("become: %v", err)
	}
	verified := asks.host("db1")
	verified.SSH.FirstContact = core.FirstContactPin
	if _, err := run(t, pool(withPassword), verified, "x"); err != nil {
		t.Error(err)
	}
	if len(given) != 1 || len(commands) != 2 {
		t.Errorf("passwords %q were sent, and %d commands ran", given, len(commands))
	}
}

// Of many processes whose first contact is at the same time, with two servers under one name, all
// accept the same one.
func TestFirstContactsAtTheSameTimePinOneKey(t *testing.T) {
	fakes := []*fake{startFake(t, "127.36.7.1", nil), startFake(t, "127.36.7.2", nil)}
	pool, file := trusting(t, "127.36.7.0/24")
	var wg sync.WaitGroup
	var accepted [2]atomic.Int64
	for i := range 16 {
		h, p := asking(fakes[i%2], "web1"), pool(nil)
		h.SSH.HostKeyAlias = "pair"
		wg.Go(func() {
			if _, err := run(t, p, h, "x"); err == nil {
				accepted[i%2].Add(1)
			} else if !errors.Is(err, core.ErrHostKey) || !strings.Contains(err.Error(), "CHANGED") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if a, b := accepted[0].Load(), accepted[1].Load(); a+b != 8 || a*b != 0 || strings.Count(pinsOf(t, file), "\n") != 1 {
		t.Errorf("%d and %d accepted, pins %q", a, b, pinsOf(t, file))
	}
}

// A pin that cannot be read is not the same as none.
func TestPinsThatCannotBeReadAreNotPassedOver(t *testing.T) {
	f := startFake(t, "127.36.8.1", nil)
	line := knownhosts.Line([]string{f.listener.Addr().String()}, f.signer.PublicKey()) + "\n"
	for name, c := range map[string]struct {
		text, says string
		mode       os.FileMode
	}{
		"control":          {line, "", 0o600},
		"cut":              {line[:len(line)/2], "known_hosts.unverified:1: ", 0o600},
		"a marker":         {"@cert-authority " + line, "marker @cert-authority", 0o600},
		"others may write": {line, "keys of first contacts", 0o666},
	} {
		pool, file := trusting(t, "127.36.8.0/24")
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(UnverifiedFile(file), []byte(c.text), 0o600)
		}
		if err == nil {
			err = os.Chmod(UnverifiedFile(file), c.mode)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = run(t, pool(nil), asking(f, "web1"), "x")
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
		if got := pinsOf(t, file); got != c.text {
			t.Errorf("%s: pins are now %q", name, got)
		}
	}
}

// A scan shows what was pinned, and accept takes the pins of its hosts away.
func TestUnverifiedKeysAreShownAndAccepted(t *testing.T) {
	f, g := startFake(t, "127.36.9.1", nil), startFake(t, "127.36.9.2", nil)
	pool, file := trusting(t, "127.36.9.0/24")
	for _, one := range []*fake{f, g} {
		if _, err := run(t, pool(nil), asking(one, "web1"), "x"); err != nil {
			t.Fatal(err)
		}
	}
	state := func(shown ssh.PublicKey) KeyState {
		got, err := pool(nil).Compare(asking(f, "web1"), []ssh.PublicKey{shown})
		if err != nil || len(got.Known) > 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Keys[0].State
	}
	if a, b := state(f.signer.PublicKey()), state(g.signer.PublicKey()); a != KeyUnverified || b != KeyChanged {
		t.Errorf("the pinned key is %s, another one %s", a, b)
	}
	if err := Unpin(file, []string{knownhosts.Normalize(f.listener.Addr().String())}); err != nil {
		t.Fatal(err)
	}
	if want := knownhosts.Line([]string{g.listener.Addr().String()}, g.signer.PublicKey()) + "\n"; pinsOf(t, file) != want {
		t.Errorf("pins %q, expected %q", pinsOf(t, file), want)
	}
	if got := state(f.signer.PublicKey()); got != KeyNew {
		t.Errorf("the key is %s", got)
	}
}
