package playbooks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is the JSON Schema (draft 2020-12) of a playbook file, with the params
// of all types given. Editors complete and check with it; Load checks more.
func Schema(types []Type) ([]byte, error) {
	root := objectSchema(playbookFields())
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.PatternProperties = map[string]*jsonschema.Schema{"^x-": {Description: "A place for anchors; not read."}}
	root.Title = "Turnus playbook"
	ofSteps(root)
	step := objectSchema(stepFields())
	handler := objectSchema(handlerFields())
	root.Defs = map[string]*jsonschema.Schema{"step": step, "handler": handler, "steps": stepsForm().schema}

	types = slices.Clone(types)
	slices.SortFunc(types, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range types {
		typ, err := newTypeSchema(t)
		if err != nil {
			return nil, fmt.Errorf("job type %q: %w", t.Name, err)
		}
		for _, call := range []*jsonschema.Schema{step, handler} {
			uses := call.Properties["uses"]
			uses.Enum = append(uses.Enum, t.Name)
		}
		if typ.params == nil {
			continue
		}
		params := templated(typ.params)
		params.Schema = ""
		if len(params.Defs)+len(params.Definitions) > 0 {
			params.ID = "https://turnus.invalid/types/" + t.Name // its #/$defs stay its own
		}
		params.Description = cmp.Or(params.Description, t.Doc)
		root.Defs["params."+t.Name] = params
		then := &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"with": {Ref: "#/$defs/params." + t.Name}}}
		if len(params.Required) > 0 {
			then.Required = []string{"with"}
		}
		var name any = t.Name
		for _, call := range []*jsonschema.Schema{step, handler} {
			call.AllOf = append(call.AllOf, &jsonschema.Schema{
				If:   &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{"uses": {Const: &name}}, Required: []string{"uses"}},
				Then: then,
			})
		}
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(out, '\n'), nil
}

// ofSteps lets the schema take files of steps as well, which have no key of a playbook.
func ofSteps(root *jsonschema.Schema) {
	never := &jsonschema.Schema{Not: &jsonschema.Schema{}}
	outputs := objectSchema(stepsFields()).Properties["outputs"]
	root.Properties["outputs"] = outputs
	root.PropertyOrder = append(root.PropertyOrder, "outputs")
	book := &jsonschema.Schema{Required: root.Required, Properties: map[string]*jsonschema.Schema{"outputs": never}}
	steps := &jsonschema.Schema{Required: []string{"steps"}, Properties: map[string]*jsonschema.Schema{}}
	own := objectSchema(stepsFields()).Properties
	for key := range root.Properties {
		if own[key] == nil {
			steps.Properties[key] = never
		}
	}
	root.Required, root.AnyOf = nil, []*jsonschema.Schema{book, steps}
}

// templated lets an expression stand wherever a param's value may.
func templated(s *jsonschema.Schema) *jsonschema.Schema {
	out := s.CloneSchemas()
	for name, p := range out.Properties {
		out.Properties[name] = orExpression(p)
	}
	if out.AdditionalProperties != nil && !isFalse(out.AdditionalProperties) {
		out.AdditionalProperties = orExpression(out.AdditionalProperties)
	}
	if out.Items != nil {
		out.Items = orExpression(out.Items)
	}
	return out
}

func orExpression(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Type == "string" && s.Enum == nil && s.Pattern == "" && s.MaxLength == nil {
		return s
	}
	inner := templated(s)
	description := inner.Description
	inner.Description = ""
	return &jsonschema.Schema{Description: description, AnyOf: []*jsonschema.Schema{inner, {Type: "string", Pattern: `\$\{\{`}}}
}
