package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/plugins/host"
)

func (a *app) pluginsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "plugins", Short: "Job types: list, document, make, test, install and lock them",
		Example: `  turnus plugins ls
  turnus plugins docs file`,
	}
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
	var plugins node.PluginFlags
	c := &cobra.Command{
		Use: "ls", Short: "List the job types that playbooks can use", Args: cobra.NoArgs,
		Example: "  turnus plugins ls\n  turnus plugins ls --plugins ./my-plugins -o json",
		RunE: func(*cobra.Command, []string) error {
			sup, err := plugins.Supervisor(nil)
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
				return console.PrintJSON(a.Out, console.ListOf(rows))
			}
			console.Table(a.Out, cells)
			return nil
		},
	}
	plugins.Add(c)
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
