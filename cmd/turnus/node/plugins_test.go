package node

import (
	"testing"

	"github.com/turnus/turnus/cmd/turnus/settings"
)

// The job types that a playbook is checked with have a version, which its runs carry to the
// workers. Red with Plugin left out of playbookType.
func TestFaultP5PlaybooksKnowTheVersionsOfTheirPlugins(t *testing.T) {
	sup, err := (&PluginFlags{}).Supervisor(nil)
	if err != nil {
		t.Fatal(err)
	}
	if typ, ok := PlaybookOptions(sup, nil).Types("command"); !ok || typ.Plugin != "command "+settings.Version() {
		t.Errorf("command is of plugin %q, expected %q", typ.Plugin, "command "+settings.Version())
	}
	if err := sup.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
