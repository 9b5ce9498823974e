package cli

import "testing"

// What a playbook is checked with has a version, which its runs carry to the workers. Red with Plugin left out of playbookType.
func TestFaultP5PlaybooksKnowTheVersionsOfTheirPlugins(t *testing.T) {
	sup, err := (&pluginFlags{}).supervisor(nil)
	if err != nil {
		t.Fatal(err)
	}
	if typ, ok := playbookOptions(sup, nil).Types("command"); !ok || typ.Plugin != "command "+version {
		t.Errorf("command is of plugin %q, expected %q", typ.Plugin, "command "+version)
	}
	if err := sup.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
