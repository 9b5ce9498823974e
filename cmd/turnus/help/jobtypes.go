package help

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

// WriteJobTypePages writes a page for each type into dir, as TYPE.md, and an index of them to w.
func WriteJobTypePages(w io.Writer, dir string, types []host.Type) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // pages are for everybody
		return console.Invalid("%v", err)
	}
	fmt.Fprint(w, jobTypesIntro)
	for _, t := range types {
		var page bytes.Buffer
		if err := WriteJobType(&page, t); err != nil {
			return err
		}
		path := filepath.Join(dir, t.Name+".md")
		text := strings.TrimRight(strings.TrimPrefix(page.String(), "#"), "\n") + "\n" // one heading of level 1
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {                //nolint:gosec // as above
			return console.Invalid("%v", err)
		}
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n[Parameters and examples](%s/%s.md)\n", t.Name, t.Summary, filepath.Base(dir), t.Name)
	}
	return nil
}

// jobTypesIntro is the beginning of the index.
const jobTypesIntro = "# Job types\n\nFind the job type of a step here. `turnus plugins docs TYPE` prints its page.\n\n" + `A step that fails leaves what it has changed, except with these built-in job types. They roll back
a change that is not proven, and the step ends as ` + "`" + `rolled_back` + "`" + `:

- ` + "`" + `authorized_key` + "`" + ` of the user that Turnus logs in as, if no login with the new keys works
- ` + "`" + `dnssec.rollover` + "`" + `, if validators report the zone as bogus
- ` + "`" + `firewall.push` + "`" + `, if no new connection works
- ` + "`" + `firmware.upgrade` + "`" + `, if the new version does not prove itself

A file gets its new content by one rename, so it is the old or the new one. Repeat a failed step of
an idempotent job type: it does the rest. ` + "`" + `command` + "`" + `, ` + "`" + `script` + "`" + ` and ` + "`" + `http` + "`" + ` are not idempotent: they
run from their beginning again.
`

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
		return strings.Join(core.Map(n.Enum, func(e any) string { return fmt.Sprint(e) }), " or ")
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

// WriteJobType writes a job type's page as Markdown: first the steps to copy.
func WriteJobType(w io.Writer, t host.Type) error {
	fmt.Fprintf(w, "## %s\n\n%s\n\n", t.Name, t.Summary)
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
	if d := strings.TrimSpace(t.Description); d != "" {
		fmt.Fprintf(w, "%s\n\n", d)
	}
	fmt.Fprintf(w, "Check mode: %s. Idempotent: %s. Disruptive: %s. When its worker dies: %s.", YesNo(t.Check), YesNo(t.Idempotent), YesNo(t.Disruptive), t.OnLost)
	if t.Reverts {
		fmt.Fprint(w, "\nIt undoes its own failure")
		for i, name := range t.RevertsUnless {
			fmt.Fprintf(w, "%s `%s`", []string{", except with", " or"}[min(i, 1)], name)
		}
		fmt.Fprint(w, ".")
	}
	fmt.Fprint(w, "\n\n")
	if err := writeFields(w, "param", t.Params); err != nil {
		return fmt.Errorf("params of %s: %w", t.Name, err)
	}
	if len(t.Outputs) > 0 {
		if err := writeFields(w, "output", t.Outputs); err != nil {
			return fmt.Errorf("outputs of %s: %w", t.Name, err)
		}
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

// YesNo returns a bool as a word.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// FirstDifference returns the first line that differs, counted from 1, and both texts of it.
func FirstDifference(have, want string) (line int, was, is string) {
	a, b := strings.Split(have, "\n"), strings.Split(want, "\n")
	for line < len(a) && line < len(b) && a[line] == b[line] {
		line++
	}
	if line < len(a) {
		was = a[line]
	}
	if line < len(b) {
		is = b[line]
	}
	return line + 1, was, is
}
