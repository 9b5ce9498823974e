package words

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// kinds are the types of JSON Schema.
var kinds = map[string]string{
	"string": "text", "integer": "a whole number", "number": "a number",
	"boolean": "true or false", "array": "a list", "object": "a mapping", "null": "nothing",
}

// Kind returns the word of a playbook for types of JSON Schema.
func Kind(schemaTypes ...string) string {
	names := make([]string, len(schemaTypes))
	for i, t := range schemaTypes {
		names[i] = kinds[t]
	}
	return strings.Join(names, " or ")
}

// Found shows a decoded JSON value, in bounds.
func Found(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		if runes := []rune(v); len(runes) > 60 {
			v = string(runes[:60]) + "…"
		}
		return strconv.Quote(v)
	case json.Number:
		return "the number " + v.String()
	case float64:
		return "the number " + strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "a list"
	}
	return "a mapping"
}

// At is the place that a JSON pointer names within the thing called base: with and /hosts/0/name
// are with.hosts[0].name.
func At(base, pointer string) string {
	var b strings.Builder
	b.WriteString(base)
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if token == "" {
			continue
		}
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if _, err := strconv.ParseUint(key, 10, 64); err == nil {
			fmt.Fprintf(&b, "[%s]", key)
		} else {
			b.WriteString("." + key)
		}
	}
	return b.String()
}

// pointer adds a key to a JSON pointer (RFC 6901).
func pointer(base, key string) string {
	return base + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
