package core_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts/language"
)

// tracked are the files of the repository with an ending, by their path in it.
func tracked(t *testing.T, ending string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*"+ending)
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// guides reports whether a page is one that people read for its own sake: README, ARCHITECTURE, how
// to contribute, docs and examples. Pages below docs are generated from texts of the code. Pages of
// job types and commands have the words of guides, decisions also their sentences and headings, all
// other pages their columns only.
func guides(path string) bool {
	return !strings.Contains(path, "/") || strings.HasPrefix(path, "examples/") || filepath.Dir(path) == "docs"
}

// One page: go test ./core -run 'TestLanguageOfThePages/docs/windows.md'.
func TestLanguageOfThePages(t *testing.T) {
	pages := 0
	for _, path := range tracked(t, ".md") {
		text, err := os.ReadFile(filepath.Join(root(t), path))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		check := language.Columns
		if filepath.Base(path) == "DECISIONS.md" {
			check = language.Decisions
		}
		if strings.HasPrefix(path, "docs/job-types/") || strings.HasPrefix(path, "docs/commands/") {
			check = language.Reference
		}
		if guides(path) {
			check = language.Guide
			pages++
		}
		if path == "docs/CHANGELOG.md" {
			check = language.Page // it has the words of former versions
		}
		t.Run(path, func(t *testing.T) {
			for _, problem := range check(string(text)) {
				t.Errorf("%s: %s", path, problem)
			}
			if !opens(path, string(text)) {
				t.Errorf("%s: expected a command or an example in the first %d lines", path, opening)
			}
			if !guides(path) && filepath.Base(path) != "DESIGN.md" {
				return
			}
			most := language.MaxPageLines
			switch path {
			case "README.md":
				most = 120 // it is the first page of a stranger
			case "ARCHITECTURE.md":
				most = 250
			}
			if n := strings.Count(string(text), "\n"); n > most {
				t.Errorf("%s has %d lines: at most %d", path, n, most)
			}
		})
	}
	if pages < 50 {
		t.Errorf("only %d pages were found", pages)
	}
	late := strings.Repeat("text\n", opening) + "```sh\nls\n```\n" // negative control
	if opens("docs/windows.md", late) || opens("docs/windows.md", "`make bench`\n"+late) || !opens("docs/trials.md", "`make bench`\n"+late) {
		t.Error("a page that opens with text passes")
	}
}

const opening = 12 // lines

var (
	opened = regexp.MustCompile(`^(?:README|CONTRIBUTING|docs/[^/]+|docs/job-types/.*|examples/.*)\.md$`)

	// figures are pages of tables: a command within a sentence opens them.
	figures = regexp.MustCompile(`^docs/(?:benchmarks.*|trials.*|job-types)\.md$`)
	command = regexp.MustCompile("`(?:turnus|make|go) [^`]+`")
)

// opens reports whether a block of code is among the first lines of a page that shows how to do
// something.
func opens(path, text string) bool {
	if !opened.MatchString(path) || path == "docs/CHANGELOG.md" {
		return true
	}
	lines := strings.Split(text, "\n")
	return slices.ContainsFunc(lines[:min(opening, len(lines))], func(line string) bool {
		return strings.HasPrefix(line, "```") || figures.MatchString(path) && command.MatchString(line)
	})
}

var (
	templateAction = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	htmlTag        = regexp.MustCompile(`(?s)<[^>]*>`)

	// label is a problem that headings have, and sentences of which each branch is counted.
	label = regexp.MustCompile(`write a noun|words in`)
)

// webPageProblems returns what is wrong with the words of a template. Each tag ends a sentence.
func webPageProblems(text string) []string {
	text = htmlTag.ReplaceAllString(templateAction.ReplaceAllString(text, "VALUE"), ".\n")
	var found []string
	for line := range strings.Lines(text) {
		for _, problem := range language.Text(strings.TrimSpace(line)) {
			if !label.MatchString(problem) {
				found = append(found, problem)
			}
		}
	}
	return found
}

func TestLanguageOfTheWebPages(t *testing.T) {
	paths := tracked(t, ".html")
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(root(t), path))
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range webPageProblems(string(text)) {
			t.Errorf("%s: %s", path, problem)
		}
	}
	if len(paths) < 20 {
		t.Errorf("only %d templates were found", len(paths))
	}
	wrong := `<p class="stale">{{.Count}} runs are planned anew</p><p title="anew">The queue {{if .Away}}says{{end}} nothing</p><p>It says</p>` // negative control
	if found := webPageProblems(wrong); len(found) != 2 {
		t.Errorf("negative control: %q", found)
	}
}

// The words that people type into a search box lead from docs/README.md to a page that has
// them.
func TestSearchWordsLeadToAPage(t *testing.T) {
	docs := filepath.Join(root(t), "docs")
	index, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for word, page := range map[string]string{
		"dry run": "playbooks-steps.md", "idempotent": "playbooks-steps.md",
		"canary": "playbooks-rollout.md", "blast radius": "playbooks-rollout.md",
		"maintenance window": "windows.md", "dead letter": "notifications.md",
	} {
		if !regexp.MustCompile(`(?m)^.*` + word + `.*\]\(` + page + `\).*$`).Match(index) {
			t.Errorf("docs/README.md has no line with %q that links to %s", word, page)
		}
		text, err := os.ReadFile(filepath.Join(docs, page))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ToLower(string(text)), word) {
			t.Errorf("docs/%s has no %q, which docs/README.md promises", page, word)
		}
	}
}

// One package: go test ./core -run 'TestLanguageOfTheMessages/core/queue$'.
func TestLanguageOfTheMessages(t *testing.T) {
	eachPackage(t, func(path string, src []byte) ([]string, error) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata/") {
			return nil, nil // TestLanguageOfTheFailures has the messages of tests
		}
		return language.Messages(path, src)
	})
}

// One package: go test ./core -run 'TestLanguageOfTheComments/core/queue$'.
func TestLanguageOfTheComments(t *testing.T) { eachPackage(t, language.Comments) }

// One package: go test ./core -run 'TestLanguageOfTheFailures/core/queue$'.
func TestLanguageOfTheFailures(t *testing.T) {
	eachPackage(t, func(path string, src []byte) ([]string, error) {
		if !strings.HasSuffix(path, "_test.go") {
			return nil, nil
		}
		return language.Failures(path, src)
	})
}

// shown are texts behind code that people read: of a target of the Makefile, and descriptions.
var shown = regexp.MustCompile(`(?m)^(?:[a-z0-9-]+:.*## |description: )(.*)$`)

// Comments of YAML, scripts, the package and the Makefile are as those of Go, as are the texts that
// the last two show. Those of Lua and SQL have the columns only. The messages of testdata have the
// places of its lines.
func TestLanguageOfOtherComments(t *testing.T) {
	files := 0
	for ending, mark := range map[string]string{
		".lua": "--", ".sql": "--", ".yaml": "#", ".yml": "#", ".env": "#", ".service": "#", "Makefile": "#",
		".package/check": "#", ".package/container-check": "#", ".package/postinst": "#", ".package/prerm": "#", ".package/postrm": "#",
		".sh": "#", ".py": "#", "Containerfile": "#", ".ci/deps": "#", ".ci/flake": "#", ".ci/fuzz": "#", ".ci/readme": "#", ".ci/run": "#",
	} {
		for _, path := range tracked(t, ending) {
			if strings.Contains(path, "testdata/") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root(t), path))
			if os.IsNotExist(err) {
				continue // removed, and not yet committed
			}
			if err != nil {
				t.Fatal(err)
			}
			files++
			problems := language.LineComments(mark, string(text))
			if mark == "#" {
				problems = append(problems, language.LineProse(mark, shown.ReplaceAllString(string(text), "# $1"))...)
			}
			if _, block, is := strings.Cut(string(text), "\ndescription: |\n"); is { // of the package
				block, _, _ = strings.Cut(block, "\ndepends:")
				problems = append(problems, language.Text(strings.Join(strings.Fields(block), " "))...)
			}
			for _, problem := range problems {
				t.Errorf("%s: %s", path, problem)
			}
		}
	}
	if files < 60 {
		t.Errorf("only %d files were found", files)
	}
}

// eachPackage checks all files of a package in a test of its own.
func eachPackage(t *testing.T, check func(path string, src []byte) ([]string, error)) {
	found := map[string][]string{} // by package
	goFiles(t, func(path string, src []byte) {
		problems, err := check(path, src)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(path)
		found[dir] = append(found[dir], nil...)
		for _, p := range problems {
			found[dir] = append(found[dir], path+": "+p)
		}
	})
	if len(found) < 60 {
		t.Errorf("only %d packages were found", len(found))
	}
	for dir, problems := range found {
		t.Run(dir, func(t *testing.T) {
			for _, p := range problems {
				t.Error(p)
			}
		})
	}
}
