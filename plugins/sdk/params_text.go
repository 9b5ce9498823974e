package sdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// kindFits reports whether the JSON type of v is one that the schema names.
func kindFits(js *jsonschema.Schema, v any) bool {
	if js.Type == "" && len(js.Types) == 0 {
		return true
	}
	switch v := v.(type) {
	case string:
		return allows(js, "string")
	case bool:
		return allows(js, "boolean")
	case json.Number:
		if allows(js, "number") {
			return true
		}
		_, err := strconv.ParseInt(v.String(), 10, 64)
		return err == nil && allows(js, "integer")
	case []any:
		return allows(js, "array")
	case map[string]any:
		return allows(js, "object")
	}
	return allows(js, "null")
}

func jsonEqual(want, got any) bool {
	if n, ok := got.(json.Number); ok {
		return fmt.Sprint(want) == n.String()
	}
	return want == got
}

func expected(js *jsonschema.Schema) string {
	if js.Type != "" {
		return words.Kind(js.Type)
	}
	return words.Kind(js.Types...)
}

func enumText(enum []any) string {
	names := make([]string, len(enum))
	for i, e := range enum {
		names[i] = fmt.Sprint(e)
	}
	return strings.Join(names, ", ")
}

// additional is the schema of the properties that an object does not name; nil
// when it allows none. A schema that is silent about them allows all: it is of a value of any type.
func additional(js *jsonschema.Schema) *jsonschema.Schema {
	switch more := js.AdditionalProperties; {
	case more == nil:
		return new(jsonschema.Schema)
	case more.Not != nil: // false
		return nil
	default:
		return more
	}
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// escapePointer is a key as a token of a JSON pointer (RFC 6901).
func escapePointer(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// suggestion names the property that a misspelt one most likely meant.
func suggestion(name string, properties map[string]*jsonschema.Schema) string {
	if len(name) > 64 {
		return ""
	}
	best, bestDistance := "", len(name)/3+2
	for _, candidate := range slices.Sorted(maps.Keys(properties)) {
		if d := editDistance(name, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	if len(properties) == 0 {
		return "; this job type has no parameters"
	}
	return "; known are " + strings.Join(slices.Sorted(maps.Keys(properties)), ", ")
}

// editDistance counts insertions, deletions and substitutions (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			above := row[j]
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			row[j] = min(cost, above+1, row[j-1]+1)
			diagonal = above
		}
	}
	return row[len(b)]
}
