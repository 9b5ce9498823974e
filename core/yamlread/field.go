package yamlread

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// Text is a field of any single value that is not empty, as it is written.
func (r *Reader) Text(key string, into *string) Field {
	return Field{Key: key, Want: "text", Read: func(n *yaml.Node) {
		v, ok := r.Scalar(n, "text")
		if ok && v.Value == "" {
			r.Mismatch(n, v, "text", "")
		} else if ok {
			*into = v.Value
		}
	}}
}

// Texts is a field of one text or a list of texts.
func (r *Reader) Texts(key string, into *[]string) Field {
	return Field{Key: key, Want: "text, or a list of texts", Read: func(n *yaml.Node) {
		for _, v := range r.OneOrMore(n, "text, or a list of texts") {
			if v.Value == "" {
				r.Mismatch(v, v, "text, or a list of texts", "")
			}
			*into = append(*into, v.Value)
		}
	}}
}

// OneOrMore returns a single value, or those of a list.
func (r *Reader) OneOrMore(n *yaml.Node, want string) (out []*yaml.Node) {
	target, ok := r.Follow(n)
	if !ok {
		return nil
	}
	items := []*yaml.Node{n}
	if target.Kind == yaml.SequenceNode {
		items = target.Content
	}
	for _, item := range items {
		if v, ok := r.Scalar(item, want); ok {
			out = append(out, v)
		}
	}
	return out
}

// Each is a field of a list, of which every item is read.
func (r *Reader) Each(key string, most int, read func(item *yaml.Node)) Field {
	want := fmt.Sprintf("a list of at most %d", most)
	return Field{Key: key, Want: want, Read: func(n *yaml.Node) {
		items := r.List(n, want)
		if len(items) > most {
			r.report(items[most], Fault{Message: fmt.Sprintf("%s has %d items", key, len(items)), Expected: fmt.Sprintf("%d at most", most)})
			return
		}
		for _, item := range items {
			if r.Full {
				return
			}
			r.key = key
			read(item)
		}
	}}
}

// Value is a field of a single value that a parser reads.
func Value[T any](r *Reader, key string, into *T, parse func(string) (T, error)) Field {
	return Field{Key: key, Read: func(n *yaml.Node) { r.key = key; Parse(r, n, into, parse) }}
}

// Parse reads a single value. The parser's error becomes the fault, which repeats the value unless
// that may be a secret; into stays as it is then.
func Parse[T any](r *Reader, n *yaml.Node, into *T, parse func(string) (T, error)) {
	target, ok := r.Scalar(n, "a single value")
	if !ok {
		return
	}
	v, err := parse(target.Value)
	if err == nil {
		*into = v
		return
	}
	f, ok := errors.AsType[Fault](err)
	switch {
	case r.Secret: // a parser's message may quote the value
		if f.Message = r.key; f.Expected == "" {
			f.Message += " has a value of a wrong form"
		}
		r.report(n, f)
		return
	case !ok:
		f.Message = strings.TrimPrefix(strings.TrimSuffix(err.Error(), ": invalid"), "invalid ")
	}
	if quoted := Quote(target.Value); !strings.Contains(f.Message, quoted) {
		f.Message = strings.TrimSuffix(r.key+" "+quoted+": "+f.Message, ": ")
	}
	r.report(n, f)
}

// Choice is a field of one of some words.
func Choice[T ~string](r *Reader, key string, into *T, words ...T) Field {
	f := Value(r, key, into, Words(words...))
	f.Want = OneOf(words)
	return f
}

// Words returns a parser of one of some words.
func Words[T ~string](words ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		if slices.Contains(words, T(text)) {
			return T(text), nil
		}
		names := core.Map(words, func(w T) string { return string(w) })
		return "", Fault{Expected: OneOf(words), Hint: DidYouMean(text, names)}
	}
}

// Int is a field of a whole number within bounds.
func (r *Reader) Int(key string, into *int, low, high int) Field {
	return Value(r, key, into, Whole(low, high))
}

// Whole returns a parser of a whole number within bounds.
func Whole(low, high int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return 0, Fault{Expected: fmt.Sprintf("a whole number from %d to %d", low, high)}
		}
		return n, nil
	}
}

// Bool is a field that is true or false, as YAML 1.2 has it.
func (r *Reader) Bool(key string, into *bool) Field {
	return Value(r, key, into, func(text string) (bool, error) {
		if text != "true" && text != "false" {
			return false, Fault{Expected: "true or false"}
		}
		return text == "true", nil
	})
}
