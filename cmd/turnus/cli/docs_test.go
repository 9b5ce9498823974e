package cli

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/language"
	"github.com/turnus/turnus/playbooks"
)

const repo = "../../.."

// page reads a page of the repository.
func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repo, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are README, ARCHITECTURE, the guides and the decisions of packages, by their path in the
// repository.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "ARCHITECTURE.md"}
	guides := commandPages(t)
	for _, folder := range []string{"docs", "docs/job-types"} {
		more, err := filepath.Glob(filepath.Join(repo, folder, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		guides = append(guides, more...)
	}
	for _, g := range guides {
		name, err := filepath.Rel(repo, g)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, filepath.ToSlash(name))
	}
	list = append(list, "examples/README.md")
	for _, name := range exampleFolders(t) {
		list = append(list, "examples/"+name+"/README.md")
	}
	for _, m := range regexp.MustCompile(`\((\S+/DECISIONS\.md)\)`).FindAllStringSubmatch(page(t, "ARCHITECTURE.md"), -1) {
		list = append(list, m[1])
	}
	if len(list) < 40 {
		t.Fatalf("only %d pages are found: %v", len(list), list)
	}
	return list
}

// commandPages are the files of docs/commands.
func commandPages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repo, "docs", "commands", "*.md"))
	if err != nil || len(files) < 30 {
		t.Fatalf("pages about commands: %v, %v", files, err)
	}
	return files
}

// fenced returns the fenced blocks of a language.
func fenced(text, language string) []string {
	var blocks []string
	for _, rest := range strings.Split(text, "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(rest, "\n```")
		blocks = append(blocks, block+"\n")
	}
	return blocks
}

// isPlaybook reports whether a block is a whole playbook: playbook: is its first key.
func isPlaybook(block string) bool {
	for line := range strings.Lines(block) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return strings.HasPrefix(line, "playbook:")
		}
	}
	return false
}

// beside reads the files that a playbook of a page includes: blocks of the same page that begin
// with a comment of their path.
func beside(blocks []string) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		for _, block := range blocks {
			if strings.HasPrefix(block, "# "+path+"\n") {
				return []byte(block), nil
			}
		}
		return nil, fs.ErrNotExist
	}
}

// realTypes are validation's options with the built-in job types.
func realTypes(t *testing.T) playbooks.Options {
	t.Helper()
	var none node.PluginFlags
	sup, err := none.Supervisor(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Stop(t.Context()) })
	return node.PlaybookOptions(sup, nil)
}

func TestPlaybooksOfTheDocsLoad(t *testing.T) {
	opts := realTypes(t)
	found := 0
	for _, path := range pages(t) {
		blocks := fenced(page(t, path), "yaml")
		opts.Steps = beside(blocks)
		for i, block := range blocks {
			if !isPlaybook(block) || path == pluginGuide { // its job type is its own
				continue
			}
			found++
			if _, err := playbooks.Parse(fmt.Sprintf("%s, yaml block %d", path, i+1), []byte(block), opts); err != nil {
				t.Error(err)
			}
		}
	}
	if found < 6 {
		t.Errorf("%d playbooks were found in the docs, expected at least 6", found)
	}
}

// The snippets of the playbook guides that are one step load as the step of a playbook.
func TestStepsOfTheDocsLoad(t *testing.T) {
	opts := realTypes(t)
	found := 0
	for _, path := range pages(t) {
		if path != "docs/playbooks.md" && path != "docs/playbooks-steps.md" && !strings.HasPrefix(path, "docs/job-types/") {
			continue
		}
		for i, block := range fenced(page(t, path), "yaml") {
			if strings.HasPrefix(block, "uses:") { // as plugins docs prints an example
				block = "- " + strings.ReplaceAll(strings.TrimRight(block, "\n"), "\n", "\n  ") + "\n"
			}
			if !strings.HasPrefix(block, "- ") {
				continue
			}
			found++
			playbook := "playbook: snippet\ntargets: true\nvars: {users: [a], version: 1}\nsteps:\n" + block
			if _, err := playbooks.Parse(fmt.Sprintf("%s, yaml block %d", path, i+1), []byte(playbook), opts); err != nil {
				t.Error(err)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d steps were found in the docs, expected at least 20", found)
	}
}

// The negative control: a wrong playbook in a page is noticed.
func TestWrongPlaybookInTheDocsIsNoticed(t *testing.T) {
	text := "text\n```yaml\n# x.yaml\nplaybook: x\ntargets: true\nsteps: [{usse: command}]\n```\nmore\n```yaml\nhosts: {}\n```\n"
	blocks := fenced(text, "yaml")
	if len(blocks) != 2 || !isPlaybook(blocks[0]) || isPlaybook(blocks[1]) {
		t.Fatalf("blocks %q", blocks)
	}
	if _, err := playbooks.Parse("x", []byte(blocks[0]), realTypes(t)); err == nil {
		t.Error("a playbook with a misspelt key loads")
	}
}

// undocumented lists the commands and flags that the text does not name. A command
// has a heading with its path, a flag stands below it or in a table of flags as `--name`.
func undocumented(root *cobra.Command, text string) []string {
	var missing []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), "turnus ")
		if c.HasParent() && !strings.Contains(text, "`turnus "+path+"`") {
			missing = append(missing, "turnus "+path)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			if f.Name != "help" && !strings.Contains(text, "`--"+f.Name+"`") {
				missing = append(missing, fmt.Sprintf("turnus %s --%s", path, f.Name))
			}
			if f.Shorthand != "" && f.Name != "help" && !strings.Contains(text, "`-"+f.Shorthand+"`") {
				missing = append(missing, fmt.Sprintf("turnus %s -%s", path, f.Shorthand))
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return missing
}

func testRoot() *cobra.Command {
	root := newApp(strings.NewReader(""), io.Discard, io.Discard).root()
	root.InitDefaultCompletionCmd()
	return root
}

func TestEveryCommandAndFlagIsDocumented(t *testing.T) {
	text := page(t, "docs/commands.md")
	for _, file := range commandPages(t) {
		text += page(t, "docs/commands/"+filepath.Base(file))
	}
	for _, missing := range undocumented(testRoot(), text) {
		t.Errorf("docs/commands.md and docs/commands do not name %s", missing)
	}
}

// The negative control: without the page everything is missing.
func TestUndocumentedFlagsAreNoticed(t *testing.T) {
	missing := strings.Join(undocumented(testRoot(), "`turnus run`"), "\n")
	for _, want := range []string{"turnus plan", "turnus run --redis", "turnus run -f", "turnus worker --files", "turnus admin bench queue --jobs"} {
		if !strings.Contains(missing+"\n", want+"\n") {
			t.Errorf("%s is not noticed to be missing", want)
		}
	}
	if strings.Contains(missing+"\n", "turnus run\n") {
		t.Error("the check reports turnus run as missing")
	}
}

// A flag that the page names and nobody has was renamed or removed.
func TestDocumentedFlagsExist(t *testing.T) {
	known := map[string]bool{"help": true}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(testRoot())
	operating, err := filepath.Glob(filepath.Join(repo, "docs", "operating*.md"))
	if err != nil || len(operating) < 8 {
		t.Fatalf("pages about operating: %v, %v", operating, err)
	}
	paths := []string{"docs/commands.md", "docs/output.md", "docs/playbooks.md", "docs/playbooks-steps.md", "docs/playbooks-rollout.md"}
	for _, file := range operating {
		paths = append(paths, "docs/"+filepath.Base(file))
	}
	for _, path := range paths {
		for _, m := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(page(t, path), -1) {
			if !known[m[1]] {
				t.Errorf("%s names --%s, which no command has", path, m[1])
			}
		}
	}
}

// A command that a page names and nobody has was renamed, or never made.
func TestNamedCommandsExist(t *testing.T) {
	root := testRoot()
	for _, path := range pages(t) {
		if path == "docs/CHANGELOG.md" || path == "docs/renamed.md" {
			continue // they name former ones
		}
		for _, command := range unknownCommands(root, page(t, path)) {
			t.Errorf("%s names %s, which does not exist", path, command)
		}
	}
	want := []string{"turnus runs why", "turnus definitions"} // negative control
	if got := unknownCommands(root, "`turnus runs why RUN/INDEX`, `turnus runs ls`, `turnus definitions`, `turnus plan site.yaml`"); !slices.Equal(got, want) {
		t.Errorf("unknown are %q, expected %q", got, want)
	}
}

var namedCommand = regexp.MustCompile("`turnus ([a-z-]+)(?: ([a-z]+)\\b)?")

// unknownCommands are those that the text names as code.
func unknownCommands(root *cobra.Command, text string) []string {
	var unknown []string
	for _, m := range namedCommand.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[1] + " " + m[2])
		c, rest, err := root.Find(words)
		if err != nil || c == root || len(rest) > 0 && c.HasSubCommands() && c.Annotations[help.Alone] == "" {
			unknown = append(unknown, "turnus "+strings.Join(words, " "))
		}
	}
	return unknown
}

// docs/job-types.md and the pages below docs/job-types are as the binary describes its job types.
// To write them: make generate.
func TestJobTypesPagesAreUpToDate(t *testing.T) {
	var out, errs bytes.Buffer
	dir := filepath.Join(t.TempDir(), "job-types")
	if code := Main([]string{"plugins", "docs", "--dir", dir}, strings.NewReader(""), &out, &errs); code != console.ExitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if page(t, "docs/job-types.md") != out.String() {
		t.Error("docs/job-types.md differs from turnus plugins docs --dir: make generate writes it")
	}
	if kept, made := typePages(t, filepath.Join(repo, "docs/job-types")), typePages(t, dir); len(made) < 10 || !maps.Equal(kept, made) {
		t.Errorf("docs/job-types has %d pages, expected these %d: make generate writes them", len(kept), len(made))
	}
}

// typePages are the files of a folder by their names.
func typePages(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// broken lists the relative links of a page that lead nowhere.
func broken(dir, text string) []string {
	var list []string
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		if target == "" {
			if !hasAnchor(text, anchor) {
				list = append(list, m[1])
			}
			continue
		}
		found, err := os.ReadFile(filepath.Join(dir, target))
		if err != nil {
			if _, err = os.Stat(filepath.Join(dir, target)); err != nil {
				list = append(list, m[1])
				continue
			}
		}
		if anchor != "" && !hasAnchor(string(found), anchor) {
			list = append(list, m[1])
		}
	}
	return list
}

var notInAnchors = regexp.MustCompile("[^a-z0-9 _-]")

// hasAnchor reports whether a heading of the page has the anchor, as GitHub makes them.
func hasAnchor(text, anchor string) bool {
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			if strings.ReplaceAll(name, " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

func TestLinksOfTheDocsResolve(t *testing.T) {
	links := 0
	for _, path := range pages(t) {
		text := page(t, path)
		links += len(link.FindAllString(text, -1))
		for _, bad := range broken(filepath.Join(repo, filepath.Dir(path)), text) {
			t.Errorf("%s: the link to %s leads nowhere", path, bad)
		}
	}
	if links < 20 {
		t.Errorf("%d links were found, expected at least 20", links)
	}
}

// README's picture is one that GitHub shows, moves without a script, and fetches nothing. To write
// it: make pictures.
func TestThePictureOfReadme(t *testing.T) {
	if !strings.Contains(page(t, "README.md"), "](docs/pictures/run.svg)") {
		t.Error("README does not show docs/pictures/run.svg")
	}
	picture := page(t, "docs/pictures/run.svg")
	for _, problem := range pictureProblems(picture) {
		t.Error("docs/pictures/run.svg " + problem)
	}
	spoiled := strings.Replace(strings.Replace(picture, "@keyframes", "", 1), "<defs>", "<defs><script/><image href=\"https://example.net/x\"/><text>looking at /etc</text><p>", 1)
	if got := pictureProblems(spoiled + strings.Repeat(" ", maxPicture)); len(got) != 6 { // negative control
		t.Errorf("problems of a spoiled picture: %q", got)
	}
}

const maxPicture = 200_000 // bytes

var pictureText = regexp.MustCompile(`>([^<>]+)<`)

// pictureProblems returns what keeps a text from being such a picture.
func pictureProblems(svg string) []string {
	var problems []string
	note := func(bad bool, problem string) {
		if bad {
			problems = append(problems, problem)
		}
	}
	var root struct {
		XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
	}
	err := xml.Unmarshal([]byte(svg), &root)
	note(err != nil, fmt.Sprintf("is no SVG: %v", err))
	note(len(svg) > maxPicture, fmt.Sprintf("has %d bytes, expected at most %d", len(svg), maxPicture))
	note(strings.Contains(svg, "<script"), "has a script")
	note(regexp.MustCompile(`(href|src)="[^#]|url\(|@import`).MatchString(svg), "fetches something")
	note(!strings.Contains(svg, "@keyframes") || !strings.Contains(svg, "prefers-reduced-motion"), "does not move, or always does")
	for _, text := range pictureText.FindAllStringSubmatch(svg, -1) {
		for _, problem := range language.Text(html.UnescapeString(text[1])) {
			note(true, "shows a message of a former version: "+problem)
		}
	}
	return problems
}

// The negative control: links to nowhere are noticed.
func TestBrokenLinksAreNoticed(t *testing.T) {
	text := "# A heading: here\n[a](cli.go) [b](nowhere.md) [c](#a-heading-here) [d](#nowhere) [e](https://example.net/x)"
	if got := broken(".", text); len(got) != 2 || got[0] != "nowhere.md" || got[1] != "#nowhere" {
		t.Errorf("broken links %q", got)
	}
}

const pluginGuide = "docs/writing-a-plugin.md"

// followed is a page as its reader would follow it: files are written where a block's first line
// names them, and the lines of sh blocks run, in order and in one shell.
func followed(text string) string {
	var b strings.Builder
	b.WriteString("set -euo pipefail\n")
	for _, rest := range strings.Split(text, "\n```")[1:] {
		language, block, _ := strings.Cut(rest, "\n")
		head, _, _ := strings.Cut(block, "\n")
		switch language {
		case "sh":
			b.WriteString(block + "\n")
		case "go", "yaml":
			if name := fileOfBlock.FindStringSubmatch(head); name != nil {
				fmt.Fprintf(&b, "cat >%s <<'END_OF_BLOCK'\n%s\nEND_OF_BLOCK\n", name[1], block)
			}
		}
	}
	return b.String()
}

var fileOfBlock = regexp.MustCompile(`^(?://|#) ([a-z0-9_]+\.(?:go|yaml))$`)

// An installed plugin's parameters are known to editors, and their mistakes have a place, as those
// of the built-in types.
func editorsKnow(t *testing.T, work string) {
	t.Helper()
	dir := filepath.Join(work, "plugins")
	text, _ := turnus(t, console.ExitOK, "project", "schema", "--plugins", dir)
	if !json.Valid([]byte(text)) {
		t.Errorf("the schema for editors is no JSON")
	}
	for _, part := range []string{`"uptime.check"`, `"at_least"`, "the host must be up for so long"} {
		if !strings.Contains(text, part) {
			t.Errorf("the schema for editors has no %s", part)
		}
	}
	wrong := filepath.Join(work, "wrong.yaml")
	if err := os.WriteFile(wrong, []byte("playbook: wrong\ntargets: true\nsteps:\n  - uses: uptime.check\n    with:\n      at_leats: 24h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := turnus(t, console.ExitInvalid, "validate", wrong, "--plugins", dir); !strings.Contains(errs, "wrong.yaml:6:7") || !strings.Contains(errs, "at_least") {
		t.Errorf("a misspelt parameter of a plugin: %s", errs)
	}
}

func goEnv(t *testing.T, golang, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), golang, "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Every package is a room of ARCHITECTURE's table, or stands below one for a reason.
func TestEveryRoomIsInTheArchitecture(t *testing.T) {
	golang := testparts.Need(t, "go", "golang")
	cmd := exec.CommandContext(t.Context(), golang, "list", "github.com/turnus/turnus/...")
	cmd.Dir = repo
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, rooms, _ := strings.Cut(page(t, "ARCHITECTURE.md"), "\n## Rooms\n")
	rooms, _, _ = strings.Cut(rooms, "\n## ")
	builtins := node.BuiltinDefs() // one line of the table is for all of them
	count := 0
	for path := range strings.Lines(string(out)) {
		path = strings.TrimPrefix(strings.TrimSpace(path), "github.com/turnus/turnus/")
		_, builtin := builtins[strings.TrimPrefix(path, "plugins/")]
		switch {
		case builtin, path == "cmd/turnus", path == "plugins", path == "plugins/wiregen", strings.Contains(path, "/testdata/"):
			continue // main, a test over all built-ins, the generator of the wire
		}
		count++
		if !strings.Contains(rooms, "`"+path+"`") {
			t.Errorf("ARCHITECTURE.md has no room for %s", path)
		}
	}
	if count < 15 {
		t.Errorf("only %d packages were found", count)
	}
}

// Every command that does something shows how it is typed.
func TestEveryCommandHasAnExample(t *testing.T) {
	var walk func(*cobra.Command)
	seen := 0
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		if !c.HasSubCommands() && !c.Hidden && c.Name() != "help" && (c.Parent() == nil || c.Parent().Name() != "completion") && c.HasParent() {
			seen++
			if c.Example == "" {
				t.Errorf("%s --help has no example", c.CommandPath())
			}
		}
	}
	walk(testRoot())
	if seen < 40 {
		t.Errorf("only %d commands were checked", seen)
	}
}
