package playbooks_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

var update = flag.Bool("update", false, "write the golden files")

// TestBadFiles holds the message of every bad file against its golden file.
// go test ./playbooks -run TestBadFiles -update writes them again.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d bad files (%v), want at least 40", len(files), err)
	}
	o := options(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = playbooks.Parse(filepath.Base(file), src, o)
			if err == nil {
				t.Fatal("it loads, but it is bad")
			}
			if !errors.Is(err, core.ErrInvalid) {
				t.Error("errors.Is(err, core.ErrInvalid) does not hold")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			got := err.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
