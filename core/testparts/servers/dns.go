//go:build linux

package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// Zone is the child, whose keys are rolled.
const Zone = "cust.lab"

// Addresses within the namespace.
const (
	Parent    = "127.0.1.1"
	Secondary = "127.0.1.2" // of the parent; with [SecondParent]
	Child     = "127.0.2.1"
	Resolver  = "127.0.3.1" // also at DNS.Net.Address, for this machine
)

// DNS is a small DNS of real servers in one network namespace: a signed parent zone "lab", a signed
// child "cust.lab" with lifetimes of seconds, and a validating resolver with a trust anchor. It
// ends with its test.
type DNS struct {
	Net *Host
	Dir string

	tb     testing.TB
	second bool

	mu      sync.Mutex
	running []*exec.Cmd
}

// DNSOption changes how a DNS is made.
type DNSOption func(*DNS)

// SecondParent makes the parent have another server, which follows the first.
func SecondParent() DNSOption { return func(l *DNS) { l.second = true } }

// NewDNS starts the servers and waits until the child is secure.
func NewDNS(tb testing.TB, opts ...DNSOption) *DNS {
	tb.Helper()
	named := testparts.Need(tb, "named", "bind9")
	for _, p := range []string{"named-checkconf", "dnssec-verify", "dnssec-dsfromkey", "rndc"} {
		testparts.Need(tb, p, "bind9-utils")
	}
	for _, p := range []string{"dig", "nsupdate"} {
		testparts.Need(tb, p, "bind9-dnsutils")
	}
	unbound := testparts.Need(tb, "unbound", "unbound")
	l := &DNS{tb: tb, Net: NewHost(tb), Dir: tb.TempDir()}
	for _, o := range opts {
		o(l)
	}
	tb.Cleanup(l.stop)
	for _, a := range []string{Parent, Secondary, Child, Resolver} {
		l.must("ip addr add " + a + "/32 dev lo")
	}
	l.files()
	// A copy of a program is not held by the profile that AppArmor has for the program's own path.
	l.copy(named, "named.bin")
	l.copy(unbound, "unbound.bin")
	l.start("parent", l.Path("named.bin"), "-g", "-n", "1", "-c", l.Path("parent/named.conf"))
	l.start("child", l.Path("named.bin"), "-g", "-n", "1", "-c", l.Path("child/named.conf"))
	if l.second {
		l.start("second", l.Path("named.bin"), "-g", "-n", "1", "-c", l.Path("second/named.conf"))
	}
	l.secure()
	return l
}

// Path is a file of the lab.
func (l *DNS) Path(name string) string { return filepath.Join(l.Dir, name) }

func (l *DNS) copy(from, to string) {
	l.tb.Helper()
	in, err := os.Open(from)
	if err != nil {
		l.tb.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(l.Path(to), os.O_CREATE|os.O_WRONLY, 0o755) //nolint:gosec // a program
	if err != nil {
		l.tb.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		l.tb.Fatal(err)
	}
}

const secret = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0" //nolint:gosec // of keys that exist in the namespace alone

const times = `dnskey-ttl 3s; publish-safety 1s; retire-safety 1s; signatures-refresh 60s; signatures-validity 70s; signatures-validity-dnskey 70s; signatures-jitter 0s;
 max-zone-ttl 3s; zone-propagation-delay 1s; parent-ds-ttl 3s; parent-propagation-delay 1s; purge-keys 0;`

func (l *DNS) files() {
	options := func(at, more string) string {
		return fmt.Sprintf("options { directory %q; listen-on { %s; }; listen-on-v6 { none; }; recursion no; pid-file \"named.pid\"; session-keyfile \"session.key\"; dnssec-validation no; %s };\n", l.Path(at), map[string]string{"parent": Parent, "second": Secondary, "child": Child}[at], more)
	}
	key := func(name string) string {
		return fmt.Sprintf("key %q { algorithm hmac-sha256; secret %q; };\n", name, secret)
	}
	controls := func(address string) string {
		return fmt.Sprintf("controls { inet %s port 953 allow { any; } keys { \"rndc-key\"; }; };\n", address)
	}
	policy := "dnssec-policy \"short\" { keys { ksk lifetime unlimited algorithm ecdsap256sha256; zsk lifetime unlimited algorithm ecdsap256sha256; }; " + times + " };\n"
	notify, ns := "notify no;", ""
	if l.second {
		notify, ns = "notify explicit; also-notify { "+Secondary+"; };", "@ NS ns2.lab.\nns2 A "+Secondary+"\n"
	}
	all := map[string]string{
		"parent/named.conf": options("parent", notify+" notify-source "+Parent+";") + "controls { };\n" + key("registry") +
			strings.ReplaceAll(policy, "signatures-refresh 60s; signatures-validity 70s; signatures-validity-dnskey 70s;", "") +
			"zone \"lab\" { type primary; file \"lab.zone\"; dnssec-policy \"short\"; inline-signing yes; allow-update { key \"registry\"; }; allow-transfer { any; }; };\n",
		"parent/lab.zone": "$TTL 3\n@ SOA ns.lab. h.lab. 1 2 1 600 3\n@ NS ns.lab.\n" + ns + "ns A " + Parent + "\ncust NS ns.cust.lab.\nns.cust A " + Child + "\n",
		"second/named.conf": options("second", "notify no; transfer-source "+Secondary+"; use-alt-transfer-source no; min-refresh-time 1; min-retry-time 1; max-refresh-time 2; max-retry-time 1;") + "controls { };\n" +
			"zone \"lab\" { type secondary; primaries { " + Parent + "; }; file \"lab.zone\"; };\n",
		"child/named.conf": options("child", "notify no;") + key("rndc-key") + controls(Child) + strings.Replace(policy, "short", "child", 1) +
			"zone \"cust.lab\" { type primary; file \"cust.zone\"; dnssec-policy \"child\"; inline-signing yes; allow-transfer { any; }; };\n",
		"child/cust.zone": "$TTL 3\n@ SOA ns.cust.lab. h.lab. 1 60 60 600 3\n@ NS ns.cust.lab.\nns A " + Child + "\nwww A 192.0.2.1\n",
		"rndc.conf":       key("rndc-key") + "options { default-server " + Child + "; default-port 953; default-key \"rndc-key\"; };\n",
		"registry.key":    key("registry"),
		"unbound/unbound.conf": "server:\n directory: \"" + l.Path("unbound") + "\"\n chroot: \"\"\n username: \"\"\n pidfile: \"unbound.pid\"\n use-syslog: no\n interface: " + Resolver + "\n interface: " + l.Net.Address +
			"\n access-control: 0.0.0.0/0 allow\n num-threads: 1\n do-ip6: no\n do-not-query-localhost: no\n trust-anchor-file: \"anchor\"\n val-bogus-ttl: 1\n module-config: \"validator iterator\"\n" +
			" val-log-level: 2\n trust-anchor-signaling: no\n target-fetch-policy: \"0 0 0\"\nstub-zone:\n name: \"lab\"\n stub-addr: " + Parent + "\nremote-control:\n control-enable: no\n",
	}
	for name, text := range all {
		if err := errors.Join(os.MkdirAll(filepath.Dir(l.Path(name)), 0o700), os.WriteFile(l.Path(name), []byte(text), 0o600)); err != nil {
			l.tb.Fatal(err)
		}
	}
}

// start runs a server; its output is kept in a file.
func (l *DNS) start(name string, line ...string) {
	l.tb.Helper()
	out, err := os.Create(l.Path(name + ".log"))
	if err != nil {
		l.tb.Fatal(err)
	}
	defer out.Close()
	prefix := l.Net.Prefix()
	cmd := exec.Command(prefix[0], append(prefix[1:], line...)...) //nolint:noctx,gosec // ended by stop; our own words
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		l.tb.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = append(l.running, cmd)
}

func (l *DNS) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, cmd := range l.running {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	l.running = nil
	if !l.tb.Failed() {
		return
	}
	for _, name := range []string{"parent", "child", "unbound"} {
		text, _ := os.ReadFile(l.Path(name + ".log"))
		l.tb.Logf("%s.log:\n%s", name, text[max(0, len(text)-3000):])
	}
}

// secure makes the delegation, and waits until the signer is at its goal and the resolver calls the
// zone secure.
func (l *DNS) secure() {
	l.tb.Helper()
	l.until("the signed child", func() bool {
		return l.quiet("dig +time=1 +tries=1 @" + Child + " " + Zone + " DNSKEY +short | grep -q '^257 '")
	})
	l.until("the signed parent", func() bool {
		return l.quiet("dig +time=1 +tries=1 @" + Parent + " lab DNSKEY +short | grep -q '^257 '")
	})
	tag := l.KSK()
	l.Update("update add " + Zone + ". 3 IN DS " + l.DS(tag))
	l.must(l.RNDC("-checkds", "-key", tag, "published"))
	anchor := l.must("dig @" + Parent + " lab DNSKEY +noall +answer | awk '$5 == 257 || $1 ~ /^;/' > " + l.Path("unbound/anchor") + "; cat " + l.Path("unbound/anchor"))
	if !strings.Contains(anchor, "257") {
		l.tb.Fatalf("the parent's key: %q", anchor)
	}
	l.start("unbound", l.Path("unbound.bin"), "-d", "-c", l.Path("unbound/unbound.conf"))
	l.until("a secure answer", func() bool {
		return l.quiet("dig +time=1 +tries=1 +adflag @" + Resolver + " www." + Zone + " A | grep -q 'flags:.* ad[; ]'")
	})
	l.until("the signer's goal", func() bool {
		return l.quiet("for f in " + l.Path("child") + "/*.state; do grep -qE '(rumoured|hidden|unretentive)' $f && exit 1; done; exit 0")
	})
	if l.second {
		l.until("the second parent", func() bool {
			return l.quiet("dig +time=1 +tries=1 +norecurse @" + Secondary + " " + Zone + " DS +short | grep -q .")
		})
	}
}

// until waits for a condition.
func (l *DNS) until(what string, ok func() bool) {
	l.tb.Helper()
	if !Poll(l.tb.Context(), 100*time.Millisecond, ok) {
		l.tb.Fatalf("waited %v for %s", patience, what)
	}
}

func (l *DNS) must(line string) string {
	l.tb.Helper()
	out, err := l.Net.Shell(line)
	if err != nil {
		l.tb.Fatal(err)
	}
	return out
}

func (l *DNS) quiet(line string) bool { _, err := l.Net.Shell(line); return err == nil }

// RNDC is a command line of the dnssec family for the signer.
func (l *DNS) RNDC(words ...string) string {
	return "rndc -c " + l.Path("rndc.conf") + " dnssec " + strings.Join(words, " ") + " " + Zone
}

// Update changes the parent.
func (l *DNS) Update(lines ...string) {
	l.tb.Helper()
	l.must("nsupdate -k " + l.Path("registry.key") + " <<'END'\nserver " + Parent + "\nzone lab.\n" + strings.Join(lines, "\n") + "\nsend\nEND\n")
}

// states are the signer's records of its keys of a role, ksk or zsk, by tag. One that it is just
// writing is read again.
func (l *DNS) states(role string) map[string]string {
	l.tb.Helper()
	files, err := filepath.Glob(l.Path("child") + "/*.state")
	if err != nil {
		l.tb.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		var text string
		l.until(file+" to be whole", func() bool {
			data, err := os.ReadFile(file)
			text = string(data)
			return errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(text, "\n") && strings.Contains(text, "\nGoalState: ")
		})
		if m := tagOfFile.FindStringSubmatch(file); m != nil && strings.Contains(text, "\n"+strings.ToUpper(role)+": yes\n") {
			all[strings.TrimLeft(m[1], "0")] = text
		}
	}
	return all
}

// Keys are the tags of the signer's KSKs or ZSKs that are not on their way out, by role ksk or zsk.
func (l *DNS) Keys(role string) (tags []string) {
	l.tb.Helper()
	for tag, state := range l.states(role) {
		if !strings.Contains(state, "\nGoalState: hidden\n") {
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return tags
}

// Made is how many keys of a role the signer has ever made.
func (l *DNS) Made(role string) int {
	l.tb.Helper()
	return len(l.states(role))
}

var tagOfFile = regexp.MustCompile(`\+(\d{5})\.state$`)

// KSK is the tag of the one active KSK.
func (l *DNS) KSK() string {
	l.tb.Helper()
	return l.Successor("")
}

// Successor waits for the one active KSK that is not old: the signer answers a command to roll
// before it has done so.
func (l *DNS) Successor(old string) string {
	l.tb.Helper()
	var tags []string
	l.until("one active KSK that is not "+old, func() bool {
		tags = l.Keys("ksk")
		return len(tags) == 1 && tags[0] != old
	})
	return tags[0]
}

// DS is the data of the DS of one of the signer's keys.
func (l *DNS) DS(tag string) string {
	l.tb.Helper()
	out := l.must(fmt.Sprintf("dnssec-dsfromkey -2 %s/K%s.+013+%05s.key", l.Path("child"), Zone, tag))
	_, data, _ := strings.Cut(strings.TrimSpace(out), " DS ")
	return data
}

// Delegation is the parent's DS set, sorted.
func (l *DNS) Delegation() []string {
	l.tb.Helper()
	return strings.Fields(l.must("dig +norecurse @" + Parent + " " + Zone + " DS +short | awk '{print $1}' | sort -n"))
}

// Stale cuts the second parent off from the first, or joins it again.
func (l *DNS) Stale(yes bool) {
	l.tb.Helper()
	if !yes {
		l.must("nft delete table inet stale")
		return
	}
	l.must("nft 'add table inet stale; add chain inet stale out { type filter hook output priority 0; }; add rule inet stale out ip saddr " + Secondary + " ip daddr " + Parent + " drop; add rule inet stale out ip saddr " + Parent + " ip daddr " + Secondary + " drop'")
}

// Report gives the signer a command of its dnssec family, past every guard.
func (l *DNS) Report(words ...string) {
	l.tb.Helper()
	l.must(l.RNDC(words...))
}

// Ask waits until the resolver calls a name's answer secure.
func (l *DNS) Ask(name, what string) {
	l.tb.Helper()
	l.until(what, func() bool {
		return l.quiet("dig +time=1 +tries=1 +adflag @" + Resolver + " " + name + " A | grep -q 'flags:.* ad[; ]'")
	})
}

// Registry is a parent that reads the child's CDS, and makes its DS the same (RFC 7344), until ctx
// ends.
func (l *DNS) Registry(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// dnssec-cds checks the CDS against the present DS, as a registry does, and prints what to
		// update.
		_, _ = l.Net.Shell("d=$(mktemp -d) && cd $d && dig +dnssec +noall +answer @" + Child + " " + Zone + " DNSKEY @" + Child + " " + Zone + " CDNSKEY @" + Child + " " + Zone + " CDS >child && " +
			"dig +dnssec +noall +answer @" + Parent + " " + Zone + " DS | grep -v RRSIG | sed 's/^/; TTL 3\\n/; s/\\\\n/\\n/' | grep -v '^; TTL' >dsset-" + Zone + ".; " +
			"dnssec-cds -u -s -7200 -d $d -f child " + Zone + " >update && (echo server " + Parent + "; echo zone lab.; cat update; echo send) | nsupdate -k " + l.Path("registry.key") + "; rm -rf $d")
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Published are the tags of the child's keys, as its server has them.
func (l *DNS) Published() []string {
	l.tb.Helper()
	return strings.Fields(l.must("dig +norecurse +multiline @" + Child + " " + Zone + " DNSKEY | sed -n 's/.*key id = //p'"))
}
