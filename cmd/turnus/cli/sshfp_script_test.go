package cli

import (
	"crypto/sha256"
	"net"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"
	"golang.org/x/net/dns/dnsmessage"
)

var pinnedLine = regexp.MustCompile(`(?m)^  (\S+): \{.*host_key: \["(.*)"\]`)

// sshfpRecords starts a resolver at RESOLVER that has the keys of hosts.yaml as SSHFP records, and
// validates them; with ! it does not.
func sshfpRecords(ts *testscript.TestScript, neg bool, _ []string) {
	digests := map[string][]byte{}
	for _, m := range pinnedLine.FindAllStringSubmatch(ts.ReadFile("hosts.yaml"), -1) {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(m[2]))
		ts.Check(err)
		sum := sha256.Sum256(key.Marshal())
		digests[m[1]+"."] = append([]byte{4, 2}, sum[:]...) // Ed25519, SHA-256
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = udp.Close() })
	ts.Setenv("RESOLVER", udp.LocalAddr().String())
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			var p dnsmessage.Parser
			h, err := p.Start(buf[:n])
			q, qerr := p.Question()
			if err != nil || qerr != nil {
				continue
			}
			m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, AuthenticData: !neg}, Questions: []dnsmessage.Question{q}}
			if data := digests[strings.ToLower(q.Name.String())]; data != nil {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.UnknownResource{Type: q.Type, Data: data}}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = udp.WriteTo(answer, from)
			}
		}
	}()
}
