package keyview

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/hostkeys"
	"github.com/turnus/turnus/core/transport"
)

// 3000 clones of one machine are a line of the table and a warning, not 3000 lines of each.
func TestOneKeyOfManyHostsIsOneLine(t *testing.T) {
	key := func(seed byte) ssh.PublicKey {
		k, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)).Public())
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	list := make([]hostkeys.Result, 0, 3001)
	add := func(name string, k ssh.PublicKey) {
		list = append(list, hostkeys.Result{Host: core.Host{Name: name}, HostKeys: transport.HostKeys{Name: name, Keys: []transport.HostKey{{Key: k, State: transport.KeyNew}}}})
	}
	for i := range 3000 {
		add(fmt.Sprintf("web%d", i+1), key(1))
	}
	add("db1", key(2))
	var out, messages bytes.Buffer
	con := console.New(strings.NewReader(""), &out, &messages)
	if err := Scanned(con, list, nil, "-i hosts.ini", false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nweb[1:3000:1]  ssh-ed25519  SHA256:", "\ndb1 ", "is the key of 3000 hosts, web[1:3000:1]: each"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the output", want)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 5 {
		t.Errorf("%d lines, want a header, 2 keys, a duplicate and the counts:\n%.2000s", n, out.String())
	}
}

func TestStateOfAKeyNamesItsSSHFPRecord(t *testing.T) {
	con := console.New(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
	for sshfp, want := range map[string]string{"": "known", "match": "known, SSHFP matches", "it differs": "known, SSHFP: it differs"} {
		if got := (keyView{State: transport.KeyKnown, SSHFP: sshfp}).text(con); got != want {
			t.Errorf("%q: %q, want %q", sshfp, got, want)
		}
	}
}
