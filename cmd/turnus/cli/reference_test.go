package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/help"
)

// docs/commands is what the help of the commands contains. To write it: make generate.
func TestCommandPagesAreUpToDate(t *testing.T) {
	want := help.Reference(testRoot())
	for _, file := range commandPages(t) {
		name := filepath.Base(file)
		if page(t, "docs/commands/"+name) != want[name] {
			t.Errorf("docs/commands/%s is not what turnus admin man writes: make generate writes it", name)
		}
		if lines := strings.Count(want[name], "\n"); lines > 300 {
			t.Errorf("docs/commands/%s has %d lines: give one of its commands a page of its own", name, lines)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("docs/commands/%s is missing: make generate writes it", name)
	}
}
