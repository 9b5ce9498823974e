package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/configs"
	"github.com/turnus/turnus/core/testparts"
)

// A host of which nothing was kept is refused, whatever else chooses versions: "nothing changed"
// would be believed.
func TestHostsConfigRefusesAnUnknownHost(t *testing.T) {
	testparts.Need(t, "git", "git")
	dir := filepath.Join(t.TempDir(), "configs")
	repo, err := configs.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := repo.Keep(t.Context(), configs.Change{
		Host: "fw1", Files: []configs.File{{Name: "running.conf", Content: []byte("mtu 1500\n")}}, Author: "ann (1000)",
		At: time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC), Playbook: "backup", Run: "20261120-030000-backup", Step: "keep",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"ls", "show", "diff"} {
		if out, _ := turnus(t, console.ExitOK, "__complete", "hosts", "config", verb, "--config-dir", dir, ""); !strings.HasPrefix(out, "fw1\n") {
			t.Errorf("hosts config %s is completed by %q", verb, out)
		}
	}
	for _, args := range [][]string{
		{"diff"}, {"diff", "--from", kept.Version, "--to", kept.Version}, {"diff", "--since", "24h"}, {"diff", "--run", "other"}, {"diff", "--file", "other.conf"},
		{"ls"}, {"ls", "--since", "24h"}, {"ls", "--run", "other"}, {"ls", "--file", "other.conf"},
	} {
		for host, want := range map[string]int{"fw1": console.ExitOK, "fw2": console.ExitInvalid} {
			_, said := turnus(t, want, append([]string{"hosts", "config", args[0], host, "--config-dir", dir}, args[1:]...)...)
			if want == console.ExitInvalid && !strings.Contains(said, `did you mean "fw1"`) {
				t.Errorf("%v %s: %s", args, host, said)
			}
		}
	}
}

// With -o json the job types would be printed, and nothing compared or written.
func TestPagesOfJobTypesAreNoDocuments(t *testing.T) {
	dir := t.TempDir()
	page := writeText(t, "docs.md", "something else\n", 0o600)
	turnus(t, console.ExitChanges, "plugins", "docs", "file", "--check", page) // the control
	for _, format := range []string{"json", "yaml"} {
		for _, args := range [][]string{{"--check", page}, {"--dir", filepath.Join(dir, "pages")}} {
			if out, said := turnus(t, console.ExitInvalid, append([]string{"plugins", "docs", "file", "-o", format}, args...)...); out != "" || !strings.Contains(said, "leave out -o") {
				t.Errorf("-o %s %v: %s%s", format, args, out, said)
			}
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}
