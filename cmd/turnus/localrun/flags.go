package localrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/playbooks"
)

// InventoryFlags choose hosts.
type InventoryFlags struct {
	sources []string
	flags   *pflag.FlagSet            // of the command
	uses    map[string]core.SourceUse // generations of sources that Load has read, by the names of their documents
	Limit   string                    // as --limit has it; "" is all
	sel     string
}

// Add gives the command the flags.
func (f *InventoryFlags) Add(c *cobra.Command) {
	f.AddSources(c)
	c.Flags().StringVarP(&f.Limit, "limit", "l", "", "only these hosts: names, groups, globs, !not, &and, @FILE")
	_ = c.RegisterFlagCompletionFunc("limit", f.Complete)
	c.Flags().StringVar(&f.sel, "select", "", "only hosts for which this expression is true, as in targets:")
}

// AddSources gives the command the flag of inventories alone.
func (f *InventoryFlags) AddSources(c *cobra.Command) {
	f.flags = c.Flags()
	c.Flags().StringArrayVarP(&f.sources, "inventory", "i", InventoryFromEnv(), "inventory: Turnus YAML, Ansible INI or YAML, an executable, a folder, sources, or a,b, (repeatable; TURNUS_INVENTORY; default: the project's)")
	_ = c.Flags().SetAnnotation("inventory", noteProject, []string{})
}

// Argument returns the inventory as the argument of another command: -i hosts.ini.
func (f *InventoryFlags) Argument() string { return node.InventoryArgument(f.sources) }

// InventoryFromEnv returns the inventory that the environment names.
func InventoryFromEnv() []string {
	if env := os.Getenv("TURNUS_INVENTORY"); env != "" {
		return []string{env}
	}
	return nil
}

// Pattern sets --limit from an argument that may stand for it.
func (f *InventoryFlags) Pattern(args []string) error {
	if len(args) > 0 && f.Limit != "" {
		return console.Invalid("%s and --limit %s: give one of them", args[0], f.Limit)
	}
	if len(args) > 0 {
		if args[0] == "" {
			return console.Invalid("PATTERN is empty: all is every host\nhint: name hosts, as 'web*', or leave it out")
		}
		f.Limit = args[0]
	}
	return nil
}

// Load reads the inventory and narrows it by --limit and --select.
func (f *InventoryFlags) Load(ctx context.Context) (*inventory.Inventory, []core.Host, error) {
	if len(f.sources) == 0 {
		return nil, nil, noInventory()
	}
	docs, paths, warnings, err := f.documents(ctx)
	if err != nil {
		return nil, nil, err
	}
	inv, err := inventory.Load(ctx, paths, docs...)
	if err != nil {
		return nil, nil, err
	}
	inv.Warnings = append(inv.Warnings, warnings...)
	hosts := inv.Hosts
	if f.Limit != "" {
		if hosts, err = inv.Limit(f.Limit); err != nil {
			return nil, nil, &console.Exit{Code: console.ExitInvalid, Err: err} // it starts with the limit
		}
	}
	if f.sel != "" {
		if hosts, err = selectHosts(f.sel, hosts); err != nil {
			return nil, nil, &console.Exit{Code: console.ExitInvalid, Err: fmt.Errorf("--select: %w", err)}
		}
	}
	return inv, hosts, nil
}

func noInventory() error {
	return console.Invalid("no inventory is given\nhint: -i hosts.yaml, -i hosts.ini, -i 'host1,host2,', or -i sources.yaml for the hosts of a source; turnus init makes a project with one. Simulated hosts: turnus lab up, then eval \"$(turnus lab env)\" in each terminal")
}

func selectHosts(text string, hosts []core.Host) ([]core.Host, error) {
	expr, err := playbooks.CompileSelector(text)
	if err != nil {
		return nil, err
	}
	var chosen []core.Host
	for _, h := range hosts {
		ok, err := expr.Bool(playbooks.Env{Host: h})
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", h.Name, err)
		}
		if ok {
			chosen = append(chosen, h)
		}
	}
	return chosen, nil
}

// VarFlags are -e key=value, -e '{"json": …}' and -e @file.yaml.
type VarFlags struct{ Args []string }

// Add gives the command the flags.
func (f *VarFlags) Add(c *cobra.Command) {
	c.Flags().StringArrayVarP(&f.Args, "extra-vars", "e", nil, "set vars: key=value, a JSON object, or @FILE (repeatable; wins over the playbook's)")
}

const maxVarsFile = 1 << 20

// Values returns the vars of -e.
func (f *VarFlags) Values() (map[string]any, error) {
	vars := map[string]any{}
	for _, arg := range f.Args {
		file, isFile := strings.CutPrefix(arg, "@")
		switch {
		case isFile || strings.HasPrefix(strings.TrimSpace(arg), "{"):
			src := []byte(arg)
			if isFile {
				var err error
				if src, err = settings.ReadFile(file, maxVarsFile+1); err != nil {
					return nil, console.Invalid("-e: %w", err)
				}
			}
			if len(src) > maxVarsFile {
				return nil, console.Invalid("-e %s: more than 1 MiB", arg[:min(len(arg), 60)])
			}
			var more map[string]any
			if err := yaml.Unmarshal(src, &more); err != nil {
				return nil, console.Invalid("-e %s: expected an object of vars: %w", arg[:min(len(arg), 60)], err)
			}
			maps.Copy(vars, more)
		default:
			k, v, ok := strings.Cut(arg, "=")
			if !ok || k == "" {
				return nil, console.Invalid("-e %s: expected key=value, a JSON object, or @FILE\nhint: -e %s=VALUE", arg, strings.TrimSpace(arg))
			}
			vars[k] = v
		}
	}
	return jsonValues(vars)
}

// jsonValues makes vars what JSON makes of them, as they will be in a run's snapshot. JSON would
// replace bytes that are not UTF-8 without an error.
func jsonValues(vars map[string]any) (map[string]any, error) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if playbooks.AnyText(map[string]any{name: vars[name]}, func(text string) bool { return !utf8.ValidString(text) }) {
			return nil, console.Invalid("-e: the value of %q: expected UTF-8\nhint: -e @FILE reads vars from a file in UTF-8", name)
		}
	}
	text, err := json.Marshal(vars)
	if err != nil {
		return nil, console.Invalid("-e: %w", err)
	}
	var out map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	err = dec.Decode(&out)
	return out, err
}
