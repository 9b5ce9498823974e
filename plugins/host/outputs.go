package host

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/plugins/sdk/words"
)

// outputSchema is a job type's declaration of its outputs; the zero value takes any.
type outputSchema struct {
	byName map[string]*jsonschema.Resolved
	closed bool // there are no others
}

// evidence is the output that every job type has; see sdk.Run.Evidence.
const evidence = "evidence"

// outputsOf reads the schema of a type's outputs, which was checked when its manifest was read.
func outputsOf(t Type) (outputSchema, error) {
	if len(t.Outputs) == 0 {
		return outputSchema{}, nil
	}
	var root jsonschema.Schema
	if err := words.Unmarshal("schema", t.Outputs, &root); err != nil {
		return outputSchema{}, fmt.Errorf("outputs of %s: %w", t.Name, err)
	}
	s := outputSchema{byName: map[string]*jsonschema.Resolved{}}
	s.closed = root.AdditionalProperties != nil && root.AdditionalProperties.Not != nil // as false is read
	for name, property := range root.Properties {
		one := property.CloneSchemas()
		one.Defs, one.Definitions = root.Defs, root.Definitions // which it may refer to
		resolved, err := one.Resolve(nil)
		if err != nil {
			return outputSchema{}, fmt.Errorf("output %s of %s: %w", name, t.Name, err)
		}
		s.byName[name] = resolved
	}
	return s, nil
}

// check returns which output is not as the type declares it: a later step would read something else
// than its author expected. A missing output is the type's own matter.
func (s outputSchema) check(outputs map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		schema, declared := s.byName[name]
		switch {
		case name == evidence:
		case !declared && !s.closed:
		case !declared:
			return fmt.Errorf("output %q is not declared by the job type; it declares %q", name, slices.Sorted(maps.Keys(s.byName)))
		default:
			if err := schema.Validate(outputs[name]); err != nil {
				return fmt.Errorf("output %q is not what the job type declares: %w", name, words.Misfit("outputs."+name, schema.Schema(), outputs[name], err))
			}
		}
	}
	return nil
}
