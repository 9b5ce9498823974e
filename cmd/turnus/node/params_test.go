package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// A plugin that does not start is one problem, also where several steps use it. Red with the plugin
// asked again: two problems.
func TestASilentPluginIsOneProblem(t *testing.T) {
	schema := []byte(`{"type":"object"}`)
	sup, err := host.New(host.Config{Socket: t.TempDir(), Builtins: []host.Plugin{{
		Argv:     []string{"/bin/false"},
		Manifest: host.Manifest{Name: "lab", Version: "1.0.0", Protocol: wire.ProtocolVersion, Types: []host.Type{{Name: "lab.echo", Params: schema}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := sup.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(t.TempDir(), "site.yaml")
	if err := os.WriteFile(path, []byte("playbook: site\ntargets: \"true\"\nsteps: [{name: one, uses: lab.echo}, {name: two, uses: lab.echo}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := PlaybookOptions(sup, nil)
	o.Ask = AskJobTypes(t.Context(), sup)
	_, err = playbooks.Load([]string{path}, o)
	if problems, _ := errors.AsType[playbooks.Diagnostics](err); len(problems) != 1 || !strings.Contains(problems[0].Message, `step "one": its params were not checked: `) || !strings.Contains(problems[0].Message, "plugin lab 1.0.0 did not start") {
		t.Error(err)
	}
}
