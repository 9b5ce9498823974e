package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/plugins/sdk/words"
)

// maxExpansion bounds how many schemas may apply to one value at the same time: references can make
// them grow exponentially.
const maxExpansion = 10_000

// checkSchema refuses what is no JSON Schema, and what would not end: the library follows a
// reference to the schema that it is in until the stack of the whole process overflows.
func checkSchema(raw json.RawMessage) error {
	var s jsonschema.Schema
	if err := words.Unmarshal("#", raw, &s); err != nil {
		return fmt.Errorf("not a JSON Schema: %w", err)
	}
	if _, err := s.Resolve(nil); err != nil { // a reference to elsewhere is an error: nothing is loaded
		return fmt.Errorf("not a JSON Schema: %w", words.Plain(err))
	}
	w := schemaWalk{cost: map[string]int{}}
	if err := json.Unmarshal(raw, &w.root); err != nil {
		return fmt.Errorf("not a JSON Schema: %w", err)
	}
	return w.all("#", w.root)
}

// schemaWalk goes through a schema by its JSON pointers.
type schemaWalk struct {
	root any
	cost map[string]int // of each schema: how many apply to a value; 0 while it is being counted
}

// all checks every object that may be a schema.
func (w *schemaWalk) all(at string, node any) error {
	switch node := node.(type) {
	case []any:
		for i, inner := range node {
			if err := w.all(at+"/"+strconv.Itoa(i), inner); err != nil {
				return err
			}
		}
	case map[string]any:
		if _, err := w.count(at, node); err != nil {
			return err
		}
		for key, inner := range node {
			if _, isText := inner.(string); isText && at != "#" && (key == "$id" || key == "$anchor") || isText && strings.HasPrefix(key, "$dynamic") {
				return fmt.Errorf("%s: %s is not supported: refer to parts by their place, as #/$defs/size", at, key)
			}
			switch key {
			case "default", "const", "enum", "examples": // values
				continue
			}
			if err := w.all(at+"/"+escapePointer(key), inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// count follows what holds for the same value as the schema at that place, and so may not end.
func (w *schemaWalk) count(at string, node any) (int, error) {
	schema, ok := node.(map[string]any)
	if !ok {
		return 1, nil
	}
	if n, seen := w.cost[at]; seen {
		if n == 0 {
			return 0, fmt.Errorf("%s refers to itself without end", at)
		}
		return n, nil
	}
	w.cost[at] = 0
	total := 1
	add := func(at string, node any) error {
		n, err := w.count(at, node)
		if total += n; err == nil && total > maxExpansion {
			err = fmt.Errorf("%s: its references make more than %d schemas of it", at, maxExpansion)
		}
		return err
	}
	var errs []error
	if ref, ok := schema["$ref"].(string); ok {
		target, node, err := w.resolve(ref)
		if err == nil {
			err = add(target, node)
		}
		errs = append(errs, err)
	}
	for _, key := range []string{"not", "if", "then", "else"} {
		errs = append(errs, add(at+"/"+key, schema[key]))
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := schema[key].([]any)
		for i, inner := range list {
			errs = append(errs, add(at+"/"+key+"/"+strconv.Itoa(i), inner))
		}
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		each, _ := schema[key].(map[string]any)
		for name, inner := range each {
			errs = append(errs, add(at+"/"+key+"/"+escapePointer(name), inner))
		}
	}
	w.cost[at] = total
	return total, errors.Join(errs...)
}

// resolve finds what a reference names, and its place in one form.
func (w *schemaWalk) resolve(ref string) (at string, node any, err error) {
	path, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil || !strings.HasPrefix(ref, "#") || path != "" && path[0] != '/' {
		return "", nil, fmt.Errorf("reference %q: expected one within the schema, as #/$defs/size", ref)
	}
	at, node = "#", w.root
	if path == "" {
		return at, node, nil
	}
	for token := range strings.SplitSeq(path[1:], "/") {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch within := node.(type) {
		case map[string]any:
			node = within[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(within) {
				return "", nil, fmt.Errorf("reference %q: nothing is there", ref)
			}
			node, key = within[i], strconv.Itoa(i)
		default:
			node = nil
		}
		at += "/" + escapePointer(key)
	}
	return at, node, nil
}

func escapePointer(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
