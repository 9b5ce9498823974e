package core

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxPattern limits the instructions of a regular expression: {1000} writes a thousand in six
// bytes.
const maxPattern = 10_000

// ErrPattern is a regular expression of more than maxPattern instructions.
var ErrPattern = fmt.Errorf("the pattern needs more than %d instructions", maxPattern)

// CompilePattern compiles a regular expression, and returns the number of its instructions. A match
// takes at most as many steps for each byte of the text. Errors are ErrPattern, or those of the
// syntax.
func CompilePattern(text string) (re *regexp.Regexp, size int, err error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, 0, err
	}
	if len(program.Inst) > maxPattern {
		return nil, 0, ErrPattern
	}
	re, err = regexp.Compile(text)
	return re, len(program.Inst), err
}
