package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// pluginFlags say where job types come from.
type pluginFlags struct {
	dirs   []string
	dev    []string // NAME=DIR
	upload byteRate
}

func (f *pluginFlags) add(c *cobra.Command) {
	var dirs []string
	if env := os.Getenv("TURNUS_PLUGINS"); env != "" {
		dirs = filepath.SplitList(env)
	}
	c.Flags().StringSliceVar(&f.dirs, "plugins", dirs, "plugin folder, as DIR/NAME/VERSION/plugin (repeatable; TURNUS_PLUGINS)")
	settings.ReadsEnvironment(c.Flags(), "plugins")
}

func (f *pluginFlags) addDev(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.dev, settings.PluginDevFlag, nil, "take plugin NAME from its author's folder or program, whatever is installed or locked, and each new version of it: NAME=DIR (repeatable)")
}

// developed are the plugins of --plugin-dev, by name.
func (f *pluginFlags) developed() (map[string]string, error) {
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

// tellDev says which plugins are not the installed ones.
func (f *pluginFlags) tellDev(a *app) {
	for _, text := range f.dev {
		name, dir, _ := strings.Cut(text, "=")
		a.Message(a.Paint(console.Yellow, "warning: ") + "plugin " + name + " runs from " + dir + ", under development: no installed version of it is used, and no lockfile is asked")
	}
}

// supervisor knows the built-in job types and those of the plugin folders, where none is called.
func (f *pluginFlags) supervisor(log *slog.Logger) (*host.Supervisor, error) {
	box, err := asking()
	if err != nil {
		return nil, err
	}
	builtins, err := builtinPlugins()
	if err != nil {
		return nil, err
	}
	return f.supervise(host.Config{Log: log, Sandbox: box, Builtins: builtins})
}

// supervise completes the configuration by where plugins come from. It starts no process before the first
// call, but for a plugin without manifest.json.
func (f *pluginFlags) supervise(cfg host.Config) (_ *host.Supervisor, err error) {
	if cfg.Adapter, err = scriptAdapter(); err != nil {
		return nil, err
	}
	if cfg.Dev, err = f.developed(); err != nil {
		return nil, err
	}
	cfg.Dirs, cfg.UploadRate = f.dirs, int64(f.upload)
	return host.New(cfg)
}

// playbookOptions let validation see the job types and the -e vars.
func playbookOptions(sup *host.Supervisor, vars map[string]any) playbooks.Options {
	o := playbooks.Options{Vars: vars, Types: func(name string) (playbooks.Type, bool) {
		t, ok := sup.Type(name)
		return playbookType(t), ok
	}}
	for _, t := range jobTypes(sup) {
		o.TypeNames = append(o.TypeNames, t.Name)
	}
	return o
}

func playbookType(t host.Type) playbooks.Type {
	return playbooks.Type{Name: t.Name, Params: t.Params, Outputs: t.Outputs, Check: t.Check,
		Idempotent: t.Idempotent, Disruptive: t.Disruptive, OnLost: t.OnLost, Plugin: t.Plugin}
}

func jobTypes(sup *host.Supervisor) []playbooks.Type {
	var types []playbooks.Type
	for _, p := range sup.Plugins() {
		for _, t := range p.Manifest.Types {
			types = append(types, playbookType(t))
		}
	}
	return types
}

func (a *app) pluginsCmd() *cobra.Command {
	c := &cobra.Command{Use: "plugins", Short: "Job types: list, document, make, test, install and lock them"}
	c.AddCommand(a.pluginsLsCmd(), a.pluginsDocsCmd(), a.pluginsInitCmd(), a.pluginsTestCmd(), a.pluginsInstallCmd(), a.pluginsLockCmd())
	return c
}

// jobTypeRow is one element of plugins ls -o json.
type jobTypeRow struct {
	Type       string `json:"type"`
	Plugin     string `json:"plugin"`
	Version    string `json:"version"`
	Summary    string `json:"summary"`
	Check      bool   `json:"check"`
	Idempotent bool   `json:"idempotent"`
	Disruptive bool   `json:"disruptive"`
}

func (a *app) pluginsLsCmd() *cobra.Command {
	var plugins pluginFlags
	c := &cobra.Command{
		Use: "ls", Short: "List the job types that playbooks can use", Args: cobra.NoArgs,
		Example: "  turnus plugins ls\n  turnus plugins ls --plugins ./my-plugins -o json",
		RunE: func(*cobra.Command, []string) error {
			sup, err := plugins.supervisor(nil)
			if err != nil {
				return err
			}
			rows := []jobTypeRow{}
			cells := [][]string{{"TYPE", "PLUGIN", "VERSION", "CHECK", "DISRUPTIVE", "SUMMARY"}}
			for _, p := range sup.Plugins() {
				for _, t := range p.Manifest.Types {
					rows = append(rows, jobTypeRow{t.Name, p.Name, p.Version, t.Summary, t.Check, t.Idempotent, t.Disruptive})
					cells = append(cells, []string{t.Name, p.Name, p.Version, yesNo(t.Check), yesNo(t.Disruptive), t.Summary})
				}
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, rows)
			}
			console.Table(a.Out, cells)
			return nil
		},
	}
	plugins.add(c)
	return c
}

// schemaNode is the part of a JSON Schema that documentation shows.
type schemaNode struct {
	Type        any                   `json:"type"`
	Types       []string              `json:"types"`
	Description string                `json:"description"`
	Default     json.RawMessage       `json:"default"`
	Enum        []any                 `json:"enum"`
	Required    []string              `json:"required"`
	Properties  map[string]schemaNode `json:"properties"`
	Secret      bool                  `json:"x-turnus-secret"`
}

// meaning is the description, with what else an author of playbooks must know.
func (n schemaNode) meaning() string {
	text := n.Description
	if n.Secret {
		text = strings.TrimSpace(text + " (takes secrets)")
	}
	return strings.ReplaceAll(text, "|", `\|`)
}

func (n schemaNode) kind() string {
	if len(n.Enum) > 0 {
		words := make([]string, len(n.Enum))
		for i, e := range n.Enum {
			words[i] = fmt.Sprint(e)
		}
		return strings.Join(words, " or ")
	}
	switch t := n.Type.(type) {
	case string:
		return t
	case []any:
		var words []string
		for _, one := range t {
			if one != "null" {
				words = append(words, fmt.Sprint(one))
			}
		}
		return strings.Join(words, " or ")
	}
	return "any"
}

// writeTypeDocs writes a job type's page as Markdown.
func writeTypeDocs(w io.Writer, t host.Type) error {
	fmt.Fprintf(w, "## %s\n\n%s\n\n", t.Name, t.Summary)
	if d := strings.TrimSpace(t.Description); d != "" {
		fmt.Fprintf(w, "%s\n\n", d)
	}
	fmt.Fprintf(w, "Check mode: %s. Idempotent: %s. Disruptive: %s. When its worker dies: %s.\n\n", yesNo(t.Check), yesNo(t.Idempotent), yesNo(t.Disruptive), t.OnLost)
	if err := writeFields(w, "param", t.Params); err != nil {
		return fmt.Errorf("params of %s: %w", t.Name, err)
	}
	if len(t.Outputs) > 0 {
		if err := writeFields(w, "output", t.Outputs); err != nil {
			return fmt.Errorf("outputs of %s: %w", t.Name, err)
		}
	}
	for _, e := range t.Examples {
		var params any
		if err := json.Unmarshal(e.Params, &params); err != nil {
			return fmt.Errorf("example %q of %s: %w", e.Title, t.Name, err)
		}
		step := map[string]any{"uses": t.Name, "with": params}
		if len(e.Secrets) > 0 {
			step["secrets"] = e.Secrets
		}
		text, err := console.YAMLText(step)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s:\n\n```yaml\n%s```\n\n", e.Title, text)
	}
	return nil
}

func writeFields(w io.Writer, head string, schema json.RawMessage) error {
	var n schemaNode
	if err := json.Unmarshal(schema, &n); err != nil {
		return err
	}
	if len(n.Properties) == 0 {
		return nil
	}
	fmt.Fprintf(w, "| %s | type | default | meaning |\n| --- | --- | --- | --- |\n", head)
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		p := n.Properties[name]
		def := string(p.Default)
		for _, r := range n.Required {
			if r == name && head == "param" {
				def = "(required)"
			}
		}
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", name, p.kind(), strings.Trim(def, `"`), p.meaning())
	}
	_, err := fmt.Fprintln(w)
	return err
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
