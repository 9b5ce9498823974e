package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// first returns the first group of each match, in order.
func first(pattern, text string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// The table of docs/commands.md has a row for each exit code of package console, in order.
func TestExitCodesAreDocumented(t *testing.T) {
	want := first(`(?m)^\tExit[A-Z]\w* += (\d+)`, page(t, "cmd/turnus/console/exit.go"))
	_, section, _ := strings.Cut(page(t, "docs/commands.md"), "\n## Exit codes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if got := first(`(?m)^\| (\d+) \|`, section); len(want) < 7 || !slices.Equal(got, want) {
		t.Errorf("docs/commands.md has the exit codes %v, console/exit.go has %v", got, want)
	}
}

// The index of the docs leads to each page, and to each job type that has no guide.
func TestIndexLeadsToEveryPage(t *testing.T) {
	guides := map[string]string{"config.backup": "config-backup", "dnssec.rollover": "dnssec", "firewall.push": "firewall", "firmware.stage": "firmware", "firmware.upgrade": "firmware", "facts": "facts"}
	var want []string
	for _, pattern := range []string{"*.md", "job-types/*.md"} {
		files, err := filepath.Glob(filepath.Join(repo, "docs", pattern))
		if err != nil || len(files) < 20 {
			t.Fatalf("pages of docs/%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			name, err := filepath.Rel(filepath.Join(repo, "docs"), file)
			if err != nil {
				t.Fatal(err)
			}
			if guide := guides[strings.TrimSuffix(filepath.Base(name), ".md")]; guide != "" {
				name = guide + ".md"
			}
			if name != "README.md" {
				want = append(want, filepath.ToSlash(name))
			}
		}
	}
	links := first(`\]\(([^)#]+)`, page(t, "docs/README.md"))
	for _, name := range want {
		if !slices.Contains(links, name) {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}
