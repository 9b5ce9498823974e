package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
)

// eachCommand calls do with every command that people may type.
func eachCommand(c *cobra.Command, do func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	do(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, do)
	}
}

func TestHelpIsShort(t *testing.T) {
	a := newApp(strings.NewReader(""), io.Discard, io.Discard)
	eachCommand(a.root(), func(c *cobra.Command) {
		var out strings.Builder
		c.SetOut(&out)
		help.Print(c, false)
		most := 50
		if !c.HasParent() {
			most = 40
			if n := len(regexp.MustCompile(`(?m)^  [a-z]+ `).FindAllString(out.String(), -1)); n < 20 || n > 25 {
				t.Errorf("help lists %d commands, expected 20 to 25", n)
			}
		}
		if n := strings.Count(out.String(), "\n"); n < 5 || n > most {
			t.Errorf("%s --help has %d lines, expected at most %d", c.CommandPath(), n, most)
		}
	})
}

func TestHelpAllShowsEveryFlag(t *testing.T) {
	for _, command := range []string{"run", "up", "runs ls"} {
		short, _ := turnus(t, console.ExitOK, append(strings.Fields(command), "--help")...)
		all, _ := turnus(t, console.ExitOK, append(strings.Fields(command), "--help-all")...)
		c, _, err := testRoot().Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if _, everyday := help.GroupOf(f); !strings.Contains(all, "--"+f.Name+" ") || everyday != strings.Contains(short, "      --"+f.Name+" ") && f.Shorthand == "" {
				t.Errorf("turnus %s: --%s is everyday: %v; help has it: %v, with --help-all: %v", command, f.Name, everyday, strings.Contains(short, "--"+f.Name), strings.Contains(all, "--"+f.Name))
			}
		})
	}
}

// A name in the table of groups that no command has was renamed.
func TestGroupedFlagsExist(t *testing.T) {
	var known []string
	eachCommand(testRoot(), func(c *cobra.Command) { c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) }) })
	for _, g := range help.FlagGroups {
		for _, name := range slices.Concat(g.Everyday, g.Seldom) {
			if !slices.ContainsFunc(known, func(flag string) bool {
				return flag == name || strings.HasSuffix(name, "-") && strings.HasPrefix(flag, name)
			}) {
				t.Errorf("group %s: no command has --%s", g.Title, name)
			}
		}
	}
}

// invocations returns the arguments of each turnus command in a shell script.
func invocations(script string) (all [][]string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	config := &expand.Config{Env: expand.ListEnviron("RUN=x", "run=x"), CmdSubst: func(w io.Writer, _ *syntax.CmdSubst) error { _, err := io.WriteString(w, "x"); return err }}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || call.Args[0].Lit() != "turnus" {
			return true
		}
		var args []string
		args, err = expand.Fields(config, call.Args[1:]...)
		all = append(all, args)
		return err == nil
	})
	return all, err
}

// wrongUsage returns why a command line does not parse: no such command, flag, or argument.
func wrongUsage(args []string) error {
	if now, old, _ := help.Present(args); old != "" {
		return fmt.Errorf("turnus %s is a former name of turnus %s", old, strings.Join(now, " "))
	}
	c, rest, err := testRoot().Find(args)
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	if !c.Runnable() {
		return fmt.Errorf("%s is no command that runs", c.CommandPath())
	}
	return c.ValidateArgs(c.Flags().Args())
}

func TestExamplesOfTheHelpParse(t *testing.T) {
	t.Chdir(t.TempDir()) // an argument that is a glob stays one
	found := 0
	eachCommand(testRoot(), func(c *cobra.Command) {
		if !c.HasParent() {
			return
		}
		if !c.HasExample() {
			t.Errorf("%s has no example", c.CommandPath())
			return
		}
		all, err := invocations(c.Example)
		if err != nil {
			t.Errorf("an example of %s: %v", c.CommandPath(), err)
		}
		for _, args := range all {
			found++
			if err := wrongUsage(args); err != nil {
				t.Errorf("an example of %s: turnus %s: %v", c.CommandPath(), strings.Join(args, " "), err)
			}
		}
	})
	if found < 150 {
		t.Errorf("%d examples were found, expected at least 150", found)
	}
	for _, wrong := range []string{"cancel r1", "runs cancel", "run x.yaml --limt web", "runs nosuch r1"} { // negative control
		if wrongUsage(strings.Fields(wrong)) == nil {
			t.Errorf("turnus %s is taken", wrong)
		}
	}
}

// Lists are those that are named ls, except two whose first column names no thing of the list.
func TestListsArePrintedAsNames(t *testing.T) {
	var found []string
	eachCommand(testRoot(), func(c *cobra.Command) {
		if c.Name() == "ls" {
			found = append(found, strings.TrimPrefix(c.CommandPath(), "turnus "))
		}
	})
	for _, command := range found {
		if !slices.Contains(append([]string{"hosts handlers ls", "secrets ls"}, lists...), command) {
			t.Errorf("turnus %s is in no list of lists", command)
		}
	}
	for _, command := range lists {
		if _, rest, err := testRoot().Find(strings.Fields(command)); err != nil || len(rest) > 0 {
			t.Errorf("there is no command turnus %s", command)
		}
	}
	hosts := filepath.Join(t.TempDir(), "hosts.ini")
	if err := os.WriteFile(hosts, []byte("[web]\nweb1\nweb2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{"name": "web1\nweb2\n", "yaml": "---\nitems:\n  - name: web1\n", "json": "{\n  \"items\": [\n"} {
		if out, _ := turnus(t, console.ExitOK, "hosts", "ls", "-i", hosts, "-o", format); !strings.HasPrefix(out, want) {
			t.Errorf("-o %s prints\n%s", format, out)
		}
	}
	if _, said := turnus(t, console.ExitInvalid, "version", "-o", "name"); !strings.Contains(said, "-o name: expected text, json or yaml") {
		t.Errorf("stderr is %s", said)
	}
}
