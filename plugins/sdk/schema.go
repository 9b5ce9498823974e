package sdk

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// schema is a JSON Schema of the subset that For and the tags produce.
type schema struct {
	root     *jsonschema.Schema
	encoded  json.RawMessage
	patterns map[string]*regexp.Regexp // compiled, by expression
}

func mustSchema[T any](of string) *schema {
	s, err := newSchema[T]()
	if err != nil {
		panic(fmt.Sprintf("sdk: %s: %v", of, err))
	}
	return s
}

func newSchema[T any]() (*schema, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, errors.New("expected a struct, whose fields are the keys")
	}
	if at, why := ungiven("", t, nil); why != "" {
		return nil, fmt.Errorf("field %s: %s", strings.TrimPrefix(at, "."), why)
	}
	root, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Duration](): {Type: "string", Pattern: durationPattern, Examples: []any{"90s", "1h30m", "2d"}},
		reflect.TypeFor[Size]():     {Types: []string{"string", "integer"}, Pattern: sizePattern, Minimum: new(0.0), Examples: []any{"10MiB", 4096}},
	}})
	if err != nil {
		return nil, fmt.Errorf("no JSON Schema can be made of it: %w", errors.Unwrap(err)) // the outer one names the type
	}
	s := &schema{root: root, patterns: make(map[string]*regexp.Regexp)}
	if err := s.refine(root, t); err != nil {
		return nil, err
	}
	if s.encoded, err = json.Marshal(root); err != nil {
		return nil, err
	}
	return s, nil
}

// ungiven finds the first field that no playbook can give, and why. jsonschema would name the type,
// and no field.
func ungiven(at string, t reflect.Type, around []reflect.Type) (string, string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if slices.Contains(around, t) {
		return at, "it holds itself, without end"
	}
	if t.Name() != "" {
		around = append(around, t)
	}
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return at, words.Type(t) + " cannot be given in a playbook"
	case reflect.Map:
		if t.Key().Kind() != reflect.String && !t.Key().Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return at, words.Type(t) + " cannot be given in a playbook"
		}
		return ungiven(at+".*", t.Elem(), around)
	case reflect.Slice, reflect.Array:
		return ungiven(at+"[]", t.Elem(), around)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || !f.IsExported() || name == "-" {
				continue
			}
			if tag, ok := f.Tag.Lookup("jsonschema"); ok && tag == "" {
				return at + "." + cmp.Or(name, f.Name), "its tag jsonschema is empty; expected a description"
			}
			if at, why := ungiven(at+"."+cmp.Or(name, f.Name), f.Type, around); why != "" {
				return at, why
			}
		}
	}
	return "", ""
}

// refine applies the tags of ours: inference alone calls every field without
// omitempty required, and allows null for lists.
func (s *schema) refine(js *jsonschema.Schema, t reflect.Type) error {
	dropNull(js)
	if js.Pattern != "" {
		if err := s.compile(js.Pattern); err != nil {
			return err
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.refine(js, t.Elem())
	case reflect.Slice, reflect.Array:
		if js.Items != nil {
			return s.refine(js.Items, t.Elem())
		}
	case reflect.Map:
		if js.AdditionalProperties != nil {
			return s.refine(js.AdditionalProperties, t.Elem())
		}
	case reflect.Struct:
		if js.Properties != nil {
			js.Required = nil
			return s.refineFields(js, t)
		}
	}
	return nil
}

func (s *schema) refineFields(js *jsonschema.Schema, t reflect.Type) error {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if err := s.refineFields(js, embedded); err != nil {
				return err
			}
			continue
		}
		name = cmp.Or(name, f.Name)
		property := js.Properties[name]
		if property == nil {
			continue // unexported, or json:"-"
		}
		if err := s.refine(property, f.Type); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if err := s.applyTag(js, property, name, f.Tag.Get("turnus")); err != nil {
			return fmt.Errorf("field %s, tag turnus:%q: %w", f.Name, f.Tag.Get("turnus"), err)
		}
	}
	return nil
}

func (s *schema) applyTag(parent, property *jsonschema.Schema, name, tag string) error {
	for tag != "" {
		var item string
		if strings.HasPrefix(tag, "pattern=") {
			item, tag = tag, ""
		} else {
			item, tag, _ = strings.Cut(tag, ",")
		}
		key, value, _ := strings.Cut(item, "=")
		var err error
		switch key {
		case "secret":
			mark(property, wire.SecretKeyword, true)
		case "file", "folder", "template", "templates":
			mark(property, wire.FileKeyword, key)
		case "condition":
			mark(cmp.Or(property.Items, property), wire.ConditionKeyword, true)
		case "required":
			parent.Required = append(parent.Required, name)
		case "default":
			property.Default, err = literal(property, value)
		case "min":
			err = bound(property, value, true)
		case "max":
			err = bound(property, value, false)
		case "enum":
			for one := range strings.SplitSeq(value, "|") {
				property.Enum = append(property.Enum, one)
			}
		case "pattern":
			property.Pattern = value
			err = s.compile(value)
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mark gives a schema a keyword of ours.
func mark(property *jsonschema.Schema, keyword string, value any) {
	if property.Extra == nil {
		property.Extra = map[string]any{}
	}
	property.Extra[keyword] = value
}

func (s *schema) compile(expr string) error {
	re, err := regexp.Compile(expr)
	s.patterns[expr] = re
	return err
}

// literal is value as JSON: as it stands where the type is not a string.
func literal(property *jsonschema.Schema, value string) (json.RawMessage, error) {
	if allows(property, "string") {
		return json.Marshal(value)
	}
	if !json.Valid([]byte(value)) {
		return nil, fmt.Errorf("default %q is not JSON", value)
	}
	return json.RawMessage(value), nil
}

func bound(property *jsonschema.Schema, value string, lower bool) error {
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return fmt.Errorf("bound %q: expected a number", value)
	}
	count := int(number)
	set := func(low, high **int) {
		if lower {
			*low = &count
		} else {
			*high = &count
		}
	}
	switch {
	case allows(property, "string"):
		set(&property.MinLength, &property.MaxLength)
	case allows(property, "array"):
		set(&property.MinItems, &property.MaxItems)
	case lower:
		property.Minimum = &number
	default:
		property.Maximum = &number
	}
	return nil
}

// dropNull makes absence the only way to set no value.
func dropNull(js *jsonschema.Schema) {
	var kept []string
	for _, t := range js.Types {
		if t != "null" {
			kept = append(kept, t)
		}
	}
	js.Types = kept
	if len(kept) == 1 {
		js.Type, js.Types = kept[0], nil
	}
}

func allows(js *jsonschema.Schema, kind string) bool {
	if js.Type == kind {
		return true
	}
	return slices.Contains(js.Types, kind)
}
