package words

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"
)

// fits reports whether a value as json.Unmarshal makes it is of one of the types.
func fits(types []string, v any) bool {
	switch v := v.(type) {
	case nil:
		return slices.Contains(types, "null")
	case string:
		return slices.Contains(types, "string")
	case bool:
		return slices.Contains(types, "boolean")
	case []any:
		return slices.Contains(types, "array")
	case map[string]any:
		return slices.Contains(types, "object")
	case float64:
		return slices.Contains(types, "number") || v == math.Trunc(v) && slices.Contains(types, "integer")
	}
	return true
}

func inside(at string, s *jsonschema.Schema, v any) (string, string) {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			if at, text := wrongKind(pointer(at, strconv.Itoa(i)), s.Items, item); text != "" {
				return at, text
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			property, known := s.Properties[key]
			if !known {
				property = s.AdditionalProperties
			}
			if at, text := wrongKind(pointer(at, key), property, v[key]); text != "" {
				return at, text
			}
		}
	}
	return "", ""
}
