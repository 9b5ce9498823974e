package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

const examples = repo + "/examples"

// exampleFolders are the folders of examples/, each with a README.
func exampleFolders(t *testing.T) []string {
	t.Helper()
	readmes, err := filepath.Glob(examples + "/*/README.md")
	if err != nil || len(readmes) < 8 {
		t.Fatalf("%d examples, %v", len(readmes), err)
	}
	names := make([]string, len(readmes))
	for i, r := range readmes {
		names[i] = filepath.Base(filepath.Dir(r))
	}
	return names
}

func TestExamplePlaybooksLoad(t *testing.T) {
	opts := realTypes(t)
	files, err := filepath.Glob(examples + "/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	loaded := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !isPlaybook(string(text)) {
			continue
		}
		loaded++
		if _, err := playbooks.Parse(file, text, opts); err != nil {
			t.Error(err)
		}
		folder, name := filepath.Split(file)
		if !strings.Contains(page(t, filepath.Join("examples", filepath.Base(folder), "README.md")), " "+name) {
			t.Errorf("%s: no command of its README has it", file)
		}
	}
	if loaded < 12 {
		t.Errorf("%d playbooks were found, expected at least 12", loaded)
	}
}

// The description of a folder in examples/README.md holds: it is listed, short, and runs on the lab
// where the table has "runs".
func TestIndexOfExamples(t *testing.T) {
	index := page(t, "examples/README.md")
	for _, name := range exampleFolders(t) {
		text := page(t, "examples/"+name+"/README.md")
		if n := strings.Count(text, "\n"); n > 12 {
			t.Errorf("%s: its README has %d lines, expected at most 12", name, n)
		}
		on := "plan"
		if strings.Contains(text, "\nturnus run ") {
			on = "runs"
		}
		row := fmt.Sprintf("| [%s](%[1]s/README.md) |", name)
		_, rest, listed := strings.Cut(index, row)
		rest, _, _ = strings.Cut(rest, "\n")
		if !listed || !strings.HasSuffix(rest, "| "+on+" |") {
			t.Errorf("examples/README.md: expected a row %s … | %s |", row, on)
		}
	}
}
