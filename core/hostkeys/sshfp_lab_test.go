//go:build linux && labs

package hostkeys

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport"
)

// bind is BIND on loopback: a server with the zones signed.lab and plain.lab, and a resolver that
// validates the first with its key as trust anchor.
type bind struct {
	dir    string
	server int // ports
	client int
}

func (b bind) path(name string) string { return filepath.Join(b.dir, name) }

func startBind(t *testing.T, records map[string]string) bind {
	t.Helper()
	named := testparts.Need(t, "named", "bind9")
	keygen := testparts.Need(t, "dnssec-keygen", "bind9-utils")
	signzone := testparts.Need(t, "dnssec-signzone", "bind9-utils")
	b := bind{dir: t.TempDir(), server: testparts.FreePort(t), client: testparts.FreePort(t)}
	run := func(line ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
		cmd.Dir = b.dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", line, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, zone := range []string{"signed.lab", "plain.lab"} {
		write(zone, "$TTL 60\n@ SOA ns h 1 60 60 600 60\n@ NS ns\nns A 127.0.0.1\nempty A 127.0.0.1\n"+records[zone])
	}
	key := run(keygen, "-K", b.dir, "-a", "ECDSAP256SHA256", "-f", "KSK", "signed.lab")
	run(signzone, "-S", "-z", "-K", b.dir, "-o", "signed.lab", "signed.lab")
	public, err := os.ReadFile(b.path(key + ".key"))
	if err != nil {
		t.Fatal(err)
	}
	_, dnskey, _ := strings.Cut(string(public), " DNSKEY ")
	words := strings.Fields(dnskey)
	options := "options { directory %q; listen-on port %d { 127.0.0.1; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; managed-keys-directory %q; %s };\ncontrols { };\n"
	write("server.conf", fmt.Sprintf(options, b.dir, b.server, b.dir, "recursion no; dnssec-validation no;")+
		"zone \"signed.lab\" { type primary; file \"signed.lab.signed\"; };\nzone \"plain.lab\" { type primary; file \"plain.lab\"; };\n")
	forward := fmt.Sprintf("type forward; forward only; forwarders { 127.0.0.1 port %d; };", b.server)
	write("client.conf", fmt.Sprintf(options, b.dir, b.client, b.dir, "recursion yes; allow-recursion { any; }; dnssec-validation yes; empty-zones-enable no;")+
		fmt.Sprintf("trust-anchors { \"signed.lab\" static-key %s %s %s %q; };\n", words[0], words[1], words[2], strings.Join(words[3:], ""))+
		"zone \"signed.lab\" { "+forward+" };\nzone \"plain.lab\" { "+forward+" };\n")
	program, err := os.ReadFile(named) // a copy is not held by the AppArmor profile of the program's path
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path("named.bin"), program, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, conf := range []string{"server.conf", "client.conf"} {
		cmd := exec.Command(b.path("named.bin"), "-g", "-n", "1", "-c", b.path(conf))
		log, err := os.Create(b.path(conf + ".log"))
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = log.Close()
			if text, _ := os.ReadFile(b.path(conf + ".log")); t.Failed() {
				t.Logf("%s:\n%s", conf, text[max(0, len(text)-3000):])
			}
		})
	}
	return b
}

// ask waits until the resolver answers.
func (b bind) ask(t *testing.T, r Resolver, hosts []Result) []Vouch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		vouches := r.LookUp(ctx, hosts)
		failed := false
		for _, v := range vouches {
			failed = failed || v.Err != nil && (strings.Contains(v.Err.Error(), "refused") || strings.Contains(v.Err.Error(), "timeout"))
		}
		if !failed || ctx.Err() != nil {
			return vouches
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Records of a signed zone in a real BIND prove keys; the same records of an unsigned zone, and the
// same resolver's answers without validation, prove none.
func TestLabSSHFPOfBIND(t *testing.T) {
	key, second := newKey(t), newECDSA(t)
	record := func(name string, f fingerprint) string {
		return fmt.Sprintf("%s SSHFP %d %d %x\n", name, f.algorithm, f.kind, f.digest)
	}
	good := record("web1", sha256Of(key)) + record("web1", sha1Of(key))
	b := startBind(t, map[string]string{
		"signed.lab": good + record("weak", sha1Of(key)) + record("wrong", sha256Of(newKey(t))) + "alias CNAME web1\n",
		"plain.lab":  good,
	})
	host := func(name string, keys ...ssh.PublicKey) Result {
		r := result(name)
		for _, k := range keys {
			r.Keys = append(r.Keys, transport.HostKey{Key: k, State: transport.KeyNew})
		}
		return r
	}
	hosts := []Result{
		host("web1.signed.lab", key, second), host("alias.signed.lab", key), host("weak.signed.lab", key), host("wrong.signed.lab", key),
		host("empty.signed.lab", key), host("nowhere.signed.lab", key), host("web1.plain.lab", key),
	}
	want := []string{"", "", "SHA-1 fingerprints only", "have another fingerprint", "it has no SSHFP records", "it has no SSHFP records", "no AD flag"}
	resolver, err := ParseResolver(fmt.Sprintf("127.0.0.1:%d", b.client))
	if err != nil {
		t.Fatal(err)
	}
	check := func(r Resolver, want []string) {
		t.Helper()
		list := BySSHFP(hosts, b.ask(t, r, hosts), false)
		if len(list) != len(hosts) {
			t.Fatalf("%d decisions for %d hosts: %+v", len(list), len(hosts), list)
		}
		for i, d := range list {
			if d.Accepted != (want[i] == "") || !strings.Contains(d.Why, want[i]) {
				t.Errorf("%s: accepted %v, %q; want %q", hosts[i].Name, d.Accepted, d.Why, want[i])
			}
		}
	}
	check(resolver, want)
	server, err := ParseResolver(fmt.Sprintf("127.0.0.1:%d", b.server)) // signs, and validates nothing
	if err != nil {
		t.Fatal(err)
	}
	check(server, []string{"no AD flag", "no AD flag", "no AD flag", "no AD flag", "no AD flag", "no AD flag", "no AD flag"})
}
