// Package redact owns taking the values of secrets out of text: as they are, and in the forms in
// which programs write them. It replaces each by [secret NAME].
//
// It finds these forms of a value:
//
//   - plain, and each longer line of a value that has several;
//   - base64, in both alphabets, at any place of the encoded bytes, also over line ends;
//   - hex, of one case;
//   - as in a URL: %2F and %2f, as Go, Python and browsers escape it;
//   - as in JSON, HTML, and as a quoted word of a shell.
//
// At the end of a text it also finds the first half of a form, from 16 bytes on.
//
// It takes nothing else for a part of a value. Otherwise an attacker who controls a text could try
// beginnings, and read from the replaced ones which are right. So take values out before a text is
// cut; if that is not possible, cut between words.
//
// It cannot find values that were encrypted, compressed, hashed, reversed, or split by other text.
// It does not find values that were encoded twice, as base64 of base64: that would be hundreds of
// forms of each value, which nobody writes by mistake.
//
// The package must not know where values come from, nor what the text is.
package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/turnus/turnus/core"
)

// Bounds of values, in bytes, the white space around them left out.
const (
	MinValue  = 4 // what is shorter is in every text, and would only spoil it
	MaxValue  = 64 << 10
	MaxValues = 4096 // of one Set
)

// Value is a value and the name that is in its place.
type Value struct {
	Name  string
	Bytes []byte
}

// Set is values that must show nowhere. It is safe for concurrent use. A nil Set has none, and
// changes nothing.
type Set struct {
	mu     sync.RWMutex
	values map[string]string // to their names
	forms  map[string]bool
	begins [1 << 10]uint64       // bits of the first two bytes of all patterns
	first  [1 << 8]bool          // the first bytes
	spread [1 << 8]bool          // the first bytes of loose patterns
	by     map[uint16][]*pattern // by their first two bytes, the longest first
}

// pattern is one form of one value.
type pattern struct {
	text  string
	name  string
	loose bool // white space may stand within it
}

// New makes a Set. Errors are those of Add.
func New(values ...Value) (*Set, error) {
	s := &Set{values: map[string]string{}, forms: map[string]bool{}, by: map[uint16][]*pattern{}}
	return s, s.Add(values...)
}

// Add takes further values in; one that is there already changes nothing. A value that is too short
// or too long, or one value too many, is core.ErrInvalid, and names the secret; those before it are
// in.
func (s *Set) Add(values ...Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		text := bytes.TrimSpace(v.Bytes)
		if _, known := s.values[string(text)]; known {
			continue
		}
		switch {
		case len(text) < MinValue:
			return fmt.Errorf("secret %s has a value of %d bytes: expected at least %d, because a shorter one looks like other text and cannot be kept out of it: %w",
				v.Name, len(text), MinValue, core.ErrInvalid)
		case len(text) > MaxValue:
			return fmt.Errorf("secret %s has a value of %d bytes: expected at most %d: %w", v.Name, len(text), MaxValue, core.ErrInvalid)
		case len(s.values) >= MaxValues:
			return fmt.Errorf("secret %s is one too many: at most %d values are kept out of a text: %w", v.Name, MaxValues, core.ErrInvalid)
		}
		s.values[string(text)] = v.Name
		for _, f := range formsOf(text) {
			s.add(&pattern{text: f.text, name: v.Name, loose: f.loose})
		}
	}
	return nil
}

// AddAll takes in the values of another set. Errors are those of Add.
func (s *Set) AddAll(other *Set) error {
	if other == nil || other == s {
		return nil
	}
	other.mu.RLock()
	all := make([]Value, 0, len(other.values))
	for value, name := range other.values {
		all = append(all, Value{name, []byte(value)})
	}
	other.mu.RUnlock()
	return s.Add(all...)
}

// add needs s.mu.
func (s *Set) add(p *pattern) {
	if s.forms[p.text] {
		return
	}
	s.forms[p.text] = true
	key := uint16(p.text[0])<<8 | uint16(p.text[1])
	s.begins[key>>6] |= 1 << (key & 63)
	s.first[p.text[0]] = true
	s.spread[p.text[0]] = s.spread[p.text[0]] || p.loose
	of := s.by[key]
	at, _ := slices.BinarySearchFunc(of, p, func(a, b *pattern) int { return len(b.text) - len(a.text) })
	s.by[key] = slices.Insert(of, at, p)
}

// Len is how many values the set has.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.values)
}

// String is text without the values.
func (s *Set) String(text string) string {
	if s == nil || text == "" {
		return text
	}
	var found []match
	s.mu.RLock()
	found, _ = s.scan([]byte(text), nil, atEnd)
	s.mu.RUnlock()
	if len(found) == 0 {
		return text
	}
	var out []byte
	stream := Stream{set: s, out: func(b []byte) { out = append(out, b...) }}
	_, _ = stream.Write([]byte(text))
	stream.Flush()
	return string(out)
}

// Any returns a JSON value without the secret values: its texts, the keys of its objects, and
// numbers that are a value. It copies the parts that it changes.
func (s *Set) Any(v any) any {
	if s == nil {
		return v
	}
	switch v := v.(type) {
	case string:
		return s.String(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			out[s.String(k)] = s.Any(inner)
		}
		return out
	case []any:
		return core.Map(v, s.Any)
	case nil, bool:
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return v
	}
	if name, found := s.Find(text); found {
		return tag(name)
	}
	return v
}

// Find reports which secret a text holds the value of, if any.
func (s *Set) Find(text []byte) (name string, holds bool) {
	if s == nil {
		return "", false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	found, _ := s.scan(text, nil, whole)
	if len(found) == 0 {
		return "", false
	}
	return found[0].name, true
}

// FindJSON is Find in a JSON document, whose texts may be escaped in any way. Bytes that are not
// JSON are searched as text.
func (s *Set) FindJSON(doc []byte) (name string, holds bool) {
	if name, holds = s.Find(doc); holds || s == nil {
		return name, holds
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return "", false
	}
	return s.findIn(v)
}

func (s *Set) findIn(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return s.Find([]byte(v))
	case map[string]any:
		for k, inner := range v {
			if name, found := s.Find([]byte(k)); found {
				return name, true
			}
			if name, found := s.findIn(inner); found {
				return name, true
			}
		}
	case []any:
		for _, inner := range v {
			if name, found := s.findIn(inner); found {
				return name, true
			}
		}
	}
	return "", false
}

// Mark begins the text that replaces a value.
const Mark = "[secret "

func tag(name string) string { return Mark + name + "]" }
