package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/plugins/host"
)

type pluginsDocsFlags struct {
	plugins node.PluginFlags
	program string
	check   string
	dir     string
}

func (a *app) pluginsDocsCmd() *cobra.Command {
	var f pluginsDocsFlags
	c := &cobra.Command{
		Use: "docs [TYPE]", Short: "Show what a job type does, its params and examples", Args: cobra.MaximumNArgs(1),
		Example: "  turnus plugins docs file\n  turnus plugins docs --dir job-types > job-types.md\n  turnus plugins docs --program ./motd --check docs.md",
		RunE: func(c *cobra.Command, args []string) error {
			types, err := f.types(c.Context(), args)
			if err != nil {
				return err
			}
			if a.Output == "json" && f.check+f.dir != "" {
				return console.Invalid("--check and --dir are for pages, and -o json and -o yaml print documents\nhint: leave out -o, or leave out --check and --dir")
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(types))
			}
			if f.dir != "" {
				return help.WriteJobTypePages(a.Out, f.dir, types)
			}
			var text bytes.Buffer
			for _, t := range types {
				if err := help.WriteJobType(&text, t); err != nil {
					return err
				}
			}
			if f.check != "" {
				return a.checkDocs(f.check, text.String())
			}
			_, err = a.Out.Write(text.Bytes())
			return err
		},
	}
	f.plugins.Add(c)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		types, err := f.types(c.Context(), nil)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return core.Map(types, func(t host.Type) string { return t.Name }), cobra.ShellCompDirectiveNoFileComp
	}
	c.Flags().StringVar(&f.program, "program", "", "only the job types of this program, plugin folder or built-in plugin")
	c.Flags().StringVar(&f.check, "check", "", "print nothing, and exit with 6 when this file differs")
	c.Flags().StringVar(&f.dir, "dir", "", "write a page for each job type into this folder, and print an index of them")
	c.MarkFlagsMutuallyExclusive("check", "dir")
	return c
}

// types are those that are asked for: one by its name, those of one program, or all.
func (f *pluginsDocsFlags) types(ctx context.Context, args []string) ([]host.Type, error) {
	var all []host.Type
	if f.program != "" {
		argv, _, err := node.ProgramOf(f.program)
		if err != nil {
			return nil, err
		}
		box, err := node.AskSandbox()
		if err != nil {
			return nil, err
		}
		m, err := host.Describe(ctx, argv, node.FolderOf(f.program), box)
		if err != nil {
			return nil, err
		}
		all = m.Types
	} else {
		sup, err := f.plugins.Supervisor(nil)
		if err != nil {
			return nil, err
		}
		for _, p := range sup.Plugins() {
			all = append(all, p.Manifest.Types...)
		}
	}
	if len(args) == 0 {
		return all, nil
	}
	var known []string
	for _, t := range all {
		if t.Name == args[0] {
			return []host.Type{t}, nil
		}
		known = append(known, t.Name)
	}
	hint := cmp.Or(yamlread.DidYouMean(args[0], known), "turnus plugins ls lists them; --plugins DIR adds yours")
	return nil, console.Invalid("job type %q is not known\nhint: %s", args[0], hint)
}

// checkDocs compares a page with the docs of the job types. Its first heading, of level 1, is its
// own.
func (a *app) checkDocs(path, want string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return console.Invalid("%v", err)
	}
	have := string(raw)
	if strings.HasPrefix(have, "# ") {
		_, have, _ = strings.Cut(have, "\n")
		have = strings.TrimLeft(have, "\n")
	}
	if have == want {
		a.Message(path + " is up to date")
		return nil
	}
	line, was, is := help.FirstDifference(have, want)
	return &console.Exit{Code: console.ExitChanges, Err: fmt.Errorf("%s differs from what the job types generate, from line %d of their part on\n  there:   %s\n  expected: %s\nhint: turnus plugins docs writes it again", path, line, was, is)}
}
