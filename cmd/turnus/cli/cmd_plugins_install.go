package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

// onePluginFolder is the plugin folder to write to.
func onePluginFolder(f *node.PluginFlags) (string, error) {
	if len(f.Dirs) != 1 {
		return "", console.Invalid("%d plugin folders are given: expected one\nhint: --plugins DIR, or TURNUS_PLUGINS", len(f.Dirs))
	}
	return f.Dirs[0], nil
}

func (a *app) pluginsInstallCmd() *cobra.Command {
	var plugins node.PluginFlags
	var in host.Installing
	c := &cobra.Command{
		Use: "install PROGRAM|FOLDER", Short: "Copy a plugin into the plugin folder, as DIR/NAME/VERSION, with its manifest", Args: cobra.ExactArgs(1),
		Example: "  turnus plugins install ./motd --plugins plugins\n  turnus plugins install . --plugins plugins --use",
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			in.Source = args[0]
			if in.Dir, err = onePluginFolder(&plugins); err != nil {
				return err
			}
			if in.Adapter, err = node.ScriptAdapter(); err != nil {
				return err
			}
			if in.Others, err = node.BuiltinPlugins(); err != nil {
				return err
			}
			if in.Sandbox, err = node.AskSandbox(); err != nil {
				return err
			}
			got, err := host.Install(c.Context(), in)
			if errors.Is(err, core.ErrConflict) {
				return &console.Exit{Code: console.ExitInvalid, Err: err}
			}
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, got)
			}
			a.reportInstalled(got)
			return a.reportUnlocked(in.Dir, got)
		},
	}
	plugins.Add(c)
	c.Flags().BoolVar(&in.Force, "force", false, "replace what is installed under the same version")
	c.Flags().BoolVar(&in.Use, "use", false, "make it the version that workers take")
	return c
}

func (a *app) reportInstalled(got host.Installed) {
	verb := "installed"
	if got.Already {
		verb = "is installed already:"
	}
	fmt.Fprintf(a.Out, "%s %s %s %s\n  types: %s\n  tree:  %s\n", got.Name, got.Version, verb, got.Path, strings.Join(got.Types, ", "), got.Tree)
	if got.InUse != got.Version {
		fmt.Fprintf(a.Out, "  in use is still %s; --use changes that\n", got.InUse)
	}
}

// reportUnlocked reports that a lockfile does not name what was installed, which workers would
// refuse.
func (a *app) reportUnlocked(dir string, got host.Installed) error {
	lock, ok, err := host.ReadLock(dir)
	if err != nil || !ok || got.InUse != got.Version {
		return err
	}
	now := host.Lock{Plugins: []host.Locked{{Name: got.Name, Version: got.Version, Tree: got.Tree}}}
	if lock.Check(dir, now) != nil {
		a.Message("the lockfile does not name it yet: workers refuse it until turnus plugins lock has been run")
	}
	return nil
}

func (a *app) pluginsLockCmd() *cobra.Command {
	var plugins node.PluginFlags
	var check bool
	c := &cobra.Command{
		Use: "lock", Short: "Write the lockfile of a plugin folder: what workers take, byte for byte", Args: cobra.NoArgs,
		Example: "  turnus plugins lock --plugins plugins\n  turnus plugins lock --plugins plugins --check",
		RunE: func(*cobra.Command, []string) error {
			dir, err := onePluginFolder(&plugins)
			if err != nil {
				return err
			}
			adapter, err := node.ScriptAdapter()
			if err != nil {
				return err
			}
			box, err := node.AskSandbox()
			if err != nil {
				return err
			}
			if check {
				n, err := host.CheckLock(dir, adapter, box)
				if err == nil {
					a.Message(core.Plural(n, "plugin") + " as locked")
				}
				return err
			}
			now, err := host.NewLock(dir, adapter, box)
			if err != nil {
				return err
			}
			if err := now.Write(dir); err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, now)
			}
			for _, p := range now.Plugins {
				fmt.Fprintf(a.Out, "%s %s %s\n", p.Name, p.Version, p.Tree)
			}
			a.Message("written: " + filepath.Join(dir, host.LockFile))
			return nil
		},
	}
	plugins.Add(c)
	c.Flags().BoolVar(&check, "check", false, "write nothing, and exit with 5 when the folder differs from its lockfile")
	return c
}
