package words

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error is a value that is not what was expected at its place.
type Error struct {
	Base    string // what was read, such as with
	Pointer string // JSON pointer of the value within it
	Text    string // what was expected, and what was found
	err     error
}

func (e *Error) Error() string { return At(e.Base, e.Pointer) + ": " + e.Text }

// Unwrap is the error of encoding/json. Its text names Go types.
func (e *Error) Unwrap() error { return e.err }

// Unmarshal is json.Unmarshal. Its error is an *Error that names the value within base that does
// not fit.
func Unmarshal(base string, raw []byte, v any) error {
	return Explain(base, raw, v, json.Unmarshal(raw, v))
}

// Explain is the error of decoding raw into v in words: nil for nil, else an *Error.
func Explain(base string, raw []byte, v any, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Base: base, err: err}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok || !json.Valid(raw) {
		e.Text = "expected JSON: " + plain(err)
		return e
	}
	at, text := locate("", raw, reflect.TypeOf(v))
	if text == "" { // the error is not about one value
		text = plain(err)
	}
	e.Pointer, e.Text = at, text
	return e
}

// locate finds the first value that does not fit its Go type. encoding/json knows no index of a
// list and no key of a mapping, and nothing at all about a type that decodes itself.
func locate(at string, raw []byte, t reflect.Type) (pointer, text string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	err := json.Unmarshal(raw, reflect.New(t).Interface())
	if err == nil {
		return "", ""
	}
	var found any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&found) // it is valid
	own := decodesItself(t)
	if !own {
		if at, text := within(at, raw, t); text != "" {
			return at, text
		}
	}
	typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err)
	_, named := byName[t.String()]
	switch {
	case ok && own && typeErr.Field != "":
		return at + field(typeErr.Field, found), mismatch(typeErr)
	case ok && !own && typeErr.Type != t: // a key of a mapping
		return at, mismatch(typeErr)
	case !ok && !named:
		return at, plain(err) // the words of the type's author
	}
	return at, fmt.Sprintf("expected %s, found %s", expected(t), Found(found))
}

// field is the pointer of a field that encoding/json names: among the keys there are Go names of
// embedded types.
func field(name string, v any) (at string) {
	for key := range strings.SplitSeq(name, ".") {
		m, _ := v.(map[string]any)
		if inner, ok := m[key]; ok {
			at, v = pointer(at, key), inner
		}
	}
	return at
}

// within searches a list or a mapping.
func within(at string, raw []byte, t reflect.Type) (string, string) {
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		var items []json.RawMessage
		_ = json.Unmarshal(raw, &items) // else it is no list, which is the error
		for i, item := range items {
			if at, text := locate(pointer(at, strconv.Itoa(i)), item, t.Elem()); text != "" {
				return at, text
			}
		}
	case reflect.Map, reflect.Struct:
		var values map[string]json.RawMessage
		_ = json.Unmarshal(raw, &values)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			elem, ok := member(t, key)
			if !ok {
				continue
			}
			if at, text := locate(pointer(at, key), values[key], elem); text != "" {
				return at, text
			}
		}
	}
	return "", ""
}

// member is the type that a mapping has for the values of a key.
func member(t reflect.Type, key string) (reflect.Type, bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || !f.IsExported() || name == "-" {
			continue
		}
		name = cmp.Or(name, f.Name)
		if strings.EqualFold(name, key) {
			return f.Type, true
		}
	}
	return nil, false
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// byName are types of libraries whose errors name Go.
var byName = map[string]string{
	"time.Time": `a time such as "2026-01-02T15:04:05Z"`, "big.Int": "a whole number", "big.Rat": "a number", "big.Float": "a number",
	"slog.Level": `a level such as "INFO"`, "netip.Addr": "an IP address", "netip.Prefix": `a network such as "10.0.0.0/8"`,
	"netip.AddrPort": `an address with a port such as "10.0.0.1:22"`, "net.IP": "an IP address", "jsonschema.Schema": "a schema",
}

// expected returns the name of a Go type's values in a playbook.
func expected(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := byName[t.String()]; ok {
		return name
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return Kind("string")
	}
	switch t.Kind() {
	case reflect.Bool:
		return Kind("boolean")
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := int64(math.MaxInt64) >> (64 - t.Bits())
		return fmt.Sprintf("%s from %d to %d", Kind("integer"), -most-1, most)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf("%s from 0 to %d", Kind("integer"), uint64(math.MaxUint64)>>(64-t.Bits()))
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return Kind("integer") + " from 0"
	case reflect.Int, reflect.Int64:
		return Kind("integer")
	case reflect.Float32, reflect.Float64:
		return Kind("number")
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "text in base64"
		}
		return Kind("array")
	case reflect.Map, reflect.Struct:
		return Kind("object")
	case reflect.String:
		return Kind("string")
	}
	return "something else"
}

// mismatch returns what a decoder met. Value names a kind of JSON, and shows a number.
func mismatch(e *json.UnmarshalTypeError) string {
	found := e.Value
	switch kind, number, _ := strings.Cut(e.Value, " "); kind {
	case "number":
		if found = "a number"; number != "" {
			found = "the number " + number
		}
	case "bool":
		found = Kind("boolean")
	default:
		if word := Kind(kind); word != "" {
			found = word
		}
	}
	return fmt.Sprintf("expected %s, found %s", expected(e.Type), found)
}

// plain is the text of err without names of Go types, as far as it comes from a decoder or an
// encoder.
func plain(err error) string {
	text := err.Error()
	replace := func(with string, part error) { text = strings.Replace(text, part.Error(), with, 1) }
	if e, ok := errors.AsType[*json.MarshalerError](err); ok {
		replace(plain(e.Err), e)
	} else if e, ok := errors.AsType[*json.UnsupportedTypeError](err); ok {
		replace(Type(e.Type)+" cannot be written as JSON", e)
	} else if e, ok := errors.AsType[*json.UnsupportedValueError](err); ok {
		what := e.Str
		if strings.HasPrefix(what, "encountered a cycle") {
			what = "a value that holds itself"
		}
		replace(what+" cannot be written as JSON", e)
	} else if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		with := mismatch(e)
		if e.Field != "" {
			with = e.Field + ": " + with
		}
		replace(with, e)
	} else if e, ok := errors.AsType[*time.ParseError](err); ok {
		replace(fmt.Sprintf("expected %s, found %s", byName["time.Time"], Found(e.Value)), e)
	}
	if rest, ok := strings.CutPrefix(text, "yaml: "); ok {
		text = plainYAML(rest)
	}
	text = strings.ReplaceAll(text, "jsonschema.Schema: ", "")
	return strings.TrimPrefix(text, "json: ")
}
