package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/plugins/scaffold"
)

// released is what a build of a release says of itself.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

func (a *app) pluginsInitCmd() *cobra.Command {
	var o scaffold.Options
	c := &cobra.Command{
		Use: "init NAME", Short: "Begin a plugin: job type, test, example playbook, CI and manual, which pass as they are", Args: cobra.ExactArgs(1),
		Example: "  turnus plugins init motd --lang go\n  turnus plugins init motd --lang python --dir work/motd\n  turnus plugins init motd --lang exec",
		RunE: func(_ *cobra.Command, args []string) error {
			o.Name = args[0]
			o.Dir = cmp.Or(o.Dir, o.Name)
			if released.MatchString(version) {
				o.Require = version
			}
			if o.Replace != "" {
				var err error
				if o.Replace, err = filepath.Abs(o.Replace); err != nil {
					return err
				}
			}
			files, err := scaffold.New(o)
			if errors.Is(err, scaffold.ErrOptions) {
				return &exit{exitInvalid, err}
			}
			if err != nil {
				return err
			}
			if a.output == "json" {
				return printJSON(a.out, map[string]any{"name": o.Name, "lang": o.Lang, "dir": o.Dir, "files": files})
			}
			for _, f := range files {
				fmt.Fprintln(a.out, filepath.Join(o.Dir, f))
			}
			a.message("README.md says how it is tested and installed")
			if o.Lang == "go" && o.Require == "" && o.Replace == "" {
				a.message("this turnus is no release: the plugin builds against a checkout of it, which init --replace FOLDER names, or in " + o.Dir + ": go mod edit -replace github.com/turnus/turnus=FOLDER")
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.Lang, "lang", "go", strings.Join(scaffold.Languages(), ", ")+": exec is for scripts in any language")
	c.Flags().StringVar(&o.Dir, "dir", "", "folder to write to; NAME when not given")
	c.Flags().StringVar(&o.Module, "module", "", "path of the Go module; example.org/NAME when not given")
	c.Flags().StringVar(&o.Replace, "replace", os.Getenv("TURNUS_SOURCE"), "build against this checkout of Turnus, instead of a release (TURNUS_SOURCE)")
	return c
}
