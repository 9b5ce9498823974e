package secrets

import (
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
)

// Problem is one thing that is wrong in a file of secrets. It quotes names and keys, never what
// stands behind them: that may be a secret that somebody wrote down.
type Problem struct {
	File    string
	Line    int // from 1; 0 is the file as a whole
	Col     int // from 1, in characters
	Message string
	Hint    string
}

// Place is file:line:col, or the file alone.
func (p Problem) Place() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

func (p Problem) String() string {
	text := p.Place() + ": " + p.Message
	if p.Hint != "" {
		text += "\n  hint: " + p.Hint
	}
	return text
}

// Problems is everything that is wrong in a file. errors.Is(err, core.ErrInvalid) holds.
type Problems []Problem

func (p Problems) Error() string {
	parts := make([]string, len(p))
	for i, one := range p {
		parts[i] = one.String()
	}
	return strings.Join(parts, "\n")
}

// Is makes errors.Is(err, core.ErrInvalid) hold: the file is wrong.
func (p Problems) Is(target error) bool { return target == core.ErrInvalid }
