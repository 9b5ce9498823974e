package help

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/core"
)

// Reference returns the Markdown pages of docs/commands by file name: a page for each command at
// the top and for each command below admin, and README.md, which lists them all.
func Reference(root *cobra.Command) map[string]string {
	root.InitDefaultHelpFlag()
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Reference of the commands\n\nFind a command, then open its page:\n\n```sh\nturnus --help\nturnus runs ls --help\n```\n\n" +
		"Exit codes, output formats and environment variables are in [commands.md](../commands.md). The JSON\n" +
		"documents of `-o json` are in [output.md](../output.md), the settings of a service in\n[settings.md](settings.md). `make generate` makes these pages from the help of the commands.\n\n" +
		"| command | purpose |\n| --- | --- |\n")
	for _, c := range pageCommands(root) {
		file := strings.ReplaceAll(pathOf(c), " ", "-") + ".md"
		pages[file] = referencePage(root, c)
		for _, sub := range tree(c) {
			fmt.Fprintf(&index, "| [`turnus %s`](%s#%s) | %s |\n", pathOf(sub), file, anchorOf(sub), cell(root, sub.Short))
		}
	}
	pages["README.md"] = index.String()
	return pages
}

// WriteReference replaces the Markdown files of a folder by pages, by file name.
func WriteReference(pages map[string]string, folder string) error {
	former, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return err
	}
	for _, file := range former {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil { //nolint:gosec // documentation is for all users
			return err
		}
	}
	return nil
}

// pageCommands are the commands that have a page of their own.
func pageCommands(root *cobra.Command) []*cobra.Command {
	var list []*cobra.Command
	for _, c := range root.Commands() {
		switch {
		case !documented(c) || c.Name() == "completion": // completion has its usage in commands.md
		case c.Name() == "admin":
			list = append(list, slices.DeleteFunc(slices.Clone(c.Commands()), func(c *cobra.Command) bool { return !documented(c) })...)
		default:
			list = append(list, c)
		}
	}
	return list
}

func documented(c *cobra.Command) bool { return !c.Hidden && c.Name() != "help" }

// tree is a command and all commands below it, in the order of the help.
func tree(c *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if documented(sub) {
			list = append(list, tree(sub)...)
		}
	}
	return list
}

func pathOf(c *cobra.Command) string { return strings.TrimPrefix(c.CommandPath(), "turnus ") }

func anchorOf(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// referencePage is the page of a command and of those below it. Flags that three or more of them
// have alike stand once, at its end.
func referencePage(root, c *cobra.Command) string {
	commands := tree(c)
	count := map[string]int{}
	for _, sub := range commands {
		for _, f := range flagsOf(root, sub) {
			count[flagRow(root, f)]++
		}
	}
	var b strings.Builder
	var shared []*pflag.Flag
	for i, sub := range commands {
		heading := "##"
		if i == 0 {
			heading = "#"
		}
		fmt.Fprintf(&b, "%s `%s`\n\n%s", heading, sub.CommandPath(), about(root, sub))
		var own []*pflag.Flag
		var also []string
		for _, f := range flagsOf(root, sub) {
			if count[flagRow(root, f)] < 3 {
				own = append(own, f)
				continue
			}
			also = append(also, "`--"+f.Name+"`")
			if !slices.ContainsFunc(shared, func(s *pflag.Flag) bool { return flagRow(root, s) == flagRow(root, f) }) {
				shared = append(shared, f)
			}
		}
		b.WriteString(flagTables(root, own))
		if len(also) > 0 {
			b.WriteString(wrapped("[Shared flags](#shared-flags): "+strings.Join(also, ", ")+".") + "\n\n")
		}
	}
	if len(shared) > 0 {
		slices.SortFunc(shared, func(a, b *pflag.Flag) int { return cmp.Compare(a.Name, b.Name) })
		b.WriteString("## Shared flags\n\n" + flagTable(root, shared))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// about is the text of a command: what it is for, its examples, its usage and its long help.
func about(root, c *cobra.Command) string {
	text := wrapped(sentence(prose(root, c.Short))) + "\n\n"
	if c.Example != "" {
		lines := strings.Split(strings.TrimRight(c.Example, "\n"), "\n")
		for i := range lines {
			lines[i] = strings.TrimPrefix(lines[i], "  ")
		}
		text += "```sh\n" + strings.Join(lines, "\n") + "\n```\n\n"
	}
	if c.Runnable() && !onlyGroups(c) {
		text += wrapped("Usage: `"+strings.TrimSuffix(c.UseLine(), " [flags]")+"`") + "\n\n"
	}
	return text + longText(root, strings.TrimPrefix(c.Long, c.Short+"."))
}

func sentence(s string) string {
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// longText is the long help as Markdown: paragraphs, and what is indented there as code.
func longText(root *cobra.Command, long string) string {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(strings.Trim(long, " \n"), "\n\n") {
		var plain, code []string
		for line := range strings.SplitSeq(paragraph, "\n") {
			if cut, ok := strings.CutPrefix(line, "  "); ok {
				code = append(code, cut)
			} else {
				plain = append(plain, line)
			}
		}
		if strings.TrimSpace(strings.Join(plain, "")) != "" {
			b.WriteString(wrapped(prose(root, strings.Join(plain, " "))) + "\n\n")
		}
		if len(code) > 0 {
			b.WriteString("```\n" + strings.Join(code, "\n") + "\n```\n\n")
		}
	}
	return b.String()
}

// flagsOf are a command's flags except those of every command.
func flagsOf(root, c *cobra.Command) []*pflag.Flag {
	var list []*pflag.Flag
	if onlyGroups(c) {
		return nil
	}
	take := func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden && root.PersistentFlags().Lookup(f.Name) == nil {
			list = append(list, f)
		}
	}
	c.LocalFlags().VisitAll(take)
	c.InheritedFlags().VisitAll(take)
	slices.SortFunc(list, func(a, b *pflag.Flag) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// manyFlags is the number of flags from which on a command has a table for each group of flags.
const manyFlags = 16

func flagTables(root *cobra.Command, flags []*pflag.Flag) string {
	if len(flags) < manyFlags {
		return flagTable(root, flags)
	}
	var b strings.Builder
	for _, g := range FlagGroups {
		of := slices.DeleteFunc(slices.Clone(flags), func(f *pflag.Flag) bool {
			title, _ := GroupOf(f)
			return title != g.Title
		})
		if len(of) > 0 {
			b.WriteString("**" + g.Title + ":**\n\n" + flagTable(root, of))
		}
	}
	return b.String()
}

func flagTable(root *cobra.Command, flags []*pflag.Flag) string {
	if len(flags) == 0 {
		return ""
	}
	rows := core.Map(flags, func(f *pflag.Flag) string { return flagRow(root, f) })
	return "| flag | default | meaning |\n| --- | --- | --- |\n" + strings.Join(rows, "") + "\n"
}

func flagRow(root *cobra.Command, f *pflag.Flag) string {
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	return fmt.Sprintf("| %s | %s |\n", name, defaultAndMeaning(root, f))
}

// defaultAndMeaning are two cells of a row about a flag.
func defaultAndMeaning(root *cobra.Command, f *pflag.Flag) string {
	standard := ""
	if !slices.Contains([]string{"", "false", "0", "0s", "[]"}, f.DefValue) {
		standard = "`" + f.DefValue + "`"
	}
	_, usage := pflag.UnquoteUsage(f)
	return standard + " | " + cell(root, usage)
}

func cell(root *cobra.Command, text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(prose(root, text), "|", `\|`), "\n", " ")
}

var (
	inText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`"[^"]*"|\bturnus(?: [a-z]+)+|(?:^|[\s(;,])--?[a-z][a-z-]*\b|\bTURNUS_[A-Z_]+\b|\bdocs/[a-z-]+\.md(?:#[a-z-]+)?`)
	})
	markdown = strings.NewReplacer("<", `\<`, "*", `\*`, "[", `\[`)
)

// prose is help text as Markdown: commands, flags and variables are code, pages are links.
func prose(root *cobra.Command, text string) string {
	var b strings.Builder
	for {
		at := inText().FindStringIndex(text)
		if at == nil {
			return b.String() + markdown.Replace(text)
		}
		b.WriteString(markdown.Replace(text[:at[0]]))
		found := text[at[0]:at[1]]
		switch {
		case found[0] == '"':
			b.WriteString(markdown.Replace(found))
		case strings.HasPrefix(found, "docs/"):
			page := strings.TrimPrefix(found, "docs/")
			name, _, _ := strings.Cut(page, "#")
			b.WriteString("[" + name + "](../" + page + ")")
		case strings.HasPrefix(found, "turnus "):
			found = named(root, found)
			b.WriteString("`" + found + "`")
		default:
			start := strings.IndexAny(found, "-T")
			b.WriteString(found[:start] + "`" + found[start:] + "`")
		}
		text = text[at[0]+len(found):]
	}
}

// named is the beginning of the text that is a command: "turnus runs ls" of "turnus runs ls lists".
func named(root *cobra.Command, text string) string {
	words := strings.Fields(text)
	c, n := root, 1
	for n < len(words) {
		next := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == words[n] })
		if next < 0 {
			break
		}
		c = c.Commands()[next]
		n++
	}
	return strings.Join(words[:n], " ")
}

// wrapped breaks a paragraph into lines of at most 100 columns; code is not broken.
func wrapped(text string) string {
	var b strings.Builder
	width := 0
	for _, word := range unbroken(text) {
		switch n := len([]rune(word)); {
		case width == 0:
			width = n
		case width+1+n > 100:
			b.WriteString("\n")
			width = n
		default:
			b.WriteString(" ")
			width += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// unbroken are the words of a text; what stands between backticks belongs to one word.
func unbroken(text string) []string {
	var words []string
	open := false
	for word := range strings.FieldsSeq(text) {
		if open {
			words[len(words)-1] += " " + word
		} else {
			words = append(words, word)
		}
		if strings.Count(word, "`")%2 == 1 {
			open = !open
		}
	}
	return words
}
