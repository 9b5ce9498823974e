package dnssec_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/dnssec"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a signer, a parent and a validator with a clock of its own, on which days pass in no
// time. It answers the job type's scripts as the real ones do, and models BIND's key machine by its
// times. The lab, in plugins, has the real ones with lifetimes of seconds.
type world struct {
	t *testing.T

	mu       sync.Mutex
	now      time.Time
	keys     []*worldKey
	ds       map[string]time.Time // at the parent, by data: since when
	gone     map[string]time.Time // and since when no more
	notes    map[string]string    // open, last, stopped
	rolls    int
	reported []string
	withhold bool // the parent takes updates, and does nothing
	foreign  bool // another signer's key is in the zone
	child    bool // a roll of a child is under way
	insecure bool
	servfail int // so many times the validator answers SERVFAIL next
	down     bool
	keyless  bool   // the key directory is empty, as one whose file system is not mounted
	deaf     string // rndc prints this, exits with 0, and does nothing
	looked   func() // is called after each answer to a look
	seen     []string
}

type worldKey struct {
	tag       int
	rdata     string // as dig writes it
	role      string
	published time.Time
	next      int // successor
	prev      int
	dsPublish time.Time
	dsRemoved time.Time
}

// The policy's and the parent's times.
const (
	dsTTL      = 2 * 24 * time.Hour
	parentTime = time.Hour
	keyTTL     = time.Hour
	factor     = 1.5
)

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), ds: map[string]time.Time{}, gone: map[string]time.Time{}, notes: map[string]string{}}
	long := w.now.Add(-1000 * time.Hour)
	for _, role := range []string{"KSK", "ZSK"} {
		w.keys = append(w.keys, w.newKey(role, long))
	}
	w.keys[0].dsPublish = long
	w.ds[w.dsOf(w.keys[0])] = long
	return w
}

func (w *world) newKey(role string, at time.Time) *worldKey {
	flags := map[string]string{"KSK": "257", "ZSK": "256"}[role]
	for {
		raw := make([]byte, 64)
		_, _ = rand.Read(raw)
		k := &worldKey{rdata: flags + " 3 13 " + base64.StdEncoding.EncodeToString(raw), role: role, published: at}
		if k.tag = dnssec.TagOf(k.rdata); k.tag != 0 && w.key(k.tag) == nil { // as BIND, which makes no two keys of one tag
			return k
		}
	}
}

func (w *world) dsOf(k *worldKey) string { return dnssec.DSOf("example.org", k.rdata) }

// ipub and retire are what BIND waits by the policy below.
const (
	ipub   = keyTTL + 5*time.Minute + time.Hour
	retire = dsTTL + parentTime + time.Hour
)

const worldConf = `dnssec-policy "p" { dnskey-ttl 3600; max-zone-ttl 86400; parent-ds-ttl 172800; keys { ksk lifetime unlimited algorithm 13; zsk lifetime unlimited algorithm 13; }; };
zone "example.org" { dnssec-policy "p"; };`

// state is a key's state file. The old KSK goes when BIND knows that the new DS is there.
func (w *world) state(k *worldKey) (lines []string, inZone bool) {
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			lines = append(lines, name+": "+t.Format("20060102150405")+" (x)")
		}
	}
	goal, dnskey, sig, ds := "omnipresent", "omnipresent", "omnipresent", "omnipresent"
	inZone = true
	if w.now.Before(k.published.Add(ipub)) {
		dnskey, sig, ds = "rumoured", "rumoured", "hidden"
	} else if k.prev != 0 && (k.dsPublish.IsZero() || w.now.Before(k.dsPublish.Add(dsTTL+parentTime))) {
		ds = "rumoured"
	}
	if k.next != 0 {
		goal, ds = "hidden", "unretentive"
		if next := w.key(k.next); !next.dsPublish.IsZero() && !w.now.Before(next.dsPublish.Add(retire)) {
			dnskey, sig, ds, inZone = "hidden", "hidden", "hidden", false
		}
		lines = append(lines, fmt.Sprintf("Successor: %d", k.next))
	}
	if k.prev != 0 {
		lines = append(lines, fmt.Sprintf("Predecessor: %d", k.prev))
	}
	lines = append(lines, "GoalState: "+goal, "DNSKEYState: "+dnskey)
	if k.role == "KSK" {
		lines = append(lines, "KSK: yes", "ZSK: no", "KRRSIGState: "+sig, "DSState: "+ds)
	} else {
		lines = append(lines, "KSK: no", "ZSK: yes", "ZRRSIGState: "+sig)
	}
	at("Published", k.published)
	at("DSPublish", k.dsPublish)
	at("DSRemoved", k.dsRemoved)
	return lines, inZone
}

func (w *world) key(tag int) *worldKey {
	for _, k := range w.keys {
		if k.tag == tag {
			return k
		}
	}
	return nil
}

var dig = regexp.MustCompile(`@(\S+) -p \d+ -q (\S+) -t (\S+) >"\$t/(\d+)"`)

// handle answers a script.
func (w *world) handle(_ context.Context, c plugintest.Call) plugintest.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return plugintest.Reply{Err: plugintest.Unreachable("signer", true)}
	}
	has := func(text string) bool { return strings.Contains(c.Command, text) }
	var out strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	notes := func() {
		if w.child {
			say("open sub.example.org key x")
		}
		for line := range strings.Lines(w.notes["open"]) {
			say("open example.org %s", strings.TrimSpace(line))
		}
		for line := range strings.Lines(w.notes["last"]) {
			say("last example.org %s", strings.TrimSpace(line))
		}
	}
	switch {
	case has("named-checkconf -p"):
		for line := range strings.Lines(worldConf) {
			say("conf %s", strings.TrimSpace(line))
		}
	case has("AXFR"):
		say("verified")
		say("ttl 86400")
		for _, k := range w.keys {
			say("signed %d %s 5", k.tag, map[string]string{"KSK": "keys", "ZSK": "zone"}[k.role])
		}
	case has("rndc dnssec"):
		if w.deaf == "" {
			w.rndc(c.Command)
		}
		say("said Key %s", w.deaf)
	case has("nsupdate -k"):
		w.update(c.Stdin)
	case has(`ln ".$$" open`):
		prev := regexp.MustCompile(`PREV=(\S*)`).FindStringSubmatch(c.Command)[1]
		if w.notes["open"] == "" || prev != "''" && strings.Contains(w.notes["open"], "key "+prev+"\n") {
			w.notes["open"] = c.Stdin
		}
		notes()
	case has("evidence.$REC.part"):
		w.notes[regexp.MustCompile(`REC=(\S+)`).FindStringSubmatch(c.Command)[1]] = w.notes["open"]
		delete(w.notes, "open")
	default:
		say("now %d", w.now.Unix())
		for _, m := range dig.FindAllStringSubmatch(c.Command, -1) {
			for _, line := range w.answer(m[1], strings.TrimSuffix(m[2], "."), m[3]) {
				say("q%s %s", m[4], line)
			}
		}
		for _, k := range w.keys {
			if w.keyless {
				break
			}
			name := fmt.Sprintf("Kexample.org.+013+%05d", k.tag)
			lines, _ := w.state(k)
			for _, line := range lines {
				say("state %s.state %s", name, line)
			}
			say("key %s.key example.org. 3600 IN DNSKEY %s", name, k.rdata)
		}
		notes()
		if w.looked != nil {
			w.looked()
		}
	}
	return plugintest.Reply{Stdout: out.String()}
}

func (w *world) rndc(command string) {
	tag, _ := strconv.Atoi(regexp.MustCompile(`-key (\d+)`).FindStringSubmatch(command)[1])
	k := w.key(tag)
	switch {
	case strings.Contains(command, "-rollover"):
		w.rolls++
		if k.next == 0 {
			next := w.newKey(k.role, w.now)
			next.prev, k.next = k.tag, next.tag
			w.keys = append(w.keys, next)
		}
	case strings.Contains(command, "published"):
		k.dsPublish = w.now
		w.reported = append(w.reported, fmt.Sprintf("published %d", tag))
	case strings.Contains(command, "withdrawn"):
		k.dsRemoved = w.now
		w.reported = append(w.reported, fmt.Sprintf("withdrawn %d", tag))
	}
}

func (w *world) update(script string) {
	for line := range strings.Lines(script) {
		f := strings.Fields(line)
		switch {
		case w.withhold || len(f) < 3 || f[0] != "update":
		case f[1] == "add":
			data := strings.Join(f[5:], " ")
			if _, there := w.ds[data]; !there {
				w.ds[data] = w.now
			}
		case f[1] == "delete":
			data := strings.Join(f[4:], " ")
			delete(w.ds, data)
			w.gone[data] = w.now
		}
	}
}

func (w *world) answer(server, name, kind string) []string {
	head := func(flags string) []string {
		return []string{";; ->>HEADER<<- opcode: QUERY, status: NOERROR, id: 1", ";; flags: qr " + flags + "; QUERY: 1"}
	}
	list := head("aa")
	if server == "192.0.2.53" && w.servfail > 0 && kind == "SOA" {
		w.servfail--
		return []string{";; ->>HEADER<<- opcode: QUERY, status: SERVFAIL, id: 1", ";; flags: qr rd ra; QUERY: 1"}
	}
	if server == "192.0.2.53" {
		list = head(map[bool]string{true: "rd ra", false: "rd ra ad"}[w.insecure])
	}
	add := func(ttl time.Duration, kind, data string) {
		list = append(list, fmt.Sprintf("%s. %d IN %s %s", name, int(ttl/time.Second), kind, data))
	}
	switch kind {
	case "DS":
		for data := range w.ds {
			add(dsTTL, "DS", data)
		}
		add(dsTTL, "RRSIG", "DS 13 2 172800 20270101000000 20260101000000 1 org. AA==")
	case "SOA":
		add(keyTTL, "SOA", "ns.example.org. h.example.org. 7 1 1 1 1")
	case "DNSKEY":
		for _, k := range w.keys {
			if _, in := w.state(k); in {
				add(keyTTL, "DNSKEY", k.rdata)
				if k.role == "KSK" {
					add(keyTTL, "RRSIG", fmt.Sprintf("DNSKEY 13 2 3600 20270101000000 20260101000000 %d example.org. AA==", k.tag))
				}
			}
		}
		if w.foreign {
			add(keyTTL, "DNSKEY", "257 3 13 "+base64.StdEncoding.EncodeToString(make([]byte, 64)))
		}
	}
	return list
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func kit(t *testing.T, w *world) *plugintest.Kit {
	k := plugintest.New(t, dnssec.Def())
	k.Host("signer").Handle(w.handle)
	return k
}

var params = sdk.With{
	"zone": "example.org", "key": "ksk", "validators": []string{"192.0.2.53"}, "servers": []string{"192.0.2.1"}, "safety_factor": factor, "poll": "10h",
	"parent": sdk.With{"method": "nsupdate", "server": "192.0.2.2", "tsig": "/etc/bind/k", "ns": []string{"192.0.2.2", "192.0.2.3"}, "within": "72h"},
}

func phaseOf(s *plugintest.State) string {
	var at struct{ Phase string }
	_ = json.Unmarshal(s.JSON, &at)
	return at.Phase
}

// follow calls until the job ends, and lets the time pass for which it is suspended. each sees
// every state that was saved; what it returns is what the next call finds.
func follow(t *testing.T, w *world, each func(*plugintest.Result, *plugintest.State) *plugintest.State) *plugintest.Result {
	t.Helper()
	k := kit(t, w)
	var state *plugintest.State
	for range 400 {
		got := k.Run(params, plugintest.Resume(state))
		if got.Outcome != "suspended" {
			return got
		}
		w.seen = append(w.seen, got.Reason)
		state = got.State
		if each != nil {
			state = each(got, state)
		}
		w.pass(got.ResumeAfter)
	}
	t.Fatalf("does not end; suspended for %s", strings.Join(slices.Compact(w.seen), "\n"))
	return nil
}

// check checks the one way in which a roll may have gone: by the clock, to the second.
func (w *world) check(t *testing.T, got *plugintest.Result) {
	t.Helper()
	if got.Outcome != "changed" || w.rolls != 1 || len(w.keys) != 3 {
		t.Fatalf("%s: %s; %d rolls, %d keys; suspended for\n%s", got.Outcome, got.Reason, w.rolls, len(w.keys), strings.Join(slices.Compact(w.seen), "\n"))
	}
	old, fresh := w.keys[0], w.keys[2]
	remember := time.Duration(factor * float64(dsTTL+parentTime))
	added, removed := w.ds[w.dsOf(fresh)], w.gone[w.dsOf(old)]
	if wait := added.Sub(fresh.published); wait < ipub {
		t.Errorf("the new DS was submitted %v after the key was published; Ipub is %v", wait, ipub)
	}
	if wait := removed.Sub(added); wait < remember {
		t.Errorf("the old DS was withdrawn %v after the new one came; it may be remembered for %v", wait, remember)
	}
	if wait := fresh.dsPublish.Sub(removed); wait < remember {
		t.Errorf("the signer got the report %v after the old DS went; it may be remembered for %v", wait, remember)
	}
	if len(w.ds) != 1 || old.dsRemoved.IsZero() {
		t.Errorf("DS %v, reported %v", w.ds, w.reported)
	}
}

// A roll of nine days, in no time.
func TestRollOfDays(t *testing.T) {
	w := newWorld(t)
	begun := w.now
	got := follow(t, w, nil)
	w.check(t, got)
	if took := w.now.Sub(begun); took < 8*24*time.Hour || took > 11*24*time.Hour {
		t.Errorf("it took %v", took)
	}
	t.Logf("%v; %d calls", w.now.Sub(begun), len(w.seen)+1)
}

// All saved state is lost, in every suspension there is: the signer's record and DNS must do. Waits
// may begin again; nothing is done twice or early.
func TestTrapLostStateStartsNoSecondRoll(t *testing.T) {
	whole := newWorld(t)
	follow(t, whole, nil)
	for lost := range len(whole.seen) {
		w := newWorld(t)
		calls := 0
		got := follow(t, w, func(_ *plugintest.Result, s *plugintest.State) *plugintest.State {
			if calls++; calls == lost+1 {
				return nil
			}
			return s
		})
		w.check(t, got)
	}
}

// The plugin dies within each of its calls to the host, once before the host saw it and once after:
// the next call finds what was saved at the last checkpoint.
func TestTrapDeathAtEachStepResumesToTheSameEnd(t *testing.T) {
	for _, after := range []bool{false, true} {
		for nth, done := 1, false; !done; nth++ {
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			k := plugintest.New(t, dnssec.Def())
			calls := 0
			k.Host("signer").Handle(func(c context.Context, call plugintest.Call) plugintest.Reply {
				if calls++; calls != nth {
					return w.handle(c, call)
				}
				reply := plugintest.Reply{}
				if after {
					reply = w.handle(c, call)
				}
				cancel()
				<-c.Done()
				return reply
			})
			var state *plugintest.State
			first := k.Start(params, plugintest.Context(ctx))
			result, err := first.Try()
			for n := 0; err == nil && result.Outcome == "suspended" && n < 400; n++ {
				state = result.State
				w.pass(result.ResumeAfter)
				result, err = k.Start(params, plugintest.Context(ctx), plugintest.Resume(state)).Try()
			}
			done = ctx.Err() == nil // no nth call: the roll ended before it
			if !done {
				k := kit(t, w)
				for range 400 {
					if result = k.Run(params, plugintest.Resume(state)); result.Outcome != "suspended" {
						break
					}
					w.seen = append(w.seen, result.Reason)
					state = result.State
					w.pass(result.ResumeAfter)
				}
			}
			cancel()
			w.check(t, result)
			if nth > 300 {
				t.Fatal("no end")
			}
		}
	}
}

// The DS is withheld: after the parent's time a person is called; nothing else is done, for months.
func TestWithheldDSCallsAPersonAndForcesNothing(t *testing.T) {
	w := newWorld(t)
	w.withhold = true
	begun := w.now
	var first string
	got := follow(t, w, func(r *plugintest.Result, s *plugintest.State) *plugintest.State {
		if strings.HasPrefix(r.Reason, "OVERDUE") && first == "" {
			first = r.Reason
			w.pass(90 * 24 * time.Hour)
		} else if first != "" && w.withhold {
			if len(w.reported) > 0 || len(w.ds) != 1 || w.rolls != 1 {
				t.Errorf("something was done: reported %v, DS %v", w.reported, w.ds)
			}
			w.withhold = false
			w.mu.Lock()
			w.ds[w.dsOf(w.keys[2])] = w.now
			w.mu.Unlock()
		} else if first == "" {
			w.pass(6 * time.Hour)
		}
		return s
	})
	w.check(t, got)
	if !strings.Contains(first, "K4 prove") || !strings.Contains(first, "Have the DS") || w.now.Sub(begun) < 95*24*time.Hour {
		t.Errorf("called by %q after %v", first, w.now.Sub(begun))
	}
}

// A signer that does not answer while the roll is under way is waited for: a roll that ended as
// unreachable would be nobody's.
func TestUnreachableSignerSuspendsTheRoll(t *testing.T) {
	w := newWorld(t)
	n := 0
	got := follow(t, w, func(r *plugintest.Result, s *plugintest.State) *plugintest.State {
		switch n++; n {
		case 2:
			w.down = true
		case 5:
			if !strings.Contains(r.Reason, "cannot continue now") {
				t.Errorf("suspended for %s", r.Reason)
			}
			w.down = false
		}
		return s
	})
	w.check(t, got)
	w = newWorld(t)
	w.down = true
	if got := kit(t, w).Run(params); got.Outcome != "unreachable" {
		t.Errorf("before it began: %s (%s)", got.Outcome, got.Reason)
	}
}

// rndc exits with 0 whatever became of the command: only the keys' states count.
func TestTrapExitCodeOfRNDCIsNoEvidence(t *testing.T) {
	for _, said := range []string{"1: Rollover scheduled", "\nsaid Error executing rollover command: no matching key found"} {
		w := newWorld(t)
		w.deaf = said
		n := 0
		got := follow(t, w, func(r *plugintest.Result, s *plugintest.State) *plugintest.State {
			if n++; n == 5 {
				if phaseOf(s) != "K1 start" || len(w.keys) != 2 {
					t.Errorf("%q: in %s: %s", said, phaseOf(s), r.Reason)
				}
				w.deaf = ""
			}
			return s
		})
		w.check(t, got)
	}
}

func TestPreflightRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		spin func(w *world)
		want string
	}{
		{"another signer's key", func(w *world) { w.foreign = true }, "not this signer's"},
		{"no DS at the parent", func(w *world) { clear(w.ds); w.ds["4711 13 2 AA"] = w.now }, "has no DS of key"},
		{"two DS", func(w *world) { w.ds["4711 13 2 AA"] = w.now }, "DS of more than this key"},
		{"a roll of a child", func(w *world) { w.child = true }, "roll of sub.example.org is under way"},
		{"an insecure zone", func(w *world) { w.insecure = true }, "does not call the zone secure"},
		{"a roll is in progress", func(w *world) { w.rndc(fmt.Sprintf("-rollover -key %d", w.keys[1].tag)); w.rolls = 0 }, "in progress"},
		{"another run's roll", func(w *world) { w.notes["open"] = "key other\njob r/7\nrole ksk\nold 5\n" }, "job r/7"},
	} {
		w := newWorld(t)
		c.spin(w)
		got := kit(t, w).Run(params)
		if got.Outcome != "failed" || got.Effects != "none" || !strings.Contains(got.Reason, c.want) || w.rolls != 0 || w.notes["open"] != "" && !strings.Contains(w.notes["open"], "r/7") {
			t.Errorf("%s: %s (%s), want %q; %d rolls", c.name, got.Outcome, got.Reason, c.want, w.rolls)
		}
	}
}

func TestParamsThatCannotBe(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		with sdk.With
		want string
	}{
		{sdk.With{"validators": []string{"resolver.example.org"}}, "/validators/0: expected an IP address"},
		{sdk.With{"validators": []string{"192.0.2.53", "fe80::1%$(reboot)", "x"}}, "/validators/1: expected an IP address"}, // netip takes any zone
		{sdk.With{"validators": []string{"fe80::1%eth0;reboot"}}, "/validators/0: expected an IP address"},
		{sdk.With{"servers": []string{"fe80::1%\nupdate delete org. DS"}}, "/servers/0: expected an IP address"},
		{sdk.With{"signer": sdk.With{"address": "fe80::1%a b"}}, "/signer/address: expected an IP address"},
		{sdk.With{"validators": []string{"x", "y"}}, "/validators/1: expected an IP address"},
		{sdk.With{"zone": "-f.example.org"}, "/zone: expected a name that does not begin with a dash"},
		{sdk.With{"zone": "a;reboot"}, "/zone"},
		{sdk.With{"parent": sdk.With{"method": "nsupdate"}}, "/parent: nsupdate needs server and tsig"},
		{sdk.With{"action": "abort", "key": "zsk"}, "/action: a zsk roll"},
		{sdk.With{"zone": "."}, "/zone"},
		{sdk.With{"state_dir": "/x/../y"}, "/state_dir: expected a clean"},
		{sdk.With{"servers": []string{"192.0.2.1#0"}}, "/servers/0"},
		{sdk.With{"safety_factor": 0.5}, "/safety_factor"},
	} {
		with := sdk.With{"zone": "example.org", "key": "ksk", "validators": []string{"192.0.2.53"}}
		maps.Copy(with, c.with)
		if got := strings.Join(kit(t, w).Validate(with), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.with, got, c.want)
		}
	}
}
