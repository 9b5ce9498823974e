package exec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// File is the description beside a script.
const File = "plugin.yaml"

const maxFile = 1 << 20

// description is a plugin.yaml.
type description struct {
	Plugin      string    `yaml:"plugin"`
	Version     string    `yaml:"version"`
	Concurrency int       `yaml:"concurrency"` // jobs at the same time, each with a process of its own; 16
	Network     bool      `yaml:"network"`     // the script opens connections from the worker
	Types       []jobType `yaml:"types"`
}

type jobType struct {
	Type         string           `yaml:"type"`
	Run          string           `yaml:"run"` // the script, relative to the folder
	Args         []string         `yaml:"args"`
	Summary      string           `yaml:"summary"`
	Description  string           `yaml:"description"`
	Check        bool             `yaml:"check"`
	Idempotent   bool             `yaml:"idempotent"`
	Disruptive   bool             `yaml:"disruptive"`
	OnLost       string           `yaml:"on_lost"`
	StateVersion int              `yaml:"state_version"`
	Reverts      bool             `yaml:"reverts"`
	Unless       []string         `yaml:"reverts_unless"`
	Params       map[string]field `yaml:"params"`
	Outputs      map[string]field `yaml:"outputs"`
	Examples     []example        `yaml:"examples"`
}

// field is a param or an output.
type field struct {
	Type        string   `yaml:"type"` // string, integer, number, boolean, list, map; of texts
	Description string   `yaml:"description"`
	Required    bool     `yaml:"required"`
	Default     any      `yaml:"default"`
	Enum        []any    `yaml:"enum"`
	Pattern     string   `yaml:"pattern"`
	Min         *float64 `yaml:"min"` // of a number, or of a length
	Max         *float64 `yaml:"max"`
	Secret      bool     `yaml:"secret"` // of a param: it may hold ${{ secrets.NAME }}
}

type example struct {
	Title   string         `yaml:"title"`
	With    map[string]any `yaml:"with"`
	Secrets []string       `yaml:"secrets"` // names under which its step lists secrets
}

// read reads the description of a folder. Unknown keys are errors.
func read(dir string) (description, error) {
	d := description{Concurrency: 16}
	path := filepath.Join(dir, File)
	f, err := os.Open(path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return d, err
	}
	if len(raw) > maxFile {
		return d, fmt.Errorf("%s: over %d bytes", path, maxFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil {
		return d, fmt.Errorf("%s: %w", path, words.Plain(err))
	}
	if d.Plugin == "" || d.Version == "" || len(d.Types) == 0 {
		return d, fmt.Errorf("%s: expected plugin, version, and types with at least one", path)
	}
	for _, t := range d.Types {
		if err := t.check(dir); err != nil {
			return d, fmt.Errorf("%s: job type %q: %w", path, t.Type, err)
		}
	}
	return d, nil
}

func (t jobType) check(dir string) error {
	if t.OnLost != "" && t.OnLost != "retry" && t.OnLost != "hold" {
		return fmt.Errorf("on_lost: %s: expected retry or hold", t.OnLost)
	}
	if t.StateVersion < 0 {
		return fmt.Errorf("state_version: %d: expected 0 or more", t.StateVersion)
	}
	if t.Run == "" || !filepath.IsLocal(t.Run) {
		return fmt.Errorf("run: %q: expected a path within the folder", t.Run)
	}
	info, err := os.Stat(filepath.Join(dir, t.Run))
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if info.IsDir() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("run: %s is not executable: chmod +x %s", t.Run, t.Run)
	}
	return nil
}

// kinds are the types of fields, as JSON Schema has them.
var kinds = []string{"string", "integer", "number", "boolean", "list", "map"}

// schema is the JSON Schema of fields.
func schema(fields map[string]field) (json.RawMessage, error) {
	properties := map[string]any{}
	var required []string
	var errs []error
	for name, f := range fields {
		f.Type = cmp.Or(f.Type, "string")
		if !slices.Contains(kinds, f.Type) {
			errs = append(errs, fmt.Errorf("%s: type %q: expected one of %s", name, f.Type, strings.Join(kinds, ", ")))
			continue
		}
		if f.Required {
			required = append(required, name)
		}
		properties[name] = f.schema()
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	root := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		slices.Sort(required)
		root["required"] = required
	}
	return json.Marshal(root)
}

func (f field) schema() map[string]any {
	s := map[string]any{"type": f.Type}
	low, high := "minimum", "maximum"
	switch f.Type {
	case "list":
		s["type"], s["items"] = "array", map[string]any{"type": "string"}
		low, high = "minItems", "maxItems"
	case "map":
		s["type"], s["additionalProperties"] = "object", map[string]any{"type": "string"}
		low, high = "", ""
	case "string":
		low, high = "minLength", "maxLength"
	}
	for key, value := range map[string]*float64{low: f.Min, high: f.Max} {
		if key != "" && value != nil {
			s[key] = *value
		}
	}
	if f.Description != "" {
		s["description"] = f.Description
	}
	if f.Secret {
		s["x-turnus-secret"] = true
	}
	if f.Pattern != "" {
		s["pattern"] = f.Pattern
	}
	if len(f.Enum) > 0 {
		s["enum"] = f.Enum
	}
	if f.Default != nil {
		s["default"] = f.Default
	}
	return s
}

// defs are the job types of a folder, for the sdk.
func defs(dir string) ([]sdk.Def, error) {
	d, err := read(dir)
	if err != nil {
		return nil, err
	}
	name := d.Plugin
	if !pluginName().MatchString(name) {
		return nil, fmt.Errorf("%s: plugin %q: expected a-z, 0-9 and _, a letter first", filepath.Join(dir, File), name)
	}
	all := []sdk.Def{sdk.Plugin(name, d.Version)}
	if d.Network {
		all = append(all, sdk.Network())
	}
	for _, t := range d.Types {
		def, err := t.def(dir, d.Concurrency)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, File), err)
		}
		all = append(all, def)
	}
	return all, nil
}

func (t jobType) def(dir string, concurrency int) (sdk.Def, error) {
	out := sdk.Type{
		Name: t.Type, Summary: t.Summary, Description: t.Description, Check: t.Check, Idempotent: t.Idempotent,
		Disruptive: t.Disruptive, OnLost: t.OnLost, StateVersion: t.StateVersion,
		Reverts: t.Reverts, RevertsUnless: t.Unless,
	}
	var err error
	if out.Params, err = schema(t.Params); err != nil {
		return sdk.Def{}, fmt.Errorf("job type %q: params: %w", t.Type, err)
	}
	if len(t.Outputs) > 0 {
		if out.Outputs, err = schema(t.Outputs); err != nil {
			return sdk.Def{}, fmt.Errorf("job type %q: outputs: %w", t.Type, err)
		}
	}
	for _, e := range t.Examples {
		raw, err := json.Marshal(e.With)
		if e.With == nil {
			raw = []byte("{}")
		}
		if err != nil {
			return sdk.Def{}, fmt.Errorf("job type %q: example %q: %w", t.Type, e.Title, err)
		}
		out.Examples = append(out.Examples, sdk.DescribedExample{Title: e.Title, Params: raw, Secrets: e.Secrets})
	}
	s := &script{path: filepath.Join(dir, t.Run), args: t.Args, typ: t.Type}
	return sdk.Described(out, concurrency, s.run)
}
