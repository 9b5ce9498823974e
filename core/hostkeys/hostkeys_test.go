package hostkeys

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

func newKey(t *testing.T) ssh.PublicKey {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func result(host string, keys ...transport.HostKey) Result {
	return Result{Host: core.Host{Name: host}, HostKeys: transport.HostKeys{Name: host, File: "kh", Keys: keys}}
}

func TestAllNewAcceptsNewKeysOnly(t *testing.T) {
	for state, want := range map[transport.KeyState]string{
		transport.KeyNew: "accepted", transport.KeyKnown: "none", transport.KeySigned: "none", transport.KeyExtra: "none", transport.KeyChanged: "refused",
	} {
		got := "none"
		for _, d := range AllNew([]Result{result("a", transport.HostKey{Key: newKey(t), State: state})}) {
			if got = "refused"; d.Accepted {
				got = "accepted"
			}
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", state, got, want)
		}
	}
	one, two := result("a", transport.HostKey{Key: newKey(t), State: transport.KeyNew}), result("b", transport.HostKey{Key: newKey(t), State: transport.KeyNew})
	two.Name = one.Name // one address behind two jump hosts
	for _, d := range AllNew([]Result{one, two}) {
		if d.Accepted {
			t.Errorf("%s: accepted, though two hosts share the name", d.Host.Name)
		}
	}
}

// Hosts with one name in known_hosts are one machine only if they have a key in common: keys of
// different types alone prove nothing.
func TestAllNewWantsACommonKeyOfHostsWithOneName(t *testing.T) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	nist, err := ssh.NewPublicKey(secret.Public())
	if err != nil {
		t.Fatal(err)
	}
	fresh := func(keys ...ssh.PublicKey) Result {
		r := result("a")
		for _, k := range keys {
			r.Keys = append(r.Keys, transport.HostKey{Key: k, State: transport.KeyNew})
		}
		return r
	}
	ed := newKey(t)
	for name, tc := range map[string]struct {
		hosts []Result
		want  bool
	}{
		"different types":             {[]Result{fresh(nist), fresh(ed)}, false},
		"one key":                     {[]Result{fresh(ed), fresh(ed)}, true},
		"one key of two":              {[]Result{fresh(ed, nist), fresh(nist)}, true},
		"one key, and another":        {[]Result{fresh(nist, ed), fresh(nist, newKey(t))}, false},
		"without keys, then one host": {[]Result{fresh(), fresh(ed)}, true},
	} {
		for _, d := range AllNew(tc.hosts) {
			if d.Accepted != tc.want {
				t.Errorf("%s: %s accepted: %v, expected %v", name, d.Key.Type(), d.Accepted, tc.want)
			}
		}
	}
}

func TestChangedKeysNeedReplace(t *testing.T) {
	old, key := newKey(t), newKey(t)
	r := result("a", transport.HostKey{Key: key, State: transport.KeyChanged, Was: []ssh.PublicKey{old}})
	r.Known = []ssh.PublicKey{old}
	for _, replace := range []bool{false, true} {
		d := ByFingerprint(map[string]Result{"a": r}, []Pair{{"a", ssh.FingerprintSHA256(key)}}, replace)[0]
		if d.Accepted != replace || replace && (len(d.Drop) != 1 || !transport.SameKey(d.Drop[0], old)) {
			t.Errorf("replace %v: %+v", replace, d)
		}
	}
	if d := ByFingerprint(map[string]Result{"a": r}, []Pair{{"a", ssh.FingerprintSHA256(old)}}, true)[0]; d.Accepted {
		t.Error("a fingerprint that the host did not show is accepted")
	}
}

func TestPairsAreReadStrictly(t *testing.T) {
	good := "web1 " + ssh.FingerprintSHA256(newKey(t))
	for text, want := range map[string]int{good + "\n# x\n\n" + good + " # y\n": 2, "web1\n": -1, "web1 MD5:00\n": -1, good + " x\n": -1} {
		list, err := ParsePairs(text)
		if want < 0 != (err != nil) || err == nil && len(list) != want {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
}

func TestPairsWithoutFingerprintNameTheNextCommand(t *testing.T) {
	for _, words := range [][]string{{"web1"}, {"web1", "web2"}, {"web1", "SHA256:short"}} {
		_, err := Pairs(words)
		if err == nil || !strings.Contains(err.Error(), "hint: turnus hostkeys scan") {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestEditsKeepOtherLines(t *testing.T) {
	old, key := newKey(t), newKey(t)
	line := func(names string, k ssh.PublicKey) string {
		return names + " " + string(ssh.MarshalAuthorizedKey(k))
	}
	hashed := xknownhosts.HashHostname("[h]:2022")
	before := "# note\nnot a line\n" + line("a,[h]:2022", old) + line(hashed, old) + line("[h]:2022", key) + line("b", old)
	e := Edit{Name: "[h]:2022", Add: []ssh.PublicKey{newKey(t)}, Drop: []ssh.PublicKey{old}}
	want := "# note\nnot a line\n" + line("a", old) + line("[h]:2022", key) + line("b", old) + line("[h]:2022", e.Add[0])
	if got := string(Apply([]byte(before), []Edit{e})); got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
	for text, left := range map[string]int{line("[h]:*", old): 1, line("[h]:*,![h]:2022", old): 0, line("*", key): 0, want: 0} {
		if got, _ := Left([]byte(text), []Edit{e}); got != left {
			t.Errorf("%q: line %d is left, expected %d", text, got, left)
		}
	}
	if got := string(Apply([]byte("x"), []Edit{{Name: "[::1]:22", Add: []ssh.PublicKey{key}}})); got != "x\n"+line("::1", key) {
		t.Errorf("IPv6: %q", got)
	}
}

func TestWritingIsSafe(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "ssh", "kh"), filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, nil, nil); err == nil {
		t.Error("a link to nothing is written")
	}
	old := newKey(t)
	if err := Write(file, nil, []Edit{{Name: "x", Add: []ssh.PublicKey{old}}}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup // several commands at the same time lose no line
	for name := range strings.FieldsSeq("a b c d e f g h") {
		all.Go(func() {
			if err := Write(link, nil, []Edit{{Name: name, Add: []ssh.PublicKey{old}}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 9 {
		t.Errorf("%v:\n%s", err, text)
	}
	if st, err := os.Lstat(file); err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("x "+string(ssh.MarshalAuthorizedKey(old))), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(file, []string{other}, []Edit{{Name: "x", Add: []ssh.PublicKey{newKey(t)}, Drop: []ssh.PublicKey{old}}}); err == nil {
		t.Error("a key that another file still trusts is replaced")
	}
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := Write(file, nil, []Edit{{Name: "y", Add: []ssh.PublicKey{old}}}); err == nil {
		t.Error("a read-only file is written")
	}
}
