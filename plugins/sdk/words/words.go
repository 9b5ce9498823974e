package words

import (
	"reflect"
	"regexp"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// Plain returns err, or the error of a decoder or encoder that it wraps, without names of Go types.
// Others, and nil, are returned as they are.
func Plain(err error) error {
	if err == nil {
		return nil
	}
	text := plain(err)
	if text == err.Error() {
		return err
	}
	return &plainError{text: text, err: err}
}

type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }

func (e *plainError) Unwrap() error { return e.err }

// Type returns the word for a Go type that has no place in JSON.
func Type(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Func:
		return "a function"
	case reflect.Chan:
		return "a channel"
	case reflect.Complex64, reflect.Complex128:
		return "a complex number"
	case reflect.Map:
		return "a mapping whose keys are not text"
	}
	return "a value of this kind"
}

var (
	yamlField = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`field (.+?) not found in type \S+`) })
	yamlKind  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("cannot unmarshal !!(\\w+)(?: (`[^`]*`))? into ([^\n]+)")
	})
	yamlKinds = map[string]string{"str": "string", "int": "integer", "float": "number", "bool": "boolean", "seq": "array", "map": "object", "null": "null"}
)

// plainYAML takes Go types out of the messages of a YAML decoder.
func plainYAML(text string) string {
	text = strings.TrimPrefix(text, "unmarshal errors:\n  ")
	text = yamlField().ReplaceAllString(text, "unknown key $1")
	text = yamlKind().ReplaceAllStringFunc(text, func(all string) string {
		m := yamlKind().FindStringSubmatch(all)
		found := strings.TrimSpace(Kind(yamlKinds[m[1]]) + " " + m[2])
		return "expected " + yamlExpected(m[3]) + ", found " + found
	})
	return strings.ReplaceAll(text, "\n  ", "; ") // of what a plugin prints at its end, a worker shows the last line
}

// yamlExpected reads the name of a Go type: a YAML decoder keeps nothing else of it.
func yamlExpected(goType string) string {
	switch name := strings.TrimLeft(goType, "*"); {
	case strings.HasPrefix(name, "[]"):
		return Kind("array")
	case name == "string":
		return Kind("string")
	case name == "bool":
		return Kind("boolean")
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return Kind("integer")
	case strings.HasPrefix(name, "float"):
		return Kind("number")
	}
	return Kind("object")
}

// Misfit is the error err of a JSON Schema about a decoded value, with the place within base and
// the words of a playbook; nil for nil.
func Misfit(base string, s *jsonschema.Schema, v any, err error) error {
	if err == nil {
		return nil
	}
	if at, text := wrongKind("", s, v); text != "" {
		return &Error{Base: base, Pointer: at, Text: text, err: err}
	}
	text := err.Error()
	if i := strings.LastIndex(text, "validating "); i >= 0 { // the innermost schema
		text = strings.TrimPrefix(text[i:], "validating ")
	}
	return &Error{Base: base, Text: strings.TrimPrefix(text, "root: "), err: err}
}

// wrongKind finds the first value of another kind than its schema has.
func wrongKind(at string, s *jsonschema.Schema, v any) (string, string) {
	if s == nil {
		return "", ""
	}
	allowed := s.Types
	if s.Type != "" {
		allowed = []string{s.Type}
	}
	if len(allowed) > 0 && !fits(allowed, v) {
		return at, "expected " + Kind(allowed...) + ", found " + Found(v)
	}
	return inside(at, s, v)
}
