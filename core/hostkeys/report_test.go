package hostkeys

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// A report of a worker is data: keys are judged as those of a scan, and nothing else of it counts.
func TestReportsOfWorkersAreJudged(t *testing.T) {
	pool, err := transport.New(transport.Config{KnownHosts: []string{"/dev/null"}})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	key, other := newKey(t), newKey(t)
	line := func(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
	named := func(name string, keys ...any) Report {
		return Report{Outputs: map[string]any{"known_hosts_name": name, "keys": keys}}
	}
	same := func(keys ...any) Report { return named("192.0.2.1", keys...) }
	h := core.Host{Name: "web1", Address: "192.0.2.1", SSH: core.SSH{HostKeys: []string{line(key)}}}
	for name, one := range map[string]struct {
		report Report
		want   transport.KeyState
		says   string
	}{
		"the known key":      {report: same(line(key)), want: transport.KeyKnown},
		"another key":        {report: same(line(other)), want: transport.KeyChanged},
		"another address":    {report: named("192.0.2.7", line(key)), says: `scanned "192.0.2.7"`},
		"no name":            {report: Report{Outputs: map[string]any{"keys": []any{line(key)}}}, says: `scanned ""`},
		"no outputs":         {says: "0 keys"},
		"a number of keys":   {report: same(7), says: "not a public key alone"},
		"no key":             {report: same("ssh-ed25519 AAAA"), says: "not a public key alone"},
		"with options":       {report: same(`command="id" ` + line(key)), says: "not a public key alone"},
		"with a comment":     {report: same(line(key) + " \x1b[31mroot"), says: "not a public key alone"},
		"two lines":          {report: same(line(key) + "\n" + line(other)), says: "not a public key alone"},
		"a long line":        {report: same(strings.Repeat("#", maxReportedKey+1)), says: "expected at most"},
		"too many keys":      {report: same(slices.Repeat([]any{line(key)}, maxReported+1)...), says: "9 keys"},
		"without connection": {report: Report{Err: errors.New("connection refused")}, says: "connection refused"},
	} {
		list := Reported(pool, []core.Host{h}, map[string]Report{"web1": one.report, "db1": same(line(key))})
		if len(list) != 1 || list[0].Host.Name != "web1" {
			t.Fatalf("%s: %+v", name, list)
		}
		r := list[0]
		if one.says != "" {
			if r.Err == nil || !strings.Contains(r.Err.Error(), one.says) || len(r.Keys)+len(r.Shown) > 0 {
				t.Errorf("%s: %v, %d keys; expected %s", name, r.Err, len(r.Keys), one.says)
			}
			continue
		}
		if r.Err != nil || len(r.Keys) != 1 || r.Keys[0].State != one.want {
			t.Errorf("%s: %+v, expected %s", name, r, one.want)
		}
	}
	if list := Reported(pool, []core.Host{h}, nil); len(list) != 1 || list[0].Err == nil {
		t.Errorf("a host without a report: %+v", list)
	}
}
