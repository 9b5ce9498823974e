package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/plugins/scaffold"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// released matches the version of a release.
var released = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`) })

func (a *app) pluginsInitCmd() *cobra.Command {
	var o scaffold.Options
	c := &cobra.Command{
		Use: "init NAME", Short: "Begin a plugin: job type, test, example playbook, CI and manual, which pass as they are", Args: cobra.ExactArgs(1),
		Example: "  turnus plugins init motd --lang go\n  turnus plugins init motd --lang python --dir work/motd\n  turnus plugins init motd --lang exec",
		RunE: func(_ *cobra.Command, args []string) error {
			o.Name = args[0]
			o.Dir = cmp.Or(o.Dir, o.Name)
			if released().MatchString(settings.Version()) {
				o.Require = settings.Version()
			}
			if o.Lang == "go" && (o.SDK != "" || o.Require == "") {
				var err error
				if o.SDK, err = scaffold.SDKFolder(o.SDK); err != nil {
					return &console.Exit{Code: console.ExitInvalid, Err: err}
				}
			}
			files, err := scaffold.New(o)
			if errors.Is(err, scaffold.ErrOptions) {
				return &console.Exit{Code: console.ExitInvalid, Err: err}
			}
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, map[string]any{"name": o.Name, "lang": o.Lang, "dir": o.Dir, "files": files})
			}
			for _, f := range files {
				fmt.Fprintln(a.Out, filepath.Join(o.Dir, f))
			}
			a.Message("next: cat " + shell.Quote(filepath.Join(o.Dir, "README.md")) + "   # the commands that test and install it")
			if o.Lang == "go" && o.SDK != "" {
				a.Message("the plugin builds against the SDK in " + o.SDK + "; go.mod shows how to build against a release")
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.Lang, "lang", "go", strings.Join(scaffold.Languages(), ", ")+": exec is for scripts in any language")
	c.Flags().StringVar(&o.Dir, "dir", "", "folder to write to; NAME when not given")
	c.Flags().StringVar(&o.Module, "module", "", "path of the Go module; example.org/NAME when not given")
	c.Flags().StringVar(&o.SDK, "sdk", os.Getenv("TURNUS_SDK"), "build against the SDK in this folder instead of the release's: a checkout of Turnus, or its plugins/sdk (TURNUS_SDK)")
	return c
}
