package cli

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/settings"
)

// docs/commands is what the help of the commands contains. To write it: make generate.
func TestCommandPagesAreUpToDate(t *testing.T) {
	want := newApp(strings.NewReader(""), io.Discard, io.Discard).referencePages(testRoot())
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

// Each setting of a service has one row in docs/commands/settings.md: one that names the service.
func TestSettingsPageHasEachSetting(t *testing.T) {
	rows, found := strings.Split(page(t, "docs/commands/settings.md"), "\n"), 0
	for _, l := range newApp(strings.NewReader(""), io.Discard, io.Discard).longRunners() {
		l.cmd.Flags().VisitAll(func(f *pflag.Flag) {
			want := 0
			if settings.IsSetting(f) && !f.Hidden {
				want = 1
			}
			n := 0
			for _, row := range rows {
				cells := strings.Split(row, " | ")
				if len(cells) >= 5 && cells[0] == "| `"+f.Name+"`" && slices.Contains(strings.Split(cells[1], ", "), l.cmd.Name()) &&
					cells[2] == "`"+settings.VariableOf(f.Name)+"`" {
					n++
				}
			}
			if n != want {
				t.Errorf("turnus %s --%s has %d rows, expected %d", l.cmd.Name(), f.Name, n, want)
			}
			found += n
		})
	}
	if found < 100 {
		t.Errorf("only %d settings were found", found)
	}
}
