package node

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// PluginFlags define where job types come from.
type PluginFlags struct {
	Dirs   []string
	dev    []string // NAME=DIR
	upload byteRate
	only   string // the one built-in plugin that the node has; "": all plugins
}

// Add gives the command the flags.
func (f *PluginFlags) Add(c *cobra.Command) {
	var dirs []string
	if env := os.Getenv("TURNUS_PLUGINS"); env != "" {
		dirs = filepath.SplitList(env)
	}
	c.Flags().StringSliceVar(&f.Dirs, "plugins", dirs, "plugin folder, as DIR/NAME/VERSION/plugin (repeatable; TURNUS_PLUGINS)")
	settings.ReadsEnvironment(c.Flags(), "plugins")
}

// AddDev gives the command --plugin-dev.
func (f *PluginFlags) AddDev(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.dev, settings.PluginDevFlag, nil, "take plugin NAME from its author's folder or program, whatever is installed or locked, and each new version of it: NAME=DIR (repeatable)")
}

// developed are the plugins of --plugin-dev, by name.
func (f *PluginFlags) developed() (map[string]string, error) {
	dev := map[string]string{}
	for _, text := range f.dev {
		name, dir, ok := strings.Cut(text, "=")
		if !ok || name == "" || dir == "" {
			return nil, console.Invalid("--%s %s: expected NAME=DIR, as motd=./motd", settings.PluginDevFlag, text)
		}
		if _, twice := dev[name]; twice {
			return nil, console.Invalid("--%s %s: plugin %s is given twice", settings.PluginDevFlag, text, name)
		}
		dev[name] = dir
	}
	return dev, nil
}

// ReportDev prints which plugins are not the installed ones.
func (f *PluginFlags) ReportDev(con *console.Console) {
	for _, text := range f.dev {
		name, dir, _ := strings.Cut(text, "=")
		con.Report(con.Paint(console.Yellow, "warning: ") + "plugin " + name + " runs from " + dir + ", under development: no installed version of it is used, and no lockfile is asked")
	}
}

// Supervisor knows the built-in job types and those of the plugin folders, where none is called.
func (f *PluginFlags) Supervisor(log *slog.Logger) (*host.Supervisor, error) {
	box, err := AskSandbox()
	if err != nil {
		return nil, err
	}
	builtins, err := BuiltinPlugins()
	if err != nil {
		return nil, err
	}
	return f.supervise(host.Config{Log: cmp.Or(log, slog.New(slog.DiscardHandler)), Sandbox: box, Builtins: builtins})
}

// Only makes a node that runs one built-in plugin leave out all others: their schemas and folders
// take longer than a short command. If the command line has a flag of plugins, nothing is left
// out.
func (f *Flags) Only(builtin string) {
	if len(f.Plugins.dev) == 0 && len(f.sandbox.allow) == 0 {
		f.Plugins.only = builtin
	}
}

// supervise completes the configuration by where plugins come from. It starts no process before the
// first call, except a plugin without manifest.json.
func (f *PluginFlags) supervise(cfg host.Config) (_ *host.Supervisor, err error) {
	if cfg.Adapter, err = ScriptAdapter(); err != nil {
		return nil, err
	}
	if cfg.Dev, err = f.developed(); err != nil {
		return nil, err
	}
	if f.only != "" {
		cfg.UploadRate = int64(f.upload)
		return host.New(cfg)
	}
	cfg.Dirs, cfg.UploadRate = f.Dirs, int64(f.upload)
	return host.New(cfg)
}

// PlaybookOptions let validation see the job types and the -e vars.
func PlaybookOptions(sup *host.Supervisor, vars map[string]any) playbooks.Options {
	o := playbooks.Options{Vars: vars, Types: func(name string) (playbooks.Type, bool) {
		t, ok := sup.Type(name)
		return playbookType(t), ok
	}}
	for _, t := range JobTypes(sup) {
		o.TypeNames = append(o.TypeNames, t.Name)
	}
	return o
}

func playbookType(t host.Type) playbooks.Type {
	return playbooks.Type{Name: t.Name, Params: t.Params, Outputs: t.Outputs, Check: t.Check,
		Idempotent: t.Idempotent, Disruptive: t.Disruptive, OnLost: t.OnLost, Reverts: t.Reverts, RevertsUnless: t.RevertsUnless, Plugin: t.Plugin}
}

// JobTypes returns the job types that a supervisor knows.
func JobTypes(sup *host.Supervisor) []playbooks.Type {
	var types []playbooks.Type
	for _, p := range sup.Plugins() {
		for _, t := range p.Manifest.Types {
			types = append(types, playbookType(t))
		}
	}
	return types
}

// ScriptVerb is how the binary is started as the process of a plugin that is a script.
const ScriptVerb = "__script"

// ScriptAdapter is how workers start a plugin folder that holds a script in place of a program.
func ScriptAdapter() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the program itself, to start scripts: %w", err)
	}
	return []string{self, ScriptVerb}, nil
}
