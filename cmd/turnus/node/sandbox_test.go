package node

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk"
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

// Workers take the manifests of built-in plugins as they are: here they are checked as those of any
// plugin are.
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
	if err != nil || len(one) != 1 || one[0].Name != "command" || one[0].Process != "" || one[0].Argv[2] != "command" {
		t.Errorf("%+v, %v; expected it in a process of its own", one, err)
	}
}

// The shared process has the job types of all plugins that are started by it, and no other: none of
// those that the sandbox gives the network.
func TestSharedProcessHasItsJobTypes(t *testing.T) {
	all, err := BuiltinPlugins()
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, p := range all {
		if p.Process == "" {
			continue
		}
		for _, tp := range p.Manifest.Types {
			declared[tp.Name] = true
		}
	}
	served := map[string]bool{}
	for _, tp := range sdk.Describe(defsOf(sharedProcess, nil)...).Types {
		served[tp.Name] = true
	}
	if !maps.Equal(declared, served) || len(served) < 20 || served["http"] {
		t.Errorf("it has %v, expected %v", served, declared)
	}
	if len(defsOf("nothing", nil)) != 0 {
		t.Error("a plugin that is not built in has job types")
	}
}
