package playbooks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// Diagnostics is everything that is wrong in all files, sorted by place. Its Error is one
// paragraph per problem: file:line:col, message, snippet with a caret, expected, hint.
// errors.Is(err, core.ErrInvalid) holds.
type Diagnostics []Diagnostic

// Diagnostic is one problem.
type Diagnostic struct {
	File     string `json:"file"`
	Line     int    `json:"line"` // from 1; 0 when the problem is the file as a whole
	Col      int    `json:"col"`  // from 1, in characters
	Message  string `json:"message"`
	Snippet  string `json:"snippet,omitempty"` // two lines: the source and the caret below it
	Expected string `json:"expected,omitempty"`
	Hint     string `json:"hint,omitempty"`
	Included string `json:"included,omitempty"` // where the file is included, as file:line:col
}

const includedAt = ", included at "

// Playbook returns the file of the playbook that has the problem, or includes the file that has it.
func (d Diagnostic) Playbook() string {
	if d.Included == "" {
		return d.File
	}
	outermost := d.Included // file:line:col
	if at := strings.LastIndex(outermost, includedAt); at >= 0 {
		outermost = outermost[at+len(includedAt):]
	}
	for range 2 {
		outermost = outermost[:max(0, strings.LastIndex(outermost, ":"))]
	}
	return outermost
}

func (d Diagnostics) Error() string {
	return strings.Join(core.Map(d, Diagnostic.String), "\n\n")
}

// Is makes errors.Is(err, core.ErrInvalid) hold: the caller's file is wrong.
func (d Diagnostics) Is(target error) bool { return target == core.ErrInvalid }

// Place is file:line:col, or the file alone.
func (d Diagnostic) Place() string {
	if d.Line == 0 {
		return d.File
	}
	return fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Col)
}

// String is the whole paragraph, without a newline at its end.
func (d Diagnostic) String() string {
	var b strings.Builder
	b.WriteString(d.Place() + ": " + d.Message)
	if d.Snippet != "" {
		b.WriteString("\n" + d.Snippet)
	}
	if d.Included != "" {
		b.WriteString("\n  included at " + d.Included)
	}
	if d.Expected != "" {
		b.WriteString("\n  expected " + d.Expected)
	}
	if d.Hint != "" {
		b.WriteString("\n  hint: " + d.Hint)
	}
	return b.String()
}

// sorted orders by file, then place. Problems of one place stay as they were found.
func (d Diagnostics) sorted() Diagnostics {
	slices.SortStableFunc(d, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return d
}

// Diagnose is a problem with one of Calls that shows only when the playbook is launched.
func (p *Playbook) Diagnose(call int, message, expected, hint string) Diagnostic {
	s := p.Calls()[call]
	return s.src.diagnose(s.src.wholeLine(s.Line), problem{message, expected, hint})
}

// Place is where the step is written, as file:line, and where that file is included.
func (s Step) Place() string {
	if s.src == nil {
		return ""
	}
	at := fmt.Sprintf("%s:%d", s.src.file, s.Line)
	if s.src.included != "" {
		at += includedAt + s.src.included
	}
	return at
}

// problem is a diagnostic before it has a place.
type problem struct {
	message  string
	expected string
	hint     string
}

func (s *source) diagnose(at span, p problem) Diagnostic {
	if at.line > len(s.starts) { // YAML places an empty value behind the end
		at = span{line: len(s.starts), col: 1, width: 1}
	}
	clean := func(text string) string { return strings.Map(printable, text) } // what is quoted must not steer a terminal
	return Diagnostic{
		File: s.file, Line: at.line, Col: at.col, Snippet: s.snippet(at),
		Message: clean(p.message), Expected: clean(p.expected), Hint: clean(p.hint), Included: s.included,
	}
}
