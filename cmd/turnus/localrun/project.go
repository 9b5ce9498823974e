package localrun

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/definitions"
)

// noteProject marks the flag --inventory of commands for which a project's turnus.yaml has
// defaults. A worker also has such a flag, and reads no project.
const noteProject = "turnus_project"

// ProjectToo marks a command that reads the project also where its flags name a server.
const ProjectToo = "turnus_project_too"

// UseProject sets the flags that the command line and the environment leave out by the project of
// the current folder: the nearest turnus.yaml upward. Other commands stay as they are.
func UseProject(c *cobra.Command) error {
	flag := c.Flags().Lookup("inventory")
	if flag == nil || flag.Annotations[noteProject] == nil {
		return nil
	}
	for _, name := range []string{"server", "context"} { // the server has an inventory of its own
		if f := c.Flags().Lookup(name); f != nil && f.Changed && c.Annotations[ProjectToo] == "" {
			return nil
		}
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	p, err := definitions.FindProject(here)
	if err != nil {
		return &console.Exit{Code: console.ExitInvalid, Err: err}
	}
	if p == nil {
		return nil
	}
	values := map[string][]string{"windows": p.Windows, "known-hosts": p.KnownHosts}
	if InventoryFromEnv() == nil {
		values["inventory"] = p.Inventory
	}
	if p.Concurrency > 0 {
		values["forks"] = []string{strconv.Itoa(p.Concurrency)}
	}
	for name, list := range values {
		flag := c.Flags().Lookup(name)
		if flag == nil || flag.Changed {
			continue
		}
		for _, value := range list {
			if err := c.Flags().Set(name, value); err != nil {
				return console.Invalid("%s: %s: %w", p.Root, name, err)
			}
		}
	}
	return nil
}
