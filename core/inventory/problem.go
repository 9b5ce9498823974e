package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// Error is one mistake in a file that a person wrote.
type Error struct {
	File      string
	Line, Col int // from 1
	Msg       string
	Hint      string // what to do next; may be empty
	Secret    bool   // the line may hold a password: do not show it
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Msg)
	if e.Hint != "" {
		s += "\n    hint: " + e.Hint
	}
	return s
}

// Unwrap reports that the caller's input is wrong.
func (e *Error) Unwrap() error { return core.ErrInvalid }

// Errors is every mistake that was found, in the order of files and lines.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, 0, len(e)+1)
	for i, one := range e {
		if i == maxShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(e)-maxShown))
			break
		}
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.Is and errors.As every mistake.
func (e Errors) Unwrap() []error {
	return core.Map(e, func(one *Error) error { return one })
}

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return e
}

const (
	maxErrors = 1000 // collected over all files
	maxShown  = 50   // in one message
)

// place is where something was written.
type place struct {
	file      string
	line, col int
}

func (p place) String() string { return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.col) }

// file is one file being read.
type file struct {
	*yamlread.Reader
	name  string
	b     *builder
	given bool // it is a Document
}

func (b *builder) file(name string) *file {
	f := &file{name: name, b: b}
	f.Reader = yamlread.NewReader(func(n *yaml.Node, fault yamlread.Fault) {
		at := f.at(n.Line, n.Column)
		e := &Error{File: at.file, Line: at.line, Col: at.col, Msg: fault.Error(), Hint: fault.Hint}
		if len(b.errs) < maxErrors || f.Full { // the reason why no more is read is always reported
			b.errs = append(b.errs, e)
		}
	})
	f.Bounds, f.Empty = &b.bounds, true
	return f
}

func (f *file) at(line, col int) place { return place{f.name, max(line, 1), max(col, 1)} }

func (f *file) fail(line, col int, format string, args ...any) {
	f.b.fail(f.at(line, col), format, args...)
}

func (f *file) problem(line, col int, format string, args ...any) *Error {
	return f.b.problem(f.at(line, col), format, args...)
}

func (f *file) warn(line, col int, format string, args ...any) {
	f.b.warn(f.at(line, col), format, args...)
}

func (b *builder) fail(at place, format string, args ...any) {
	_ = b.problem(at, format, args...)
}

// problem keeps a mistake, as fail does, and gives it back for a hint.
func (b *builder) problem(at place, format string, args ...any) *Error {
	e := &Error{File: at.file, Line: at.line, Col: at.col, Msg: fmt.Sprintf(format, args...)}
	if len(b.errs) < maxErrors {
		b.errs = append(b.errs, e)
	}
	return e
}

func (b *builder) warn(at place, format string, args ...any) {
	w := at.String() + ": " + fmt.Sprintf(format, args...)
	if len(b.warnings) < maxErrors && !b.warned[w] {
		b.warned[w] = true
		b.warnings = append(b.warnings, w)
	}
}
