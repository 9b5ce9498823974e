package dnssec

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	sec  = time.Second
	hour = time.Hour
	day  = 24 * hour
)

// BIND's own defaults, and a lab's policy.
var (
	defaults = timing{DNSKEYTTL: hour, MaxZoneTTL: day, Propagation: 5 * time.Minute, PublishSafety: hour, RetireSafety: hour, Validity: 14 * day, Refresh: 5 * day, DSTTL: day, ParentPropagation: hour}
	short    = timing{DNSKEYTTL: 3 * sec, MaxZoneTTL: 3 * sec, Propagation: sec, PublishSafety: sec, RetireSafety: sec, Validity: 70 * sec, Refresh: 60 * sec, DSTTL: 3 * sec, ParentPropagation: sec}
)

// The intervals of RFC 7583, with the safety margins that BIND adds.
func TestIntervalsOfRFC7583(t *testing.T) {
	for _, c := range []struct {
		name                                string
		t                                   timing
		served                              time.Duration
		publication, zoneRetire, parent, ks time.Duration
	}{
		{"defaults", defaults, day, 2*hour + 5*time.Minute, 10*day + hour + 5*time.Minute, 25 * hour, 26 * hour},
		{"lab", short, 3 * sec, 5 * sec, 15 * sec, 4 * sec, 5 * sec},
		{"the parent serves a longer TTL than the policy says", short, 30 * sec, 5 * sec, 15 * sec, 31 * sec, 5 * sec},
		{"the parent serves a shorter one", short, sec, 5 * sec, 15 * sec, 4 * sec, 5 * sec},
	} {
		if got := c.t.publication(); got != c.publication {
			t.Errorf("%s: Ipub %v, want %v", c.name, got, c.publication)
		}
		if got := c.t.zoneRetire(); got != c.zoneRetire {
			t.Errorf("%s: Iret of a ZSK %v, want %v", c.name, got, c.zoneRetire)
		}
		if got := c.t.parentRetire(c.served); got != c.parent {
			t.Errorf("%s: Iret of a KSK %v, want %v", c.name, got, c.parent)
		}
		if got := c.t.keyRetire(); got != c.ks {
			t.Errorf("%s: BIND keeps a KSK for %v, want %v", c.name, got, c.ks)
		}
	}
}

func TestSpans(t *testing.T) {
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	s := expect(start, 26*hour, 1.5, hour)
	if !s.From.Equal(start.Add(26*hour)) || !s.Due.Equal(start.Add(40*hour)) {
		t.Errorf("expected from 26h to 40h, got %+v", s)
	}
	for _, c := range []struct {
		after   time.Duration
		next    time.Duration
		overdue bool
	}{{0, 26 * hour, false}, {25 * hour, hour, false}, {26 * hour, time.Minute, false}, {40 * hour, time.Minute, false}, {40*hour + sec, time.Minute, true}} {
		now := start.Add(c.after)
		if got := s.next(now, time.Minute); got != c.next || s.overdue(now) != c.overdue {
			t.Errorf("after %v: next %v, overdue %v; want %v, %v", c.after, got, s.overdue(now), c.next, c.overdue)
		}
	}
}

// Slack 2021, PowerDNS#11865: a guide that forgets the DS TTL. The forecast has it twice: before
// the old DS goes, and before the signer is notified.
func TestTrapForecastKnowsTheTTLOfTheDS(t *testing.T) {
	list := forecast("ksk", defaults, 2*day, 1.5, hour, 72*hour)
	at := map[string]time.Duration{}
	for i, s := range list {
		at[s.name[:2]] = s.after
		if i > 0 && (s.after < list[i-1].after || s.due < s.after) {
			t.Errorf("%+v comes before %+v", s, list[i-1])
		}
	}
	if wait := at["K5"] - at["K4"]; wait != 2*(73*hour+30*time.Minute) {
		t.Errorf("between DS(new) everywhere and the report to the signer: %v, want twice 1.5 × (TTL 48h + 1h)", wait)
	}
	zsk := forecast("zsk", short, 0, 1, 0, 0)
	if got := last(zsk).after; got != short.publication()+short.zoneRetire() {
		t.Errorf("a ZSK roll takes %v, want Ipub + Iret", got)
	}
}

func TestPolicyThatSaysLessThanIsServed(t *testing.T) {
	if bad := short.disagrees(3*sec, 3*sec, 3*sec); bad != nil {
		t.Errorf("equal: %v", bad)
	}
	if bad := short.disagrees(4*sec, 3601*sec, 86400*sec); len(bad) != 3 || !strings.Contains(bad[2], "parent-ds-ttl is 3s, but a TTL of 24h0m0s is served") {
		t.Errorf("all three: %v", bad)
	}
}

const conf = `options {
	directory "/var/cache/bind";
};
dnssec-policy "days" {
	dnskey-ttl PT2H;
	keys {
		ksk key-directory lifetime unlimited algorithm ecdsap256sha256;
		zsk lifetime P30D algorithm 13 ;
	};
	parent-ds-ttl 90000;
	signatures-validity 2w;
};
dnssec-policy "one" { keys { csk lifetime unlimited algorithm 13; }; };
dnssec-policy "two" { keys { ksk lifetime unlimited algorithm 13; ksk lifetime unlimited algorithm rsasha256; zsk lifetime unlimited algorithm 13; }; };
view "in" {
	zone "Example.ORG" { type primary; file "x{;\"; dnssec-policy "days"; key-directory "keys"; };
	zone "both.org" { dnssec-policy "days"; };
};
view "out" {
	dnssec-policy "days";
	zone "both.org" { parental-agents { 192.0.2.1; }; };
	zone "csk.org" { dnssec-policy "default"; };
	zone "two.org" { dnssec-policy "two"; };
	zone "none.org" { dnssec-policy "none"; };
	zone "gone.org" { dnssec-policy "lost"; };
};
`

func TestPolicyOfAZone(t *testing.T) {
	p, err := readPolicy(conf, "example.org", "")
	if err != nil {
		t.Fatal(err)
	}
	want := defaults
	want.DNSKEYTTL, want.DSTTL = 2*hour, 25*hour
	if p.Times != want || p.KeyDir != "/var/cache/bind/keys" || p.algs["ksk"] != 13 || p.algs["zsk"] != 13 || p.parental {
		t.Errorf("got %+v", p)
	}
	for _, c := range []struct{ zone, view, want string }{
		{"both.org", "", "several views"},
		{"both.org", "out", ""},
		{"example.org", "out", "has no zone"},
		{"csk.org", "", "one key for both roles"},
		{"two.org", "", "algorithm roll"},
		{"none.org", "", "no dnssec-policy"},
		{"gone.org", "", `"lost" is not in named.conf`},
	} {
		p, err := readPolicy(conf, c.zone, c.view)
		if c.want == "" {
			if err != nil || !p.parental || p.KeyDir != "/var/cache/bind" {
				t.Errorf("%s: %+v, %v", c.zone, p, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %q: %v, want %q", c.zone, c.view, err, c.want)
		}
	}
}

func TestDurationsOfNamedConf(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3600": hour, "0": 0, "1h30m": 90 * time.Minute, "2w": 14 * day, "PT1H30M": 90 * time.Minute, "P1Y": 365 * day, "P1M": 31 * day, "P2W": 14 * day, "p1dt1s": day + sec,
	} {
		if got, err := parseSpan(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "P", "PT", "h", "-1", "unlimited", "1y", "P99999999Y"} {
		if got, err := parseSpan(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

const answerText = `;; Got answer:
;; ->>HEADER<<- opcode: QUERY, status: NOERROR, id: 32966
;; flags: qr aa ad; QUERY: 1, ANSWER: 3, AUTHORITY: 0, ADDITIONAL: 1

;; OPT PSEUDOSECTION:
; EDNS: version: 0, flags: do; udp: 1232
;; ANSWER SECTION:
cust.lab.		3	IN	DNSKEY	256 3 13 3USUkJaYOtEts6gdnEIHALF1mHjhMemF4gCN0b8G9poSdCejNH+wFxSrBCBFRIkJ080BD4Pa+BzSE2oJbt8xww==
cust.lab.		3	IN	DNSKEY	257 3 13 zfA8zjEMe0WHTqbwOkcQjdNcihvfboZ6oT/CTiR2yA50hfwLMAwegfE+7T00Eg1oOZWzUobrODMnOTrnd+O0SQ==
cust.lab.		3	IN	RRSIG	DNSKEY 13 2 3 20261121010804 20261121000655 24849 cust.lab. WrnLNET8R3CtPCDH7LMKnPUW9cBxteYyiXMc6r29nlGnmx+iUSX8WkJ2Y0DSI52GVVxnlHTW1Up8ISt01WsvUA==
`

// The expected tags and digest are those of BIND's own tools for these keys.
func TestKeysAndTheirDS(t *testing.T) {
	r := parseReply(answerText)
	keys, ttl, problem := published(&r)
	if problem != "" || !slices.Equal(tagsOf(keys), []int{11733, 24849}) || ttl != 3*sec || !r.aa || !r.ad || !slices.Equal(signedBy(&r, "DNSKEY"), []int{24849}) {
		t.Fatalf("%v %v %q %+v", tagsOf(keys), ttl, problem, r)
	}
	if keys[1].flags&1 == 0 || keys[0].flags&1 != 0 {
		t.Error("roles")
	}
	if got := keys[1].ds("Cust.LAB.", sha256Type).String(); got != "24849 13 2 CD028C156BFD302CAE31D2F11E51A6337097E4875FE04A4BFFD2AE90581607FB" {
		t.Errorf("DS %s", got)
	}
	if got := keys[1].ds("cust.lab", 1); got != (ds{}) {
		t.Errorf("SHA-1 is not made: %v", got)
	}
}

func TestFaultsOfServers(t *testing.T) {
	for text, want := range map[string]string{
		";; communications error to 127.0.9.9#53: connection refused\n;; no servers could be reached\n":                     "does not answer",
		";; Connection to 2001:db8::1#53(2001:db8::1) for x failed: network unreachable.\n;; no servers could be reached\n": "does not answer",
		"": "no answer",
		";; ->>HEADER<<- opcode: QUERY, status: SERVFAIL, id: 1\n;; flags: qr; QUERY: 1\n": "SERVFAIL",
	} {
		r := parseReply(text)
		if !strings.Contains(r.problem(), want) {
			t.Errorf("%q: %q, want %q", text, r.problem(), want)
		}
	}
	four, six := parseReply(answerText), parseReply(";; Connection to 2001:db8::1#53 failed: network unreachable.")
	down := parseReply(";; communications error: timed out\n")
	if got := reached([]reply{four, six, down}); len(got) != 2 {
		t.Errorf("an address without a route is left out, a server that is down is not: %d left", len(got))
	}
	if got := reached([]reply{six}); len(got) != 1 {
		t.Error("when none answers, none is left out")
	}
}

func key(tag int, role, states string) signerKey {
	s := strings.Fields(states + " x x x x")
	k := signerKey{tag: tag, alg: 13, ksk: role != "zsk", zsk: role != "ksk", goal: s[0], dnskey: s[1]}
	if k.ksk {
		k.krrsig, k.ds = s[2], s[3]
	} else {
		k.zrrsig = s[2]
	}
	return k
}

func TestWhichKeyMayBeRolled(t *testing.T) {
	const all, gone = "omnipresent omnipresent omnipresent omnipresent", "hidden hidden hidden hidden"
	ksk, zsk := key(1, "ksk", all), key(2, "zsk", all)
	old := key(1, "ksk", "hidden omnipresent omnipresent unretentive")
	next := key(3, "ksk", "omnipresent rumoured rumoured hidden")
	old.successor, next.predecessor = 3, 1
	for _, c := range []struct {
		name string
		keys []signerKey
		own  int
		want []int
		bad  string
	}{
		{"fresh", []signerKey{ksk, zsk, key(9, "ksk", gone)}, 0, []int{1}, ""},
		{"a roll is in progress", []signerKey{old, next, zsk}, 0, nil, "in progress"},
		{"our own roll", []signerKey{old, next, zsk}, 1, nil, ""},
		{"a ZSK roll beside our own", []signerKey{old, next, zsk, key(4, "zsk", "omnipresent rumoured hidden")}, 1, nil, "in progress"},
		{"BIND was never told of the DS", []signerKey{key(1, "ksk", "omnipresent omnipresent omnipresent rumoured"), zsk}, 0, nil, "ds rumoured"},
		{"CSK", []signerKey{key(1, "csk", all)}, 0, nil, "CSK"},
		{"two keys of one tag", []signerKey{ksk, key(1, "zsk", all)}, 0, []int{1}, "two keys of the signer have the tag 1"},
	} {
		list, bad := candidates(c.keys, "ksk", c.own)
		var tags []int
		for _, k := range list {
			tags = append(tags, k.tag)
		}
		if !slices.Equal(tags, c.want) || c.bad == "" && bad != nil || !strings.Contains(strings.Join(bad, "; "), c.bad) {
			t.Errorf("%s: %v, %v; want %v, %q", c.name, tags, bad, c.want, c.bad)
		}
	}
	if s := successorOf([]signerKey{old, next}, 1); s == nil || s.tag != 3 {
		t.Error("the successor of a roll that has begun")
	}
}

// Parent and child never roll together; strangers may.
func TestRelatedZones(t *testing.T) {
	open := readNotes("lab key a\nlab job run/0\nlab role ksk\nlab old 5\nother.org key b\n")
	if open["lab"] != (note{key: "a", job: "run/0", role: "ksk", old: 5}) {
		t.Fatalf("%+v", open)
	}
	for zone, want := range map[string]bool{"cust.lab": true, "a.b.lab": true, "lab": false, "collab": false, "org": true, "another.org": false} {
		if _, _, got := related(open, zone); got != want {
			t.Errorf("%s: %v", zone, got)
		}
	}
}

func FuzzWhatPeersWrite(f *testing.F) {
	f.Add(answerText)
	f.Add(conf)
	f.Add("Kcust.lab.+013+11733.state GoalState: omnipresent\nKcust.lab.+013+11733.state Published: 20261121010631 (Sat)\n")
	f.Fuzz(func(_ *testing.T, text string) {
		r := parseReply(text)
		_, _, _ = published(&r)
		_, _ = delegation(&r, "cust.lab", 1, dnskey{})
		_, _ = readPolicy(text, "cust.lab", "")
		_, _ = parseKeys(text, text)
		_ = readNotes(text)
	})
}
