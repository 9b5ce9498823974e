package yamlread

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// Fault is a problem with a value, without its place. A parser that a table calls may return one.
type Fault struct{ Message, Expected, Hint string }

// Error is the fault without its hint.
func (f Fault) Error() string {
	switch {
	case f.Expected == "":
		return f.Message
	case f.Message == "":
		return "expected " + f.Expected
	}
	return f.Message + ": expected " + f.Expected
}

// Problem is a fault at its place. Line and Col count from 1; line 0 is the file as a whole.
type Problem struct {
	File      string
	Line, Col int
	Fault
}

// Place returns file:line:col, or the file alone.
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

func (p Problem) String() string {
	text := p.Place() + ": " + p.Error()
	if p.Hint != "" {
		text += "\n  hint: " + p.Hint
	}
	return text
}

// Problems is everything that is wrong in a file. errors.Is(err, core.ErrInvalid) holds.
type Problems []Problem

func (p Problems) Error() string {
	return strings.Join(core.Map(p, Problem.String), "\n")
}

// Is makes errors.Is(err, core.ErrInvalid) hold: the file is wrong.
func (p Problems) Is(target error) bool { return target == core.ErrInvalid }

// Err returns the problems as an error; nil if there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Reader returns a reader that adds what it finds in a file.
func (p *Problems) Reader(file string) *Reader {
	return NewReader(func(n *yaml.Node, f Fault) { *p = append(*p, Problem{file, n.Line, n.Column, f}) })
}

// Open is Reader with the root of the file's only document, which is nil if there is none or it is
// not YAML.
func (p *Problems) Open(file string, data []byte) (*Reader, *yaml.Node) {
	root, err := Root(data)
	if err != nil {
		*p = append(*p, Problem{File: file, Fault: Fault{Message: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}})
	}
	return p.Reader(file), root
}

// OpenSecret is Open of a file in which a value may be a secret: the reader is Secret, and nothing
// of the text is repeated if it is not YAML.
func (p *Problems) OpenSecret(file string, data []byte) (*Reader, *yaml.Node) {
	root, err := Root(data)
	if err != nil {
		*p = append(*p, Problem{File: file, Fault: Fault{Message: Conceal(err).Error()}})
	}
	r := p.Reader(file)
	r.Secret = true
	return r, root
}

// Conceal returns an error of the YAML parser without its quotes of the text.
func Conceal(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if text, _, _ = strings.Cut(text, "'"); strings.ContainsAny(text, "\"`") || len(text) > 120 {
		return errors.New("not YAML")
	}
	return fmt.Errorf("not YAML: %s", strings.TrimSpace(text))
}

// Clip keeps text short, and a terminal from being steered by it.
func Clip(text string) string { return ClipTo(text, 60) }

// ClipTo is Clip with another bound of characters.
func ClipTo(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// Quote is Clip in quotes.
func Quote(text string) string { return fmt.Sprintf("%q", Clip(text)) }

// mostNamed is how many words a message lists.
const mostNamed = 24

// OneOf names what a word may be.
func OneOf[T ~string](names []T) string {
	text := core.Map(names[:min(len(names), mostNamed)], func(name T) string { return string(name) })
	switch {
	case len(names) == 1:
		return text[0]
	case len(names) > mostNamed:
		return fmt.Sprintf("one of: %s, … (%d in all)", strings.Join(text, ", "), len(names))
	case len(names) == 0:
		return ""
	}
	return "one of: " + strings.Join(text, ", ")
}

// Kind names a value's kind and, if it is a scalar, the value.
func Kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!bool":
		return "the boolean " + n.Value
	case "!!int", "!!float":
		return "the number " + Clip(n.Value)
	}
	return "the text " + Quote(n.Value)
}

// IsNull reports whether nothing stands there.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func keysOf(fields []Field) []string {
	return core.Map(fields, func(f Field) string { return f.Key })
}
