package hostkeys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// zone is the data of a test's resolver.
type zone struct {
	records   []fingerprint
	cname     string // the records are those of this name
	owner     string // whose the records are; the name that is asked for if ""
	insecure  bool   // no AD flag
	truncated bool   // over UDP
	rcode     dnsmessage.RCode
}

// startResolver answers every question from the zone, over UDP and TCP.
func startResolver(t *testing.T, z zone) Resolver {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			late := z.answer(t, buf[:n], true)
			binary.BigEndian.PutUint16(late, binary.BigEndian.Uint16(buf)+1) // of another question
			_, _ = udp.WriteTo(late, from)
			_, _ = udp.WriteTo(z.answer(t, buf[:n], true), from)
		}
	}()
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			var size uint16
			if binary.Read(conn, binary.BigEndian, &size) == nil {
				query := make([]byte, size)
				_, _ = io.ReadFull(conn, query)
				answer := z.answer(t, query, false)
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
			_ = conn.Close()
		}
	}()
	r, err := ParseResolver(tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (z zone) answer(t *testing.T, query []byte, udp bool) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || !h.RecursionDesired || !h.AuthenticData {
		t.Errorf("the query asks for no recursion or no AD: %v, %v", h.GoString(), err)
	}
	q, _ := p.Question()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: h.ID, Response: true, AuthenticData: !z.insecure, RCode: z.rcode, Truncated: udp && z.truncated},
		Questions: []dnsmessage.Question{q},
	}
	owner := q.Name
	if z.owner != "" {
		owner = dnsmessage.MustNewName(z.owner)
	}
	if z.cname != "" {
		owner = dnsmessage.MustNewName(z.cname)
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.CNAMEResource{CNAME: owner}})
	}
	for _, r := range z.records {
		if m.Truncated {
			break
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: owner, Class: q.Class},
			Body:   &dnsmessage.UnknownResource{Type: typeSSHFP, Data: append([]byte{r.algorithm, r.kind}, r.digest...)},
		})
	}
	text, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return text
}

func newECDSA(t *testing.T) ssh.PublicKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sha256Of(key ssh.PublicKey) fingerprint {
	digest := sha256.Sum256(key.Marshal())
	return fingerprint{sshfpAlgorithm(key.Type()), digestSHA256, digest[:]}
}

func sha1Of(key ssh.PublicKey) fingerprint {
	digest := sha1.Sum(key.Marshal())
	return fingerprint{sshfpAlgorithm(key.Type()), digestSHA1, digest[:]}
}

// DNS vouches for a key by a validated SHA-256 record and by nothing else.
func TestSSHFPDecides(t *testing.T) {
	key, other, second := newKey(t), newKey(t), newECDSA(t)
	shown := func(state transport.KeyState, keys ...ssh.PublicKey) Result {
		r := result("web1.example.net")
		for _, k := range keys {
			r.Keys = append(r.Keys, transport.HostKey{Key: k, State: state})
		}
		return r
	}
	cross := sha256Of(key)
	cross.algorithm = 3 // the right digest under another algorithm
	for name, one := range map[string]struct {
		zone     zone
		host     Result
		replace  bool
		accepted int
		why      string // of a refusal
	}{
		"match":               {zone: zone{records: []fingerprint{sha256Of(key)}}, host: shown(transport.KeyNew, key), accepted: 1},
		"over TCP":            {zone: zone{records: []fingerprint{sha256Of(key)}, truncated: true}, host: shown(transport.KeyNew, key), accepted: 1},
		"by an alias":         {zone: zone{records: []fingerprint{sha256Of(key)}, cname: "w.example.net."}, host: shown(transport.KeyNew, key), accepted: 1},
		"one of two records":  {zone: zone{records: []fingerprint{sha256Of(other), sha256Of(key)}}, host: shown(transport.KeyNew, key), accepted: 1},
		"one of two keys":     {zone: zone{records: []fingerprint{sha256Of(key)}}, host: shown(transport.KeyNew, key, second), accepted: 1},
		"one key differs":     {zone: zone{records: []fingerprint{sha256Of(key), sha256Of(newECDSA(t))}}, host: shown(transport.KeyNew, key, second), accepted: 1, why: "have another fingerprint"},
		"SHA-1 beside it":     {zone: zone{records: []fingerprint{sha1Of(key), sha256Of(key)}}, host: shown(transport.KeyNew, key), accepted: 1},
		"SHA-1 only":          {zone: zone{records: []fingerprint{sha1Of(key)}}, host: shown(transport.KeyNew, key), why: "SHA-1 fingerprints only"},
		"SHA-1, wrong SHA256": {zone: zone{records: []fingerprint{sha1Of(key), sha256Of(other)}}, host: shown(transport.KeyNew, key), why: "have another fingerprint"},
		"wrong digest":        {zone: zone{records: []fingerprint{sha256Of(other)}}, host: shown(transport.KeyNew, key), why: "have another fingerprint"},
		"wrong algorithm":     {zone: zone{records: []fingerprint{cross}}, host: shown(transport.KeyNew, key), why: "no SSHFP record for this type"},
		"of another name":     {zone: zone{records: []fingerprint{sha256Of(key)}, owner: "evil.example.net."}, host: shown(transport.KeyNew, key), why: "it has no SSHFP records"},
		"no AD":               {zone: zone{records: []fingerprint{sha256Of(key)}, insecure: true}, host: shown(transport.KeyNew, key), why: "no AD flag"},
		"no AD over TCP":      {zone: zone{records: []fingerprint{sha256Of(key)}, insecure: true, truncated: true}, host: shown(transport.KeyNew, key), why: "no AD flag"},
		"no records":          {host: shown(transport.KeyNew, key), why: "it has no SSHFP records"},
		"no name":             {zone: zone{rcode: dnsmessage.RCodeNameError}, host: shown(transport.KeyNew, key), why: "it has no SSHFP records"},
		"bogus":               {zone: zone{rcode: dnsmessage.RCodeServerFailure}, host: shown(transport.KeyNew, key), why: "SERVFAIL"},
		"refused":             {zone: zone{rcode: dnsmessage.RCodeRefused}, host: shown(transport.KeyNew, key), why: "answers Refused"},
		"changed":             {zone: zone{records: []fingerprint{sha256Of(key)}}, host: shown(transport.KeyChanged, key), why: "add --replace"},
		"replaced":            {zone: zone{records: []fingerprint{sha256Of(key)}}, host: shown(transport.KeyChanged, key), replace: true, accepted: 1},
		"known":               {zone: zone{records: []fingerprint{sha256Of(key)}}, host: shown(transport.KeyKnown, key)},
		"an address":          {host: Result{Host: core.Host{Name: "web1"}, HostKeys: transport.HostKeys{Name: "[192.0.2.1]:2222", Keys: []transport.HostKey{{Key: key, State: transport.KeyNew}}}}, why: "full DNS name"},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := []Result{one.host}
			accepted, refusals := 0, ""
			for _, d := range BySSHFP(hosts, startResolver(t, one.zone).LookUp(t.Context(), hosts), one.replace) {
				if d.Accepted {
					accepted++
				} else {
					refusals += d.Why + "\n"
				}
			}
			if accepted != one.accepted || !strings.Contains(refusals, one.why) || (one.why == "") != (refusals == "") {
				t.Errorf("%d accepted, want %d; refusals %q, want %q", accepted, one.accepted, refusals, one.why)
			}
		})
	}
}

func TestDNSNameOfAHost(t *testing.T) {
	for _, one := range []struct{ known, host, want string }{
		{"web1.example.net", "web1", "web1.example.net"},
		{"[web1.example.net]:2222", "web1", "web1.example.net"},
		{"192.0.2.1", "web1.example.net", "web1.example.net"},
		{"[2001:db8::1]:2222", "web1.example.net", "web1.example.net"},
		{"2001:db8::1", "web1", ""},
		{"web1", "web1", ""},
		{"web1", "192.0.2.1", ""},
	} {
		if got := dnsName(Result{Host: core.Host{Name: one.host}, HostKeys: transport.HostKeys{Name: one.known}}); got != one.want {
			t.Errorf("%s, %s: %q, want %q", one.known, one.host, got, one.want)
		}
	}
}

// A resolver elsewhere counts only if a person allows it.
func TestResolverOfTheMachine(t *testing.T) {
	for text, want := range map[string]string{
		"nameserver 127.0.0.53\noptions edns0\n":       "127.0.0.53:53",
		"nameserver ::1\nnameserver 192.0.2.1\n":       "[::1]:53",
		"# nothing\n":                                  "127.0.0.1:53",
		"nameserver 192.0.2.1\n":                       "",
		"nameserver 192.0.2.1\nnameserver 127.0.0.1\n": "",
		"options edns0 trust-ad\nnameserver 192.0.2.1": "192.0.2.1:53",
		"#options trust-ad\nnameserver 192.0.2.1\n":    "",
		"nameserver nonsense\n":                        "",
	} {
		r, err := SystemResolver(strings.NewReader(text))
		if (err == nil) != (want != "") || err == nil && r.address.String() != want {
			t.Errorf("%q: %v, %v; want %q", text, r.address, err, want)
		}
	}
	for _, text := range []string{"", "example.net", "127.0.0.1:x"} {
		if _, err := ParseResolver(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
