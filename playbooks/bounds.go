package playbooks

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// bounds checks the size of a number and the length and pattern of a text.
func (k *paramCheck) bounds(v *value, s *jsonschema.Schema, path string) {
	p := problem{message: fmt.Sprintf("%s is %s", paramName(path), v.describe())}
	switch x := v.literal.(type) {
	case string:
		p.expected = textBounds(x, s)
	case int:
		p.expected = numberBounds(float64(x), s)
	case float64:
		p.expected = numberBounds(x, s)
	}
	if p.expected != "" {
		k.report(v, p)
	}
}

// textBounds returns what was expected of a text, or "".
func textBounds(text string, s *jsonschema.Schema) string {
	n := utf8.RuneCountInString(text)
	switch {
	case s.MinLength != nil && n < *s.MinLength && *s.MinLength == 1:
		return "some text"
	case s.MinLength != nil && n < *s.MinLength:
		return fmt.Sprintf("at least %d characters", *s.MinLength)
	case s.MaxLength != nil && n > *s.MaxLength:
		return fmt.Sprintf("at most %d characters", *s.MaxLength)
	}
	if s.Pattern != "" {
		if re, err := regexp.Compile(s.Pattern); err == nil && !re.MatchString(text) {
			if len(s.Examples) > 0 { // easier to follow than a pattern
				return "text such as " + strings.Join(texts(s.Examples), " or ")
			}
			if s.Description != "" {
				return fmt.Sprintf("%s (pattern %s)", clip(s.Description, 100), s.Pattern)
			}
			return "text of the pattern " + s.Pattern
		}
	}
	return ""
}

// numberBounds returns what was expected of a number, or "".
func numberBounds(x float64, s *jsonschema.Schema) string {
	switch {
	case s.Minimum != nil && x < *s.Minimum:
		return fmt.Sprintf("at least %v", *s.Minimum)
	case s.Maximum != nil && x > *s.Maximum:
		return fmt.Sprintf("at most %v", *s.Maximum)
	case s.ExclusiveMinimum != nil && x <= *s.ExclusiveMinimum:
		return fmt.Sprintf("more than %v", *s.ExclusiveMinimum)
	case s.ExclusiveMaximum != nil && x >= *s.ExclusiveMaximum:
		return fmt.Sprintf("less than %v", *s.ExclusiveMaximum)
	}
	return ""
}

// opened turns a list or mapping that an expression gave into values of their
// own, all at the expression's place.
func (v *value) opened() *value {
	if list, ok := asList(v.literal); ok {
		out := &value{src: v.src, node: v.node, items: []*value{}}
		for _, item := range list {
			out.items = append(out.items, &value{src: v.src, node: v.node, literal: item})
		}
		return out
	}
	if x, ok := v.literal.(map[string]any); ok {
		out := &value{src: v.src, node: v.node, fields: []named{}}
		for _, name := range sortedKeys(x) {
			out.fields = append(out.fields, named{name, v.node, &value{src: v.src, node: v.node, literal: x[name]}})
		}
		return out
	}
	return v
}

// kind is the value's type in the words of JSON Schema.
func (v *value) kind() string {
	switch x := v.literal.(type) {
	case bool:
		return "boolean"
	case string:
		return "string"
	case int, int64, uint64:
		return "integer"
	case float64:
		if x == float64(int64(x)) {
			return "integer"
		}
		return "number"
	}
	switch {
	case v.fields != nil:
		return "object"
	case v.items != nil:
		return "array"
	}
	return "null"
}

func (v *value) describe() string {
	switch v.kind() {
	case "object":
		return "a mapping"
	case "array":
		return "a list"
	case "null":
		return "empty"
	}
	if kind := v.kind(); kind != "string" && v.node.Kind == yaml.ScalarNode && !strings.Contains(v.node.Value, "${{") {
		return yamlread.Kind(v.node) // as it is written: 0644, not 420
	}
	return describe(v.literal)
}

// texts are values as a message names them.
func texts(values []any) []string {
	return core.Map(values, func(v any) string { return fmt.Sprint(v) })
}
