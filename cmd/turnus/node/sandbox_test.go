package node

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/host"
)

// The networks that an operator opens reach the process of http, and those of firmware and
// firewall, which call from the worker as http does, and no other; without any they get none.
func TestFaultS11NetworksAreOpenedToWhatCallsFromTheWorkerOnly(t *testing.T) {
	for _, tc := range []struct{ allow, want []string }{
		{nil, nil},
		{[]string{"http=10.1.2.3/24", "http=fd00::1/128"}, []string{"10.1.2.0/24", "fd00::1/128"}},
	} {
		f := sandboxFlags{mode: "off", allow: tc.allow}
		var cfg host.Config
		if err := f.check(); err != nil {
			t.Fatal(err)
		}
		if err := f.confine(&cfg, ""); err != nil || len(cfg.Allow) != 0 {
			t.Fatalf("%v, %v", cfg.Allow, err)
		}
		for _, p := range cfg.Builtins {
			want := []string(nil)
			asks := p.Name == "http" || p.Name == "firmware" || p.Name == "firewall"
			if asks {
				want = tc.want
			}
			if got := p.Argv[3:]; !slices.Equal(got, want) {
				t.Errorf("%s is started with %q, expected %q", p.Name, got, want)
			}
			// Without the sandbox's network nothing is fetched, whatever the operator opened.
			if p.Allow.Network != asks {
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

// Workers take the manifests of built-in plugins as they are: here they are held against what any
// plugin is held against.
func TestBuiltinManifestsAreValid(t *testing.T) {
	all, err := BuiltinPlugins()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if err := p.Manifest.Validate(); err != nil || len(p.Manifest.Types) == 0 {
			t.Errorf("%s has %d job types: %v", p.Name, len(p.Manifest.Types), err)
		}
	}
	broken := all[0].Manifest
	broken.Types = slices.Clone(broken.Types)
	broken.Types[0].Params = []byte(`{"type": 7}`)
	if broken.Validate() == nil {
		t.Error("a broken schema is valid: the test sees nothing")
	}
	one, err := builtinPlugins("command", nil)
	if err != nil || len(one) != 1 || one[0].Name != "command" {
		t.Errorf("%+v, %v", one, err)
	}
}
