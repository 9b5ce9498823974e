package node

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

// sandboxFlags set what plugin processes cannot reach.
type sandboxFlags struct {
	mode   string
	allow  []string
	memory byteSize
}

// DefaultPluginMemory is the memory limit for data of a plugin process.
const DefaultPluginMemory = 4 << 30

func (f *sandboxFlags) add(c *cobra.Command) {
	f.memory = DefaultPluginMemory
	fl := c.Flags()
	fl.StringVar(&f.mode, "plugin-sandbox", string(sandbox.Auto), "keep plugins from files, network and other processes: auto (as far as the system can), on (wholly, or not start) or off")
	fl.StringArrayVar(&f.allow, "plugin-allow", nil, "what one plugin has beside its own folder: NAME=network, or NAME=/PATH to read; http=10.1.2.0/24: an inner network that http may reach from the worker (repeatable)")
	fl.Var(&f.memory, "plugin-memory", "most memory for data that a process of a plugin has, as 4GiB; 0: any")
	_ = c.RegisterFlagCompletionFunc("plugin-sandbox", cobra.FixedCompletions([]string{"auto", "on", "off"}, cobra.ShellCompDirectiveNoFileComp))
}

// check finds wrong usage before anything is contacted.
func (f *sandboxFlags) check() error {
	if !slices.Contains([]string{"", string(sandbox.Auto), string(sandbox.On), string(sandbox.Off)}, f.mode) {
		return console.Invalid("--plugin-sandbox %s: expected auto, on or off", f.mode)
	}
	_, _, err := f.allowed()
	return err
}

// allowed returns the rights of plugins, by name, and the inner networks that the job type http may
// reach.
func (f *sandboxFlags) allowed() (all map[string]host.Allow, reach []netip.Prefix, err error) {
	all = map[string]host.Allow{}
	for _, text := range f.allow {
		name, what, ok := strings.Cut(text, "=")
		if name == "http" {
			network, err := netip.ParsePrefix(what)
			if err != nil {
				return nil, nil, console.Invalid("--plugin-allow %s: expected a network that http may reach from the worker, as http=10.1.2.0/24 or http=10.1.2.3/32", text)
			}
			reach = append(reach, network.Masked())
			continue
		}
		a := all[name]
		switch {
		case ok && name != "" && what == "network":
			a.Network = true
		case ok && name != "" && filepath.IsAbs(what):
			a.Read = append(a.Read, what)
		default:
			return nil, nil, console.Invalid("--plugin-allow %s: expected NAME=network, or NAME=/PATH of what it may read", text)
		}
		all[name] = a
	}
	return all, reach, nil
}

// confine sets how the plugins of a node are confined. The node's own memory and environment are
// also closed to them. only is the one built-in plugin that the node needs; "" is all of them.
func (f *sandboxFlags) confine(cfg *host.Config, only string) (err error) {
	mode := sandbox.Mode(cmp.Or(f.mode, string(sandbox.Auto))) // without flags: demo and bench
	allow, reach, err := f.allowed()
	if err != nil {
		return err
	}
	cfg.Allow = allow
	if cfg.Builtins, err = builtinPlugins(only, reach); err != nil {
		return err
	}
	if mode == sandbox.Off {
		return nil
	}
	if err := sandbox.Harden(); err != nil {
		return err
	}
	if cfg.Sandbox, err = sandbox.New(sandbox.Config{Mode: mode, Memory: int64(f.memory)}); err != nil {
		return fmt.Errorf("--plugin-sandbox: %w", err)
	}
	go func() { _, _ = cfg.Sandbox.Missing() }() // it starts a process: meanwhile the node gets ready
	return nil
}

// AskSandbox is the sandbox of commands that start a plugin only to ask what it is.
func AskSandbox() (*sandbox.Sandbox, error) { return sandbox.New(sandbox.Config{Mode: sandbox.Auto}) }

// Unconfined prints what plugins are not kept from. It waits until that is known.
func Unconfined(con *console.Console, n *Node) error {
	missing, err := n.sandbox.Missing()
	if err == nil && len(missing) > 0 {
		con.Report(con.Paint(console.Yellow, "warning: ") + "the sandbox of plugins is not whole: " + strings.Join(missing, "; "))
	}
	return err
}
