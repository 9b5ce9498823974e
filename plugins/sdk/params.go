package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// params decodes the with: of a step into a P.
type params[P any] struct{ schema *schema }

func mustParams[P any](of string) params[P] {
	p := params[P]{schema: mustSchema[P](of)}
	if bad := p.schema.checkDefaults(p.schema.root); bad != "" {
		panic(fmt.Sprintf("sdk: %s: %s", of, bad))
	}
	return p
}

// validator is implemented by a params struct that has rules beyond its schema.
type validator interface{ Validate() error }

// ParamError is the error of Validate for one parameter.
type ParamError struct {
	Pointer string // JSON pointer, as in /headers/0
	Err     error
}

func (e *ParamError) Error() string { return e.Pointer + ": " + e.Err.Error() }

func (e *ParamError) Unwrap() error { return e.Err }

// Problems collects the errors of Validate, so that it reports all of them.
type Problems []error

// Add adds the error of one parameter; "" as pointer is for all parameters together.
func (p *Problems) Add(pointer, format string, args ...any) {
	*p = append(*p, &ParamError{Pointer: pointer, Err: fmt.Errorf(format, args...)})
}

// Path adds an error unless the path is absolute, the shortest of its place, not the root, and
// without control characters.
func (p *Problems) Path(pointer, found string) {
	if strings.ContainsFunc(found, unicode.IsControl) {
		p.Add(pointer, "expected a path without control characters; found %q", found)
	} else if !path.IsAbs(found) || path.Clean(found) != found || found == "/" {
		p.Add(pointer, "expected an absolute path without . and .. and a slash at its end; found %q", found)
	}
}

// Err joins the errors. It returns nil without any.
func (p Problems) Err() error { return errors.Join(p...) }

// decode is strict: what the schema does not name is an error, as is a value that it
// does not allow. All errors are reported, not the first alone.
func (p params[P]) decode(raw []byte) (P, []*wire.Diagnostic) {
	var value P
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // a float64 would lose digits of large integers
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return value, []*wire.Diagnostic{problem("", fmt.Sprintf("parameters are not JSON: %v", err))}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return value, []*wire.Diagnostic{problem("", "parameters: more than one JSON value")}
	}
	walk := walker{patterns: p.schema.patterns}
	walk.value("", p.schema.root, tree)
	if len(walk.found) > 0 {
		return value, walk.found
	}
	full, err := json.Marshal(tree) // with the defaults
	if err == nil {
		err = words.Unmarshal("with", full, &value)
	}
	if misfit, ok := errors.AsType[*words.Error](err); ok {
		return value, []*wire.Diagnostic{problem(misfit.Pointer, misfit.Text)}
	}
	if err != nil {
		return value, []*wire.Diagnostic{problem("", err.Error())}
	}
	if v, ok := any(&value).(validator); ok {
		if err := v.Validate(); err != nil {
			return value, validateProblems(err)
		}
	}
	return value, nil
}

// validateProblems takes joined errors apart.
func validateProblems(err error) []*wire.Diagnostic {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*wire.Diagnostic
		for _, one := range joined.Unwrap() {
			all = append(all, validateProblems(one)...)
		}
		return all
	}
	if at, ok := errors.AsType[*ParamError](err); ok {
		return []*wire.Diagnostic{problem(at.Pointer, words.Plain(at.Err).Error())}
	}
	return []*wire.Diagnostic{problem("", words.Plain(err).Error())}
}

func problem(pointer, summary string) *wire.Diagnostic {
	return &wire.Diagnostic{Severity: wire.Diagnostic_ERROR, Pointer: pointer, Summary: summary}
}

func diagnosticsText(diags []*wire.Diagnostic) string {
	lines := make([]string, len(diags))
	for i, d := range diags {
		lines[i] = d.GetSummary()
		if d.GetPointer() != "" {
			lines[i] = words.At("with", d.GetPointer()) + ": " + lines[i]
		}
	}
	return strings.Join(lines, "; ")
}

// checkDefaults returns what is wrong with a default that its own schema refuses.
func (s *schema) checkDefaults(js *jsonschema.Schema) string {
	for name, property := range js.Properties {
		if property.Default != nil {
			walk := walker{patterns: s.patterns}
			walk.value("/"+name, property, decoded(property.Default))
			if len(walk.found) > 0 {
				return "default: " + diagnosticsText(walk.found)
			}
		}
		if bad := s.checkDefaults(property); bad != "" {
			return bad
		}
	}
	if js.Items != nil {
		return s.checkDefaults(js.Items)
	}
	return ""
}

func decoded(raw json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	_ = decoder.Decode(&v) // it was marshalled or checked by literal
	return v
}

// maxProblems bounds what one bad with: can print.
const maxProblems = 50

// walker checks a value against a schema, fills in defaults, and collects what is wrong.
type walker struct {
	patterns map[string]*regexp.Regexp
	found    []*wire.Diagnostic
}

func (w *walker) fail(pointer, format string, args ...any) {
	if len(w.found) < maxProblems {
		w.found = append(w.found, problem(pointer, fmt.Sprintf(format, args...)))
	}
}

func (w *walker) value(at string, js *jsonschema.Schema, v any) {
	if !kindFits(js, v) {
		w.fail(at, "expected %s, found %s", expected(js), words.Found(v))
		return
	}
	if len(js.Enum) > 0 && !slices.ContainsFunc(js.Enum, func(one any) bool { return jsonEqual(one, v) }) {
		w.fail(at, "expected one of %s, found %s", enumText(js.Enum), words.Found(v))
		return
	}
	switch v := v.(type) {
	case string:
		w.text(at, js, v)
	case json.Number:
		w.number(at, js, v)
	case []any:
		w.list(at, js, v)
	case map[string]any:
		w.object(at, js, v)
	}
}

func (w *walker) text(at string, js *jsonschema.Schema, v string) {
	n := utf8.RuneCountInString(v)
	if js.MinLength != nil && n < *js.MinLength {
		if n == 0 {
			w.fail(at, "must not be empty")
		} else {
			w.fail(at, "expected at least %d characters, found %d", *js.MinLength, n)
		}
	}
	if js.MaxLength != nil && n > *js.MaxLength {
		w.fail(at, "expected at most %d characters, found %d", *js.MaxLength, n)
	}
	if strings.Contains(v, "\x00") { // no argument, file name or variable can hold it
		w.fail(at, "expected text without a NUL byte")
		return
	}
	isPath := strings.HasPrefix(js.Pattern, "^/") || strings.HasPrefix(js.Pattern, "^(/")
	if isPath && strings.ContainsFunc(v, unicode.IsControl) {
		w.fail(at, "expected a path without control characters, found %s", words.Found(v))
		return
	}
	if js.Pattern == "" || w.patterns[js.Pattern].MatchString(v) {
		return
	}
	switch js.Pattern {
	case durationPattern:
		w.fail(at, `expected a duration such as "90s", "1h30m" or "2d", found %s`, words.Found(v))
	case sizePattern:
		w.fail(at, `expected a size such as "10MiB" or a number of bytes, found %s`, words.Found(v))
	default:
		w.fail(at, "%s does not match %s", words.Found(v), js.Pattern)
	}
}

func (w *walker) number(at string, js *jsonschema.Schema, v json.Number) {
	n, err := v.Float64()
	if err != nil {
		w.fail(at, "number %s is out of range", v)
		return
	}
	if js.Minimum != nil && n < *js.Minimum {
		w.fail(at, "expected at least %v, found %s", *js.Minimum, v)
	}
	if js.Maximum != nil && n > *js.Maximum {
		w.fail(at, "expected at most %v, found %s", *js.Maximum, v)
	}
}

func (w *walker) list(at string, js *jsonschema.Schema, v []any) {
	if js.MinItems != nil && len(v) < *js.MinItems {
		w.fail(at, "expected at least %d entries, found %d", *js.MinItems, len(v))
	}
	if js.MaxItems != nil && len(v) > *js.MaxItems {
		w.fail(at, "expected at most %d entries, found %d", *js.MaxItems, len(v))
	}
	if js.Items == nil {
		return
	}
	for i, item := range v {
		w.value(at+"/"+strconv.Itoa(i), js.Items, item)
	}
}

func (w *walker) object(at string, js *jsonschema.Schema, v map[string]any) {
	for _, name := range sortedKeys(v) {
		property := js.Properties[name]
		if property == nil {
			property = additional(js)
		}
		if property == nil {
			w.fail(at+"/"+escapePointer(name), "unknown parameter %q%s", name, suggestion(name, js.Properties))
			continue
		}
		w.value(at+"/"+escapePointer(name), property, v[name])
	}
	for _, name := range js.Required {
		if _, given := v[name]; !given {
			w.fail(at, "parameter %q is required", name)
		}
	}
	for name, property := range js.Properties {
		if _, given := v[name]; !given && property.Default != nil {
			v[name] = property.Default
		}
	}
}
