package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/host"
)

// The networks that an operator opens reach the process of http, and that of firmware, which asks for artifacts as http does, and
// no other; without any they get none.
func TestFaultS11NetworksAreOpenedToHTTPAndFirmwareOnly(t *testing.T) {
	for _, tc := range []struct{ allow, want []string }{
		{nil, nil},
		{[]string{"http=10.1.2.3/24", "http=fd00::1/128"}, []string{"10.1.2.0/24", "fd00::1/128"}},
	} {
		f := sandboxFlags{mode: "off", allow: tc.allow}
		var cfg host.Config
		if err := f.check(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.confine(&cfg); err != nil || len(cfg.Allow) != 0 {
			t.Fatalf("%v, %v", cfg.Allow, err)
		}
		for _, p := range cfg.Builtins {
			want := []string(nil)
			if p.Name == "http" || p.Name == "firmware" {
				want = tc.want
			}
			if got := p.Argv[3:]; !slices.Equal(got, want) {
				t.Errorf("%s is started with %q, expected %q", p.Name, got, want)
			}
			// Without the sandbox's network nothing is fetched, whatever the operator opened.
			if asks := p.Name == "http" || p.Name == "firmware" || p.Name == "firewall"; p.Allow.Network != asks {
				t.Errorf("%s has the network: %v, expected %v", p.Name, p.Allow.Network, asks)
			}
		}
	}
	for _, bad := range []string{"http=network", "http=/etc", "http", "http=10.1.2.3", "command=10.0.0.0/8"} {
		if err := (&sandboxFlags{allow: []string{bad}}).check(); err == nil || !strings.Contains(err.Error(), "--plugin-allow "+bad+": expected") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
